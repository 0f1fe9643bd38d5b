"""A study: a TOML file that names data, accounts with budgets, and steps of any room, and is run as a whole.

- **Read** one: :class:`Study`; **write** one from a folder of data: :func:`new_study`.
- **Check** it: :func:`check_study` reads everything and says what would be spent and published (:class:`Checked`).
- **Run** it: :func:`run_study` (a :class:`StudyRun`); :class:`Declined` if somebody was asked and said no.
- **Steps**: :func:`all_steps`.
"""

from peerveil.study.check import Checked, all_steps, check_study
from peerveil.study.new import new_study
from peerveil.study.run import Declined, StudyRun, run_study
from peerveil.study.spec import Study

__all__ = ["Checked", "Declined", "Study", "StudyRun", "all_steps", "check_study", "new_study", "run_study"]
