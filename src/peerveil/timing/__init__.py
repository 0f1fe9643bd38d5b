"""When people post: see the leak, choose the delay, beat the adversary.

Comments that one person writes in one sitting appear minutes apart under several pseudonyms, and link them. The room
delays posts just enough that "written together" can hardly be told from "written apart".

- **See the leak**: :func:`find_batches` (a :class:`Batches`), :func:`posterior`, the columns that betray the order of
  arrival (:func:`find_leaks`, :class:`Leak`), and all of it at once: :func:`audit_log` (a :class:`TimingAudit`).
- **Choose**: :func:`choose_gap` and :func:`choose_gaps` from history, :func:`intervals` and :func:`covered`.
- **Protect**: :func:`post` (a :class:`Posted`) under :class:`FollowUp`, the default, or the symmetric mechanisms
  :class:`ZeroInflatedUniform`, :class:`Uniform`, :class:`Exponential`, :class:`Staircase`; :class:`Queue`; a mechanism of
  your own: :class:`DelayMechanism`.
- **Attack**: :func:`linkage_attack` (a :class:`LinkageAttack`), the best attack there is, :func:`optimal_attack`
  (an :class:`OptimalAttack`), and :func:`partial_adoption`.
- **Check a promise**: :func:`exact_check`, :func:`grid_check` (a :class:`LossCheck`) and :func:`sampled_check`.
- **Out of core**: :func:`audit_table`, on DuckDB or Spark through Ibis.

Times are seconds (or timedeltas) everywhere.

>>> from peerveil import Randomness
>>> from peerveil.judgements import synthetic_conference
>>> history, log = (synthetic_conference(papers=60, reviewers=40, seed=s).events for s in (1, 2))
>>> mechanism = FollowUp(1, gap=choose_gap(history, 25, beta=300), beta=300)
>>> posted = post(log, mechanism, randomness=Randomness.simulation(1))
>>> len(posted) == len(log), posted.mark
(True, 'simulation, not private')
"""

from peerveil.timing.adoption import partial_adoption
from peerveil.timing.adversary import LinkageAttack, linkage_attack
from peerveil.timing.batches import Batches, find_batches, posterior
from peerveil.timing.check import LossCheck, exact_check, grid_check, sampled_check
from peerveil.timing.choose import choose_gap, choose_gaps, covered, intervals
from peerveil.timing.engine import audit_table
from peerveil.timing.exposure import TimingAudit, audit_log
from peerveil.timing.follow_up import FollowUp
from peerveil.timing.leaks import Leak, find_leaks
from peerveil.timing.mechanism import DelayMechanism
from peerveil.timing.optimal import OptimalAttack, optimal_attack
from peerveil.timing.post import Posted, post
from peerveil.timing.queue import Queue
from peerveil.timing.unbounded import Exponential, Staircase
from peerveil.timing.zero_inflated import Uniform, ZeroInflatedUniform

__all__ = [
    "Batches",
    "DelayMechanism",
    "Exponential",
    "FollowUp",
    "Leak",
    "LinkageAttack",
    "LossCheck",
    "OptimalAttack",
    "Posted",
    "Queue",
    "Staircase",
    "TimingAudit",
    "Uniform",
    "ZeroInflatedUniform",
    "audit_log",
    "audit_table",
    "choose_gap",
    "choose_gaps",
    "covered",
    "exact_check",
    "find_batches",
    "find_leaks",
    "grid_check",
    "intervals",
    "linkage_attack",
    "optimal_attack",
    "partial_adoption",
    "post",
    "posterior",
    "sampled_check",
]
