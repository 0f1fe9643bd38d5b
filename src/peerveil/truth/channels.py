"""How reports depend on answers: the channel of a response, and the channels of a crowd where people chose levels.

A worker of ability a gives the correct class with probability a and each other class with (1 - a)/(k - 1). The response keeps
an answer with probability ``keep`` and sends each other class with probability ``other``. So a randomized answer is correct
with probability p(a) = other + (keep - other) a, equation (22) of the paper for k = 2, and each other class has (1 - p(a))/(k -
1).

A subset response names w = ``size`` classes; ``keep`` and ``other`` are then the probabilities that the answer, and that any
other class, is among them. A report S contains the correct class with the same p(a), and by symmetry all sets that do are
equally likely, as are all that do not: P(S) is p(a)/C(k-1, w-1) for these and (1 - p(a))/C(k-1, w) for those. Relative to
1/C(k-1, w-1), which is the same for every class, these are p(a) and (1 - p(a)) w/(k - w); w = 1 is the case above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from peerveil.core.arrays import Floats, Ints


@dataclass(frozen=True)
class Channel:
    """The randomized response as the estimators see it: the probability of the answer itself, and of each other class."""

    keep: float
    other: float
    k: int
    size: int = 1

    @classmethod
    def of(cls, epsilon: float | None, k: int, size: int = 1) -> Channel:
        """The channel of a response whose reports name ``size`` of the k classes; ``None`` is no randomization.

        >>> channel = Channel.of(1.0, 2)
        >>> round(channel.keep, 4), round(channel.contrast, 4)
        (0.7311, 0.4621)
        """
        if epsilon is None:
            return cls(1.0, 0.0, k)
        odds = math.exp(min(epsilon, 700.0))
        keep = size * odds / (size * odds + k - size)
        return cls(keep, 1 / (odds + k - 1) if size == 1 else (size - keep) / (k - 1), k, size)

    @property
    def contrast(self) -> float:
        """Keep - other: how much of an answer the randomized answer retains, from 0 to 1."""
        return self.keep - self.other

    @property
    def wrong_share(self) -> float:
        """w/(k - w): what divides the probability 1 - p of a report without the correct class among the sets, relative to p."""
        return self.size / (self.k - self.size)

    @property
    def matrix(self) -> Floats:
        """``matrix[answer, randomized answer]``."""
        return np.where(np.eye(self.k, dtype=bool), self.keep, self.other)


@dataclass(frozen=True, eq=False)
class Channels:
    """The channels of a crowd: one for everybody, or a level for each worker."""

    levels: tuple[Channel, ...]
    of_worker: Ints  # [worker]: the place of its channel in levels

    @classmethod
    def of(cls, epsilon: float | Sequence[float] | None, k: int, workers: int, sizes: Ints | None = None) -> Channels:
        """The channels of workers with one epsilon or one for each, whose reports name so many classes each.

        >>> Channels.of([1.0, 2.0, 1.0], 2, 3).of_worker.tolist()
        [0, 1, 0]
        """
        if sizes is not None and sizes.max() > 1 and not isinstance(epsilon, Sequence):
            if epsilon is None:
                raise BadInput("epsilon", got=None, want="the epsilon with which the lists of labels were randomized")
            if sizes.min() < sizes.max():
                got = Verbatim(f"lists of {sizes.min()} to {sizes.max()} labels")
                raise BadInput(
                    "labels", got=got, want="equally many labels in every list, or an epsilon for each worker"
                )
        epsilons: list[float | None] = [*epsilon] if isinstance(epsilon, Sequence) else [epsilon] * workers
        pairs = list(zip(epsilons, [1] * workers if sizes is None else sizes.tolist(), strict=True))
        distinct = list(dict.fromkeys(pairs))
        place = {pair: i for i, pair in enumerate(distinct)}
        levels = tuple(Channel.of(value, k, size) for value, size in distinct)
        return cls(levels, np.array([place[pair] for pair in pairs], dtype=np.int64))

    @classmethod
    def same(cls, channel: Channel, workers: int) -> Channels:
        """One channel for everybody."""
        return cls((channel,), np.zeros(workers, dtype=np.int64))

    @property
    def k(self) -> int:
        """The number of classes."""
        return self.levels[0].k

    @property
    def single(self) -> Channel | None:
        """The channel of everybody, if there is only one."""
        return self.levels[0] if len(self.levels) == 1 else None

    @property
    def randomized(self) -> bool:
        """Whether anything was randomized."""
        return any(level.other > 0 for level in self.levels)

    @property
    def largest_size(self) -> int:
        """How many classes a report names at most."""
        return max(level.size for level in self.levels)

    def vote_weights(self, ability: float) -> Floats | None:
        """What an answer of each worker says for the classes that it names, if all have this ability: ln(p/(1 - p) (k - w)/w).

        None if there is one channel, since all votes then weigh the same.
        """
        if self.single is not None:
            return None
        other, contrast, wrong_share = self.of_levels("other", "contrast", "wrong_share")
        shown = np.clip(other + contrast * ability, 1e-12, 1 - 1e-12)
        return np.asarray(np.log(shown / ((1 - shown) * wrong_share))[self.of_worker])

    @property
    def matrix(self) -> Floats:
        """``matrix[answer, randomized answer]``, of everybody or [worker, answer, randomized answer]."""
        if self.single is not None:
            return self.single.matrix
        return np.stack([level.matrix for level in self.levels])[self.of_worker]

    def of_levels(self, *names: str) -> tuple[Floats, ...]:
        """Numbers of every level."""
        return tuple(np.array([getattr(level, name) for level in self.levels], dtype=float) for name in names)

    def column(self, name: str) -> Floats:
        """A number of every worker, as a column; one row if all have the same channel."""
        (values,) = self.of_levels(name)
        return values[:, None] if self.single is not None else values[self.of_worker][:, None]
