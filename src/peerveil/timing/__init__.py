"""When people post: see the leak, choose the delay, post with it, attack it.

Comments that one person writes in one sitting appear minutes apart under several pseudonyms, and link them. The module
delays posts just enough that "written together" can hardly be distinguished from "written apart".

- **See the leak**: :func:`audit_log` (a :class:`TimingAudit`), :func:`find_batches`; out of core, on DuckDB or Spark
  through Ibis: :func:`audit_table`.
- **Plan**: :func:`plan_delays` (a :class:`DelayPlan`) from history; :func:`choose_gap` and :func:`choose_gaps` alone;
  several sittings and what helps: :mod:`peerveil.timing.sittings`.
- **Protect**: :func:`post` returns what the public sees (:class:`Posted`) and what only the operator may see
  (:class:`PostingSchedule`), under :class:`FollowUp`, the default, or the symmetric mechanisms
  :class:`ZeroInflatedUniform`, :class:`Uniform`, :class:`Exponential`, :class:`Staircase`; or :class:`Queue`.
- **Attack**: :func:`linkage_attack`, and the best attack there is on a pair, :func:`optimal_attack`.
- **Check a guarantee**: :func:`exact_check`.

A mechanism of your own derives from :class:`peerveil.timing.base.DelayMechanism`. Further functions are in
:mod:`peerveil.timing.plan`, :mod:`peerveil.timing.check`, :mod:`peerveil.timing.log`, :mod:`peerveil.timing.batches` and
:mod:`peerveil.timing.adversary`. Times are seconds (or timedeltas) everywhere.

>>> from peerveil import Randomness
>>> from peerveil.data import synthetic_conference
>>> history, log = (synthetic_conference(papers=60, reviewers=40, seed=s).events for s in (1, 2))
>>> mechanism = FollowUp(epsilon=1, gap=choose_gap(history, percentile=25, window=300), window=300)
>>> posted, schedule = post(log, mechanism=mechanism, randomness=Randomness.simulation(1))
>>> len(posted) == len(schedule) == len(log), posted.mark
(True, 'simulation, not private')
"""

from typing import TYPE_CHECKING, Any

from peerveil.core.lazy import import_on_first_use

if TYPE_CHECKING:
    from peerveil.timing.adversary import linkage_attack
    from peerveil.timing.batches import find_batches
    from peerveil.timing.check import exact_check, optimal_attack
    from peerveil.timing.delays import Exponential, FollowUp, Queue, Staircase, Uniform, ZeroInflatedUniform
    from peerveil.timing.engine import audit_table
    from peerveil.timing.exposure import TimingAudit, audit_log
    from peerveil.timing.plan import DelayPlan, choose_gap, choose_gaps, plan_delays
    from peerveil.timing.post import Posted, post
    from peerveil.timing.schedule import PostingSchedule

__all__ = [
    "DelayPlan",
    "Exponential",
    "FollowUp",
    "Posted",
    "PostingSchedule",
    "Queue",
    "Staircase",
    "TimingAudit",
    "Uniform",
    "ZeroInflatedUniform",
    "audit_log",
    "audit_table",
    "choose_gap",
    "choose_gaps",
    "exact_check",
    "find_batches",
    "linkage_attack",
    "optimal_attack",
    "plan_delays",
    "post",
]

_load = import_on_first_use(
    __name__,
    {
        "linkage_attack": "adversary",
        "find_batches": "batches",
        "exact_check": "check",
        "optimal_attack": "check",
        "Exponential": "delays",
        "FollowUp": "delays",
        "Queue": "delays",
        "Staircase": "delays",
        "Uniform": "delays",
        "ZeroInflatedUniform": "delays",
        "audit_table": "engine",
        "TimingAudit": "exposure",
        "audit_log": "exposure",
        "DelayPlan": "plan",
        "choose_gap": "plan",
        "choose_gaps": "plan",
        "plan_delays": "plan",
        "Posted": "post",
        "post": "post",
        "PostingSchedule": "schedule",
    },
)


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
