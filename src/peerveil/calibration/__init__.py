"""Better decisions that do not name the reviewer.

Correcting for a strict reviewer can reveal that the strict reviewer was there. This module finds the decisions that err
least for a given error of the adversary who guesses who reviewed what.

- **Calibrate this year's scores**: :func:`calibrate`, whose :class:`CalibratedScores` are for the chair; whether that would help
  at all, :func:`plan_decisions` says from the scores alone.
- **Say how reviewers turn quality into scores**: :class:`Affine`, :class:`Monotone`, :class:`Uncertain`; read them with
  :func:`read_miscalibration`, or fit them to past conferences (:func:`fit_miscalibration`).
- **See what decisions gain and give away** before anything is decided: :func:`plan_leak` compares all options;
  :func:`plan_decisions` says what protection costs (a :class:`Frontier` for a handful of papers).
- **Decide a conference**: :class:`Conference`, from the scores alone, with an adversary error or with differential privacy; its
  :class:`ConferenceDecision` may be published, its :class:`ChairSheet` may not.
- **Decide a few papers**: :class:`Pair` or :class:`Panel`, with a quota or a :class:`Threshold`, by a :class:`Strategy`.
- **Differential privacy instead**: :func:`respond_assignment`.
- **Attack it**: :class:`MapAdversary`; **try it**: :func:`simulate_conference`.

Less often needed: frontiers of millions of pairs (``pair.pair_frontiers``), candidate assignments (``problem``), pairs and
panels in simulation (``simulate``), the results of plans (``leak.Leak``, ``plan.Tradeoff``), and what is raised where chains or
solvers fail (``fit.FitNotConverged``, ``program.LinearProgramFailed``).
"""

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.calibrate import calibrate
from peerveil.calibration.calibrated import CalibratedScores
from peerveil.calibration.conference import Conference
from peerveil.calibration.decision import ChairSheet, ConferenceDecision
from peerveil.calibration.fit import fit_miscalibration
from peerveil.calibration.frontier import Frontier
from peerveil.calibration.functions import Affine, Monotone, Uncertain, read_miscalibration
from peerveil.calibration.leak import plan_leak
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import Pair
from peerveil.calibration.panel import Panel
from peerveil.calibration.plan import plan_decisions
from peerveil.calibration.simulate import simulate_conference
from peerveil.calibration.strategy import Strategy, respond_assignment

__all__ = [
    "Affine",
    "CalibratedScores",
    "ChairSheet",
    "Conference",
    "ConferenceDecision",
    "Frontier",
    "MapAdversary",
    "Monotone",
    "Pair",
    "Panel",
    "Strategy",
    "Threshold",
    "Uncertain",
    "calibrate",
    "fit_miscalibration",
    "plan_decisions",
    "plan_leak",
    "read_miscalibration",
    "respond_assignment",
    "simulate_conference",
]
