"""Goldberg, Fanti and Shah: Theorems 4.2, 4.3 and 4.8, Propositions 5.1 and C.2 to C.4, and Algorithm 4 as experiments."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any, Final, TypeVar

import numpy as np

from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.papers.reproduce.experiment import Comparison, Experiment, Reproduction, Verdict
from peerveil.papers.timing.two_sided import TruncatedLaplace, convict, late, late_as_printed
from peerveil.report import COLORS, new_axes
from peerveil.timing import (
    Exponential,
    FollowUp,
    Queue,
    Staircase,
    Uniform,
    ZeroInflatedUniform,
    exact_check,
    optimal_attack,
)
from peerveil.timing.check import shortened

_SEED: Final = 20220131
_MECHANISMS: Final = (Exponential, Staircase, Uniform, ZeroInflatedUniform)  # Theorem 4.3 (1) to (4)
_STEP: Final = 1_000_000  # microseconds: the clock of the queue

Comment = TypeVar("Comment")


def theorem_4_3(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """The four pairs of distributions keep (epsilon, g)-one-sided privacy in Algorithm 1, and ones a tenth shorter do not."""
    epsilons = (1, 2) if quick else ("0.1", "0.5", 1, 2, 4)
    rows = []
    for kind in _MECHANISMS:
        checks = [exact_check(kind(epsilon=epsilon, gap=600)) for epsilon in epsilons]
        broken = [exact_check(shortened(kind(epsilon=epsilon, gap=600), 0.1)) for epsilon in epsilons]
        largest = max(check.total / check.claimed for check in checks)
        passed, refused = sum(check.passed for check in checks), sum(not check.passed for check in broken)
        rows.append(
            Comparison(
                f"{kind.__name__}: largest privacy loss / epsilon",
                "at most 1",
                f"{largest:.6f}; a batched delay that is a tenth shorter is refused {refused} of {len(broken)} times",
                Verdict.of(passed == len(checks) and refused == len(broken)),
            )
        )
    note = (
        "Theorem 4.2 with the distributions of Theorem 4.3, by Lemma A.1: exactly for uniform pieces, on a grid of shifts for "
        f"exponential and staircase. Gap 10 minutes, epsilon {', '.join(map(str, epsilons))}."
    )
    return Reproduction("timing/theorem-4.3", "distributions that keep one-sided privacy", tuple(rows), note)


def theorem_4_8(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Two-sided privacy: parts 1 and 2 convict every mechanism, part 3 as printed is refuted by a mechanism."""
    deltas = (0.0, 0.5) if quick else (0.0, 0.001, 0.5, 0.9, 0.999)
    mechanisms = [kind(epsilon=epsilon, gap=1) for kind in (*_MECHANISMS, FollowUp) for epsilon in ("0.1", 1)]
    rows = []
    for part, neighbors in ((1, "add or remove a comment"), (2, "move it anywhere")):
        convictions = [
            convict(lambda x, m=mechanism: float(m.batched.below(x)), part, delta)  # type: ignore[misc]
            for mechanism in mechanisms
            for delta in deltas
        ]
        convicted = sum(conviction.there == 0 and conviction.here > conviction.delta for conviction in convictions)
        last = max(conviction.horizon for conviction in convictions)
        rows.append(
            Comparison(
                f"({part}) {neighbors}: mechanisms that are (epsilon, delta)-private for some epsilon",
                "none",
                f"{len(convictions) - convicted} of {len(convictions)}; an event that refutes each is seen within {last:g} gaps",
                Verdict.of(convicted == len(convictions)),
            )
        )
    example, (ax,) = TruncatedLaplace(1.0, 1e-3), new_axes(height=3.2)
    gaps = np.linspace(0, 20, 201)
    for label, values, color, style in (
        ("as printed, at least", late_as_printed(gaps, 1e-3), "leak", "--"),
        ("corrected, at least", late(gaps, 1.0, 1e-3), "good", "--"),
        ("a two-sided private mechanism", example.late(gaps), "private", "-"),
    ):
        ax.plot(gaps, values, color=COLORS[color], linestyle=style, label=label)
    ax.set(xlabel="delay D, in gaps", ylabel="probability of a delay of at least D", ylim=(0, 1.02))
    ax.legend()
    spill = max(example.spill(20_001 if quick else 200_001))
    at = math.ceil(example.longest)
    holds = bool((example.late(gaps) >= late(gaps, 1.0, 1e-3) - 1e-9).all())
    rows += [
        Comparison(
            f"(3) move by at most g: probability of a delay of {at} g at epsilon 1, delta 0.001",
            f"at least {float(late_as_printed(at, 1e-3)):.3f}",
            f"{float(example.late(at)):g} for a truncated Laplace delay, which needs delta {spill:.6f}",
            Verdict.ERRATUM if example.late(at) < late_as_printed(at, 1e-3) else Verdict.DIFFERS,
            "erratum: the chain of neighbors drops factors e^epsilon",
        ),
        Comparison(
            "(3) corrected, for all delays up to 20 g",
            "1 - delta (e^((2k - 1) epsilon) - 1)/(e^epsilon - 1) at least",
            "holds for the same mechanism" if holds else "fails",
            Verdict.of(holds and spill <= 1.01e-3),
        ),
    ]
    note = f"{len(mechanisms)} mechanisms at delta {', '.join(f'{delta:g}' for delta in deltas)}. Parts 1 and 2 stand."
    return Reproduction("timing/theorem-4.8", "two-sided privacy is impossible", tuple(rows), note, ax)


