"""The console: the five modules in a browser, on the same functions as the library and the study.

- **Start one**: ``peerveil console serve``; from Python :class:`ConsoleSettings`, :class:`ConsoleApp` and
  :func:`peerveil.web.console.server.create_app`.
- **Explore before spending**: :mod:`peerveil.web.console.explore`, from public or synthetic data only.
- **Run**: a run is a study file (:mod:`peerveil.web.console.runs`), executed by :func:`peerveil.study.run_study` in a process
  of its own (:mod:`peerveil.web.console.worker`).
"""

from peerveil.web.console.app import ConsoleApp, ConsoleSettings

__all__ = ["ConsoleApp", "ConsoleSettings"]
