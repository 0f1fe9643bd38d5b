"""The console: the five rooms in a browser, on the same functions as the library and the study.

- **Start one**: ``peerveil console serve``; from Python :class:`Settings`, :class:`House` and
  :func:`peerveil.console.web.create_app`.
- **Look before spending**: :mod:`peerveil.console.explore`, from public or invented data only.
- **Do it**: a run is a study file (:mod:`peerveil.console.runs`), carried out by :func:`peerveil.study.run_study` in a
  process of its own (:mod:`peerveil.console.work`).
"""

from peerveil.console.house import House, Settings

__all__ = ["House", "Settings"]
