"""Better decisions that do not name the reviewer.

Correcting for a strict reviewer can reveal that the strict reviewer was there. This room finds the decisions that err
least for a given error of the adversary who guesses who reviewed what.

- **Say how reviewers turn quality into scores**: :class:`Affine`, :class:`Monotone`, :class:`Uncertain`; read them with
  :func:`read_miscalibration`, or fit them to past conferences (:func:`read_history`, :func:`fit_miscalibration`, which
  returns a :class:`Fit`).
- **Two papers, two reviewers**: :class:`Pair`; many at once: :func:`pair_frontiers` (:class:`PairFrontiers`).
- **More papers**: :class:`Panel`, with a quota or a :class:`Threshold`; candidates from :func:`all_assignments` or
  :func:`committees_exchanged`.
- **A whole conference**: :class:`Conference`, whose :class:`ConferenceDecision` keeps apart what may be published;
  what protection costs it: :class:`Tradeoff`.
- **What is traded and done**: :class:`Frontier`, :class:`Strategy`, :class:`PairStrategy`, :class:`Decision`.
- **Differential privacy instead**: :func:`respond_assignment`, an :class:`AssignmentResponse`.
- **Attack it**: :class:`MapAdversary`; **try it**: :func:`simulate_pairs`, :func:`simulate_panel`, :func:`simulate_panels`,
  :func:`simulate_conference`, each a :class:`Simulation`.
- **Refusals**: :class:`SolverFailed`, :class:`NotConverged`.
"""

from peerveil.calibration.adversary import MapAdversary
from peerveil.calibration.arrays import PairFrontiers, pair_frontiers
from peerveil.calibration.assignments import all_assignments, committees_exchanged
from peerveil.calibration.conference import Conference
from peerveil.calibration.fit import Fit, NotConverged, fit_miscalibration, read_history, read_miscalibration
from peerveil.calibration.frontier import Frontier
from peerveil.calibration.functions import Affine, Monotone, Uncertain
from peerveil.calibration.losses import Threshold
from peerveil.calibration.pair import Pair, PairStrategy
from peerveil.calibration.panel import Panel
from peerveil.calibration.program import SolverFailed
from peerveil.calibration.replay import simulate_conference, simulate_panel, simulate_panels
from peerveil.calibration.response import AssignmentResponse, respond_assignment
from peerveil.calibration.sheet import ConferenceDecision, Tradeoff
from peerveil.calibration.simulate import Simulation, simulate_pairs
from peerveil.calibration.strategy import Decision, Strategy

__all__ = [
    "Affine",
    "AssignmentResponse",
    "Conference",
    "ConferenceDecision",
    "Decision",
    "Fit",
    "Frontier",
    "MapAdversary",
    "Monotone",
    "NotConverged",
    "Pair",
    "PairFrontiers",
    "PairStrategy",
    "Panel",
    "Simulation",
    "SolverFailed",
    "Strategy",
    "Threshold",
    "Tradeoff",
    "Uncertain",
    "all_assignments",
    "committees_exchanged",
    "fit_miscalibration",
    "pair_frontiers",
    "read_history",
    "read_miscalibration",
    "respond_assignment",
    "simulate_conference",
    "simulate_pairs",
    "simulate_panel",
    "simulate_panels",
]
