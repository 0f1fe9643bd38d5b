"""The console: the five rooms in a browser, on the same functions as the library and the study.

- **Start one**: ``peerveil console serve``; from Python :class:`Settings`, :class:`House` and
  :func:`peerveil.web.console.pages.create_app`.
- **Look before spending**: :mod:`peerveil.web.console.explore`, from public or invented data only.
- **Do it**: a run is a study file (:mod:`peerveil.web.console.runs`), carried out by :func:`peerveil.study.run_study` in a
  process of its own (:mod:`peerveil.web.console.work`).
"""

from peerveil.web.console.house import House, Settings

__all__ = ["House", "Settings"]