def proposition_5_1(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Power against type-I error of the best test, beside e^epsilon / F(g) times the type-I error."""
    gap, cells, epsilons = 600.0, (60 if quick else 160), ((1,) if quick else ("0.5", 1, 2))
    separations: list[Any] = [gap, (0.0, gap), (0.0, 4 / 3 * gap), (0.0, 3 * gap)]
    kinds = (Uniform, ZeroInflatedUniform, FollowUp)
    rows, (ax,) = [], new_axes(height=3.4)
    with progress_bar("proposition 5.1", total=len(kinds) * len(epsilons) * len(separations), show=progress) as advance:
        for kind, color in zip(kinds, ("truth", "accent", "private"), strict=True):
            worst, tests = 0.0, 0
            for epsilon in epsilons:
                for separation in separations:
                    attack = optimal_attack(kind(epsilon=epsilon, gap=gap), separation, cells=cells)
                    likely = attack.type_one > 0
                    worst = max(worst, float((attack.power[likely] / attack.bound(attack.type_one[likely])).max()))
                    worst = math.inf if (attack.power[~likely] > 1e-12).any() else worst
                    tests += 1
                    if epsilon == 1 and separation == separations[2]:
                        ax.plot(attack.type_one, attack.power, color=COLORS[color], label=kind.__name__)
                        bound = attack
                    advance(1)
            rows.append(
                Comparison(
                    f"{kind.__name__}: power of the best test / what the proposition allows",
                    "at most 1",
                    f"{worst:.4f} ({tests} settings)",
                    Verdict.of(worst <= 1 + 1e-9),
                )
            )
    grid = np.linspace(0, 1, 101)
    ax.plot(grid, bound.bound(grid), color=COLORS["leak"], linestyle="--", label="Proposition 5.1")
    ax.set(xlabel="type-I error", ylabel="power", xlim=(0, 1), ylim=(0, 1.02))
    ax.legend(loc="lower right")
    least = 0.75 / (0.75 + math.exp(0.8))  # F / (F + e^epsilon), where the bound meets type-I error = 1 - power
    best = optimal_attack(FollowUp(epsilon="0.8", gap=gap), separations[2], cells=cells).crossover
    rows.append(
        Comparison(
            "error crossover rate at epsilon 0.8 and g at the 75th percentile",
            "0.25",
            f"at least {least:.3f} by the bound; {best:.3f} for the best test on follow-ups",
            Verdict.of(round(least, 2) == 0.25 and best >= least),
        )
    )
    note = (
        f"The likelihood-ratio test on {cells} cells, which no test can beat; times between lone comments known to be g, or "
        "uniform up to g, 4/3 g and 3 g. Figure: epsilon 1, uniform up to 4/3 g, so that g is the 75th percentile; both uniform "
        "mechanisms coincide there."
    )
    return Reproduction("timing/proposition-5.1", "power of a test for batching", tuple(rows), note, ax)


def printed_queue(arrivals: Iterable[Sequence[Comment]]) -> Iterator[Comment]:
    """Algorithm 4, line by line: one comment per time step. Each batch comes in a random order, its first is the one chosen."""
    queue: deque[Comment] = deque()
    for batch in arrivals:
        if queue:
            yield queue.popleft()
            queue.extend(batch)
        else:
            yield batch[0]
            queue.extend(batch[1:])


def algorithm_4(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Our queue beside the printed one: each step posts a comment of the same arrival, batches in random order."""
    rng, streams, steps = np.random.default_rng(_SEED), (5 if quick else 50), 500
    differences, draws = 0, (1_000 if quick else 20_000)
    with progress_bar("algorithm 4", total=streams, show=progress) as advance:
        for stream in range(streams):
            sizes = 1 + rng.poisson(0.05 * (stream + 1) / streams, steps)
            posted = _post(sizes, stream)
            printed = list(printed_queue([[step] * int(size) for step, size in enumerate(sizes)]))
            arrived = np.repeat(np.arange(steps), sizes)
            differences += int(np.sum(arrived[np.argsort(posted)][:steps] != printed))
            advance(1)
    first = Counter(int(np.argmin(_post(np.array([3]), seed))) for seed in range(draws))
    shares = [first[place] / draws for place in range(3)]
    fair = max(abs(share - 1 / 3) for share in shares) < 5 * math.sqrt(2 / 9 / draws)
    rows = (
        Comparison(
            "steps in which another arrival is posted than by Algorithm 4",
            "none",
            f"{differences} of {streams * steps:,}",
            Verdict.of(differences == 0),
        ),
        Comparison(
            "how often each of a batch of three is posted first",
            "1/3 each",
            " / ".join(f"{share:.3f}" for share in shares),
            Verdict.of(fair),
        ),
    )
    note = f"{streams} streams of {steps} steps with up to 5% batched comments; {draws:,} draws of one batch. `timing.Queue`."
    return Reproduction("timing/algorithm-4", "the queue mechanism", rows, note)


def _post(sizes: Any, seed: int) -> Any:
    """When our queue posts each comment, in steps; ``sizes`` says how many arrive in each step."""
    times = np.repeat(np.arange(len(sizes)), sizes) * _STEP
    _, posted = Queue(step=1).schedule(np.zeros(times.size, np.int64), times, Randomness.simulation(seed))
    return posted // _STEP - 1


def proposition_c_2(quick: bool = False, progress: bool | None = None) -> Reproduction:
    """The distribution of what the queue posts, exactly, for every batching of a short horizon."""
    horizon, most = (3, 2) if quick else (4, 3)
    batchings = [steps for size in range(1, most + 1) for steps in combinations_with_replacement(range(horizon), size)]
    none = _outputs((), horizon, same_person=False)
    ratios: dict[bool, list[Fraction | float]] = {False: [], True: []}
    with progress_bar("proposition C.2", total=len(batchings), show=progress) as advance:
        for batching in batchings:
            for same_person in (False, True):
                outputs = _outputs(batching, horizon, same_person=same_person)
                ratios[same_person] += [
                    max(p / outputs[o], outputs[o] / p) if outputs[o] else math.inf for o, p in none.items()
                ]
            advance(1)
    largest, real = (max(ratios[same_person]) for same_person in (False, True))
    rows = (
        Comparison(
            "largest ratio of the probabilities of an output, with and without batches",
            "1 (epsilon 0)",
            f"{largest}, exactly",
            Verdict.of(largest == 1),
        ),
        Comparison(
            "the same if all comments of a batch are by one reviewer",
            "not considered",
            "infinite" if math.isinf(real) else f"{float(real):.3g}",
            Verdict.NOTHING_PRINTED,
            "why the product calls the queue not private: real batches are by one person",
        ),
    )
    note = (
        f"All {len(batchings)} multisets of up to {most} extra comments in {horizon} steps, all arrivals of two reviewers (with "
        "probabilities 1/3 and 2/3) and all orders within batches, in exact fractions."
    )
    return Reproduction("timing/proposition-c.2", "the queue hides independent batches", rows, note)


def _outputs(batching: Sequence[int], horizon: int, *, same_person: bool) -> dict[tuple[int, ...], Fraction]:
    """How probable each sequence of posts is: over all reviewers of the comments, and all orders within batches."""
    chances = (Fraction(1, 3), Fraction(2, 3))
    sizes = [1 + batching.count(step) for step in range(horizon)]
    outputs: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    drawn = horizon if same_person else sum(sizes)
    for reviewers in product((0, 1), repeat=drawn):
        chance = math.prod((chances[reviewer] for reviewer in reviewers), start=Fraction(1))
        rest = iter(reviewers)
        arrivals = [[next(rest)] * size if same_person else [next(rest) for _ in range(size)] for size in sizes]
        orders = list(product(*(permutations(batch) for batch in arrivals)))
        for order in orders:
            outputs[tuple(printed_queue(order))] += chance / len(orders)
    return outputs


def proposition_c_3(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """The worst delay of the queue is the number of extra comments, and nothing private can do with less (C.4)."""
    rng, streams, steps = np.random.default_rng(_SEED), (20 if quick else 500), 200
    equal = least = 0
    for stream in range(streams):
        batching = rng.integers(0, steps - 1, 1 + stream % 40)
        sizes = 1 + np.bincount(batching, minlength=steps)
        equal += int((_post(sizes, stream) - np.repeat(np.arange(steps), sizes)).max()) == batching.size
        # without batches t comments have arrived by step t, so that no private mechanism may post more with them: a delay of
        # at most d needs all that arrived by step t to be posted by step t + d
        least += int((np.cumsum(sizes) - np.arange(1, steps + 1)).max()) == batching.size
    rows = (
        Comparison(
            "streams whose worst delay is |B| steps", "all", f"{equal} of {streams}", Verdict.of(equal == streams)
        ),
        Comparison(
            "streams on which no private mechanism has a shorter worst delay (Proposition C.4)",
            "all",
            f"{least} of {streams}",
            Verdict.of(least == streams),
        ),
    )
    note = f"{streams} streams of {steps} steps with 1 to 40 extra comments at random steps. `timing.Queue`."
    return Reproduction("timing/proposition-c.3", "the delay of the queue", rows, note)


THEOREMS: Final[dict[str, Experiment]] = {
    "timing/theorem-4.3": theorem_4_3,
    "timing/theorem-4.8": theorem_4_8,
    "timing/proposition-5.1": proposition_5_1,
    "timing/algorithm-4": algorithm_4,
    "timing/proposition-c.2": proposition_c_2,
    "timing/proposition-c.3": proposition_c_3,
}
