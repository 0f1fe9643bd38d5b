"""Where the noise comes from: two sources with one interface.

- :meth:`Randomness.secure` draws from the operating system's entropy through exact samplers. It is the default
  everywhere, and the only source that a ledger accepts.
- :meth:`Randomness.simulation` is NumPy, seeded and repeatable, for studies and tests. Whatever it makes carries the
  mark *simulation, not private*.

The pieces that modules build on:

- noise for numbers: :meth:`Randomness.laplace`, :meth:`Randomness.discrete_laplace`, with scales from
  :func:`laplace_scale`; for counts that move together: :class:`MaxNormNoise`;
  for sums of rankings: :class:`PermutohedronNoise`;
- randomized response, drawn by :meth:`Randomness.respond`: :class:`Response` for classes; for many classes
  :class:`SubsetResponse`, and :func:`best_response` to choose between both; for ordered classes :class:`OrderedResponse`; for
  numbers between two bounds :class:`NumberResponse`;
- uniforms, whole numbers, permutations and weighted choices.

>>> randomness = Randomness.simulation(7)
>>> noisy = randomness.laplace([3.0, 4.5], scale=laplace_scale(sensitivity=1, epsilon=0.5))
>>> noisy.shape, randomness.lane
((2,), 'simulation')
"""

from peerveil.core.randomness.max_norm import MaxNormNoise
from peerveil.core.randomness.ordered import NumberResponse, OrderedResponse
from peerveil.core.randomness.permutohedron import PermutohedronNoise
from peerveil.core.randomness.response import Response
from peerveil.core.randomness.source import Randomness, laplace_scale
from peerveil.core.randomness.subsets import SubsetResponse, best_response

__all__ = [
    "MaxNormNoise",
    "NumberResponse",
    "OrderedResponse",
    "PermutohedronNoise",
    "Randomness",
    "Response",
    "SubsetResponse",
    "best_response",
    "laplace_scale",
]
