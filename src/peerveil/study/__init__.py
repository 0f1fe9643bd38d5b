"""A study: a TOML file that names data, accounts with budgets, and actions of any module, and is run as a whole.

- **Everything a user can do**: :func:`all_actions`, each an :class:`Action`.
- **Read** a study: :class:`Study`; **write** one from a folder of data: :func:`new_study`.
- **Check** it: :func:`check_study` reads everything and says what would be spent and published (:class:`Checked`).
- **Run** it: :func:`run_study` (a :class:`StudyRun`); :class:`Declined` if somebody was asked and said no.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from peerveil.study.actions import Action, all_actions
    from peerveil.study.check import Checked, check_study
    from peerveil.study.new import new_study
    from peerveil.study.run import Declined, StudyRun, run_study
    from peerveil.study.spec import Study

__all__ = ["Action", "Checked", "Declined", "Study", "StudyRun", "all_actions", "check_study", "new_study", "run_study"]

# where each name lives; imported on first use, so that the help of a command stays quick
_HOMES: Final = {
    "Action": "actions",
    "Checked": "check",
    "Declined": "run",
    "Study": "spec",
    "StudyRun": "run",
    "all_actions": "actions",
    "check_study": "check",
    "new_study": "new",
    "run_study": "run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'peerveil.study' has no attribute {name!r}")
    return getattr(import_module(f"peerveil.study.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
