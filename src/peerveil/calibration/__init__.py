"""Better decisions that do not name the reviewer.

Correcting for a strict reviewer can reveal that the strict reviewer was there. This module finds the decisions that err
least for a given error of the adversary who guesses who reviewed what.

- **Say how reviewers turn quality into scores**: :class:`Affine`, :class:`Monotone`, :class:`Uncertain`; read them with
  :func:`read_miscalibration`, or fit them to past conferences (:func:`fit_miscalibration`).
- **See what protection costs** before anything is decided: :func:`plan_decisions`, a :class:`Frontier` for a handful of papers,
  a :class:`Tradeoff` for a conference.
- **Decide a conference**: :class:`Conference`, whose :class:`ConferenceDecision` may be published and whose
  :class:`ChairSheet` may not.
- **Decide a few papers**: :class:`Pair` or :class:`Panel`, with a quota or a :class:`Threshold`, by a :class:`Strategy`.
- **Differential privacy instead**: :func:`respond_assignment`.
- **Attack it**: :class:`MapAdversary`; **try it**: :func:`simulate_pairs`, :func:`simulate_panels`,
  :func:`simulate_conference`.

Less often needed: frontiers of millions of pairs (``pair.pair_frontiers``), candidate assignments (``problem``), one panel
played over and over (``simulate.simulate_panel``), and what is raised where chains or solvers fail
(``fit.FitNotConverged``, ``panel.LinearProgramFailed``).
"""

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.conference import Conference
from peerveil.calibration.decision import ChairSheet, ConferenceDecision
from peerveil.calibration.fit import fit_miscalibration
from peerveil.calibration.frontier import Frontier
from peerveil.calibration.functions import Affine, Monotone, Uncertain, read_miscalibration
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import Pair
from peerveil.calibration.panel import Panel
from peerveil.calibration.plan import Tradeoff, plan_decisions
from peerveil.calibration.simulate import simulate_conference, simulate_pairs, simulate_panels
from peerveil.calibration.strategy import Strategy, respond_assignment

__all__ = [
    "Affine",
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
    "Tradeoff",
    "Uncertain",
    "fit_miscalibration",
    "plan_decisions",
    "read_miscalibration",
    "respond_assignment",
    "simulate_conference",
    "simulate_pairs",
    "simulate_panels",
]
