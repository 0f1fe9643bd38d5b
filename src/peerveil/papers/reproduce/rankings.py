"""Figures 1 to 3, Theorems 5, 6, 7 and 9 and Algorithms 4 to 6 of Busa-Fekete, Fotakis and Zampetakis (2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.audit import exact_loss
from peerveil.core.progress import progress_bar
from peerveil.core.randomness import Randomness
from peerveil.papers.rankings import printed as paper
from peerveil.papers.rankings.local_bits import bit_response, bits_power
from peerveil.papers.rankings.losses import trunc_loss_as_printed
from peerveil.papers.rankings.two_sample import distance_critical
from peerveil.papers.reproduce.experiment import Comparison, Experiment, Reproduction, Verdict
from peerveil.rankings import Mallows, power_of
from peerveil.rankings.adversary import all_rankings
from peerveil.rankings.central import pair_sums
from peerveil.rankings.kernels import distances
from peerveil.rankings.laws import concordance_null
from peerveil.rankings.mallows import sample_rankings
from peerveil.rankings.plan import pair_bias
from peerveil.rankings.variation import spread_at
from peerveil.report import COLORS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from peerveil.core.randomness.source import SimulationRandomness

_SEED: Final = 20210612
_LEVEL: Final = 0.05
_CELLS: Final = 4_000_000
_STYLES: Final = {
    "2SAMP (paper)": (COLORS["leak"], "-"),
    "UNIF (paper)": (COLORS["leak"], "--"),
    "MA (paper)": (COLORS["truth"], ":"),
    "BUNIF (paper, not private)": (COLORS["leak"], "-"),
    "TRUNC (paper, not private)": (COLORS["leak"], "--"),
    "local bits (paper)": (COLORS["truth"], ":"),
    "our two-sample": (COLORS["private"], "-"),
    "Friedman": (COLORS["good"], "-"),
    "our central test": (COLORS["private"], "-"),
    "our local test": (COLORS["accent"], "-"),
}


@dataclass(frozen=True, slots=True)
class _Panel:
    """One panel: items, rankings, people of the local test, and the spreads on the axis."""

    items: int
    rankings: int
    spreads: tuple[float, ...]
    people: int = 0
    tolerance: float = 0.9


_FIGURE_1: Final = {
    "1a": _Panel(100, 2, (0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 1.0)),
    "1b": _Panel(1000, 2, (0.997, 0.998, 0.9985, 0.999, 0.9993, 0.9997, 1.0)),
    "1c": _Panel(10_000, 2, (0.99985, 0.9999, 0.99993, 0.99995, 0.99997, 0.99998, 1.0)),
}
_FIGURE_2: Final = {
    "2a": _Panel(10, 10_000, (0.96, 0.97, 0.98, 0.99, 0.995, 1.0)),
    "2b": _Panel(100, 100, (0.98, 0.985, 0.99, 0.993, 0.997, 1.0)),
    "2c": _Panel(1000, 2, (0.997, 0.998, 0.9985, 0.999, 0.9995, 1.0)),
    "2d": _Panel(10_000, 2, (0.99985, 0.9999, 0.99993, 0.99996, 1.0)),
}
_FIGURE_3: Final = {
    "3a": _Panel(10, 10_000, (0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 1.0), 100_000),
    "3b": _Panel(100, 1000, (0.99, 0.993, 0.995, 0.996, 0.997, 0.998, 0.999, 1.0), 200_000, 0.99),
    "3c": _Panel(500, 1000, (0.9985, 0.999, 0.9992, 0.9994, 0.9995, 0.9997, 1.0), 300_000, 0.999),
    "3d": _Panel(1000, 100, (0.997, 0.998, 0.9985, 0.999, 0.9993, 0.9996, 1.0), 300_000, 0.9999),
}


def _samples(m: int, k: int, spread: float, trials: int, source: SimulationRandomness) -> Any:
    """Blocks of data sets, each k rankings of a model with a center of its own (items are renamed at random)."""
    at_once = max(1, _CELLS // (m * k))
    for start in range(0, trials, at_once):
        number = min(at_once, trials - start)
        model = Mallows(m, spread, source.permutation(m))
        yield sample_rankings(model, number * k, source).reshape(number, k, m)


def _pair_sums(block: Any, source: SimulationRandomness) -> Any:
    order = source.permutation(block.shape[2])
    pairs = block.shape[2] // 2
    first, second = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2]
    return np.where(block[:, :, first] < block[:, :, second], 1, -1).sum(axis=1)


def _unif(block: Any, source: SimulationRandomness) -> Any:
    """Whether UNIF as printed rejects each data set."""
    k, m = block.shape[1:]
    y = (_pair_sums(block, source).astype(float) ** 2).sum(axis=1) / k
    return y >= paper.unif_threshold_as_printed(m, _LEVEL)


def _distances(block: Any) -> Any:
    return np.array([distances(pair[0], pair[1:])[0] for pair in block[:, :2]])


def _friedman(block: Any) -> Any:
    k, m = block.shape[1:]
    sums = 2 * block.sum(axis=1, dtype=np.int64) - k * (m - 1)
    w = (sums.astype(float) ** 2).sum(axis=1) / (m * (m * m - 1) / 3) / k**2
    return w >= concordance_null(k, m).critical(_LEVEL)


def figure_1(name: str, panel: _Panel, quick: bool = False, progress: bool | None = None) -> Reproduction:
    """2SAMP and UNIF on two rankings, and the exact two-sample test."""
    m, trials = panel.items, (100 if quick else 1000)
    methods = ("2SAMP (paper)", "UNIF (paper)", "our two-sample")
    bounds = paper.two_sample_threshold_as_printed(m, _LEVEL), distance_critical(m, _LEVEL)

    def rejects(block: Any, source: SimulationRandomness) -> list[Any]:
        measured = _distances(block)
        return [measured <= bounds[0], _unif(block, source), measured <= bounds[1]]

    table = _powers(name, panel, methods, rejects, trials, quick, progress)
    verdict = Verdict.of(bool((table[:, 0] >= table[:, 1] - 0.05).all()))
    rows = [*_rows(panel, methods, table, quick), Comparison("2SAMP against UNIF", "never behind", "as above", verdict)]
    note = (
        f"{trials} repetitions a point, two rankings each. The exact null replaces the printed threshold, which is far too "
        "low: the same statistic finds weaker signals at the same level."
    )
    return _reproduction(name, f"two rankings of {m:,} items", panel, methods, table, rows, note, quick)


def figure_2(name: str, panel: _Panel, quick: bool = False, progress: bool | None = None) -> Reproduction:
    """Mallows' approximate test and UNIF, and Friedman's test."""
    m, k = panel.items, panel.rankings
    trials = (20 if quick else 200) if k > 100 else (100 if quick else 1000)
    methods = ("MA (paper)", "UNIF (paper)", "Friedman")

    def rejects(block: Any, source: SimulationRandomness) -> list[Any]:
        far = np.array([paper.mallows_as_printed(rows, _LEVEL)[2] for rows in block])
        return [far, _unif(block, source), _friedman(block)]

    table = _powers(name, panel, methods, rejects, trials, quick, progress)
    note = (
        f"{trials} repetitions a point. MA measures distances to a fixed ranking, which is far from the unknown center. "
        "Friedman's test of 1937 is ahead of both."
    )
    rows = _rows(panel, methods, table, quick)
    return _reproduction(name, f"{k:,} rankings of {m:,} items", panel, methods, table, rows, note, quick)


def _powers(
    name: str,
    panel: _Panel,
    methods: tuple[str, ...],
    rejects: Callable[[Any, SimulationRandomness], list[Any]],
    trials: int,
    quick: bool,
    progress: bool | None,
) -> Any:
    """The share of rejected data sets, one row per spread, one column per method."""
    spreads, table = _shown(panel, quick), []
    with progress_bar(f"figure {name}", total=trials * len(spreads), show=progress) as advance:
        for i, spread in enumerate(spreads):
            source, hits = Randomness.simulation(_SEED + i), np.zeros(len(methods))
            for block in _samples(panel.items, panel.rankings, spread, trials, source):
                hits += [float(np.sum(found)) for found in rejects(block, source)]
                advance(len(block))
            table.append(hits / trials)
    return np.array(table)


def figure_3(name: str, panel: _Panel, quick: bool = False, progress: bool | None = None) -> Reproduction:
    """BUNIF, TRUNC and the local bit vector as printed at epsilon 1/3, and our central and local tests."""
    m, k, trials = panel.items, panel.rankings, (6 if quick else 60)
    methods = (
        "BUNIF (paper, not private)",
        "TRUNC (paper, not private)",
        "local bits (paper)",
        "our central test",
        "our local test",
    )
    bias, spreads, table = paper.bias_as_printed(m, panel.tolerance), _shown(panel, quick), []
    with progress_bar(f"figure {name}", total=len(spreads), show=progress) as advance:
        for i, spread in enumerate(spreads):
            source, bunif, trunc = Randomness.simulation(_SEED + i), [], []
            for block in _samples(m, k, spread, trials, source):
                size = k // paper.bucket_batches_as_printed(1 / 3)
                bunif += [_unif(block[:, j * size : (j + 1) * size], source).mean() for j in range(3)]
                trunc += [
                    paper.trunc_reject_probability_as_printed(sums, k, m, bias, 1 / 3, _LEVEL)
                    for sums in _pair_sums(block, source)
                ]
            signal: dict[str, Any] = {"items": m, "spread": spread, "epsilon": "1/3"}
            ours = power_of("auto", rankings=k, **signal, trials=trials, seed=_SEED + i)
            bits = bits_power(panel.people, m, spread, "1/3", trials=20 * trials)
            local = power_of("local", rankings=panel.people, **signal, trials=20 * trials)
            table.append([float(np.mean(bunif)), float(np.mean(trunc)), bits, ours.power, local.power])
            advance(1)
    powers = np.array(table)
    note = (
        f"{trials} data sets a point, noise averaged exactly. Epsilon 1/3; {k:,} rankings, {panel.people:,} people for the "
        f"local tests. TRUNC is read so that B = 1 rejects, at tolerance {panel.tolerance:g}; at small tolerances it "
        "rejects 42 to 49% of uniform data sets. BUNIF and TRUNC are not private at these sizes (errata)."
    )
    rows = _rows(panel, methods, powers, quick)
    return _reproduction(name, f"epsilon 1/3, {m:,} items", panel, methods, powers, rows, note, quick)


def _shown(panel: _Panel, quick: bool) -> tuple[float, ...]:
    return (panel.spreads[0], panel.spreads[len(panel.spreads) // 2], panel.spreads[-1]) if quick else panel.spreads


def _rows(panel: _Panel, methods: tuple[str, ...], table: Any, quick: bool) -> list[Comparison]:
    return [
        Comparison(
            what=f"spread {spread:g}: {' / '.join(methods)}",
            paper="curves without numbers",
            ours=" / ".join(f"{value:.3f}" for value in line),
            verdict=Verdict.NOTHING_PRINTED,
            explanation="level" if spread == 1.0 else _best(methods, line),
        )
        for spread, line in zip(_shown(panel, quick), table, strict=True)
    ]


def _best(methods: tuple[str, ...], powers: Any) -> str:
    """The methods with the largest power; nobody is best where all have it."""
    best = [method for method, power in zip(methods, powers, strict=True) if power >= max(powers) - 1e-12]
    return "all alike" if len(best) == len(methods) else f"best: {', '.join(best)}"


def _reproduction(
    name: str,
    title: str,
    panel: _Panel,
    methods: tuple[str, ...],
    table: Any,
    rows: list[Comparison],
    note: str,
    quick: bool,
) -> Reproduction:
    axes = _draw(f"Figure {name}: {title}", _shown(panel, quick), methods, table)
    return Reproduction(f"rankings/figure-{name}", title, tuple(rows), note, axes)


def _draw(title: str, spreads: tuple[float, ...], methods: tuple[str, ...], table: Any) -> Axes:
    (ax,) = new_axes(height=4)
    for j, method in enumerate(methods):
        color, line = _STYLES[method]
        ax.plot(spreads, table[:, j], color=color, ls=line, marker="o", ms=3, label=method)
    ax.axhline(_LEVEL, color="0.6", lw=0.8, ls=":")
    ax.set_ylim(-0.02, 1.05)
    ax.ticklabel_format(useOffset=False)
    ax.tick_params(axis="x", rotation=20)
    ax.set_xlabel("spread (1 is uniform)")
    ax.set_ylabel("share rejected at level 0.05")
    ax.set_title(title, loc="left", fontsize="medium", pad=42)
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)  # above: it would hide a curve
    return ax


# ---- theorems --------------------------------------------------------------------------------------------------------


def _signed_sums(m: int, k: int, spread: float, trials: int, seed: int, kept: float = 1.0) -> Any:
    """Signed sums of randomly paired items in many data sets, by the exact bias of each pair; ``kept`` of it is left."""
    rng, pairs = np.random.default_rng(seed), m // 2
    order = rng.permuted(np.tile(np.arange(m), (trials, 1)), axis=1)
    first, second = order[:, 0 : 2 * pairs : 2], order[:, 1 : 2 * pairs : 2]
    bias = np.sign(second - first) * pair_bias(spread, np.abs(second - first)) if spread < 1 else np.zeros(first.shape)
    return 2 * rng.binomial(k, (1 + kept * bias) / 2).astype(float) - k


def _error_rows(
    m: int, k: int, tolerance: float, bound: float, noise: float, kept: float, trials: int
) -> list[Comparison]:
    """How often a test with this threshold errs at the number of rankings that its theorem asks for."""
    rng, rows = np.random.default_rng(_SEED), []
    spread = spread_at(m, tolerance)
    for what, phi in (("uniform rankings rejected", 1.0), (f"Mallows at tolerance {tolerance:g} accepted", spread)):
        y = (_signed_sums(m, k, phi, trials, _SEED, kept) ** 2).sum(axis=1) / k
        y += rng.laplace(scale=noise, size=trials) if noise else 0.0
        share = float(np.mean(y >= bound if phi == 1.0 else y < bound))
        right = share <= _LEVEL + 3 * np.sqrt(_LEVEL * (1 - _LEVEL) / trials)
        verdict = Verdict.of(right)
        rows.append(Comparison(f"{m} items, {k:,} rankings: {what}", f"at most {_LEVEL}", f"{share:.3f}", verdict))
    return rows


def theorem_5(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """UNIF (Algorithm 2) with as many rankings as Theorem 5 asks for errs with probability at most delta."""
    rows = []
    for m, tolerance in ((100, 0.9), (1000, 0.5), (1000, 0.9)):
        k = int(paper.unif_rankings_as_printed(m, tolerance, _LEVEL))
        rows += _error_rows(
            m, k, tolerance, paper.unif_threshold_as_printed(m, _LEVEL), 0.0, 1.0, 500 if quick else 5000
        )
    note = (
        "Pairs are drawn by their exact bias, as if disjoint ones were independent (as in the proof; errata, App. B)."
    )
    return Reproduction("rankings/theorem-5", "rankings that UNIF needs", tuple(rows), note)


def theorem_6(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """TRUNC (Algorithm 3): what Theorem 6 asks for, and the loss there and at the sizes of the paper's experiments."""
    rows, epsilon, steps = [], 1 / 3, 25 if quick else 200
    for m, tolerance in ((100, 0.99), (1000, 0.9999)):
        mu = paper.bias_as_printed(m, tolerance)
        required = int(paper.trunc_rankings_as_printed(m, tolerance, _LEVEL, epsilon))
        for k in (1000, required):
            sizes = np.unique(np.linspace(2, min(k, 1.3 * np.sqrt(k * (1 + mu**2 * k / 8))), steps).astype(int))
            worst = max(trunc_loss_as_printed(k, m, mu, epsilon, _LEVEL, int(size)) for size in sizes)
            verdict = Verdict.AGREES if worst <= epsilon else Verdict.ERRATUM
            what = f"{m:,} items, tolerance {tolerance:g}, {k:,} rankings{' (asked for)' if k == required else ''}: privacy loss"
            because = "" if worst <= epsilon else "erratum: the sensitivity is governed by the sum of abs(S)"
            rows.append(Comparison(what, "at most 1/3", f"{worst:.3g}", verdict, because))
    note = "The largest loss over neighbors whose pair sums alternate in sign; larger losses may exist."
    return Reproduction("rankings/theorem-6", "rankings that TRUNC needs", tuple(rows), note)


def theorem_7(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Algorithms 5 (curator) and 6 (peer): randomized response to every pair, and what Theorem 7 asks for."""
    rows, epsilon = [], Fraction(1, 3)
    for m in (10, 100):
        response = bit_response(m, epsilon)
        worst = (m // 2) * exact_loss(response.probabilities(0), response.probabilities(1)).epsilon
        what = f"{m} items: loss of a peer's {m // 2} bits (Algorithm 6, line 9)"
        rows.append(Comparison(what, "1/3", f"{worst:.6f}", Verdict.of(worst <= float(epsilon) * (1 + 1e-9))))
        attenuation = 2 * response.keep - 1
        explained = f"erratum: epsilon/m = {float(epsilon) / m:.4g}"
        shown = f"about {2 * float(epsilon) / m:.4g}"
        rows.append(
            Comparison(f"{m} items: attenuation of a bit", shown, f"{attenuation:.4g}", Verdict.ERRATUM, explained)
        )
    m, tolerance = 100, 0.9
    k = int(paper.local_rankings_as_printed(m, tolerance, _LEVEL, float(epsilon)))
    bound, kept = paper.unif_threshold_as_printed(m, _LEVEL), 2 * bit_response(m, epsilon).keep - 1
    rows += _error_rows(m, k, tolerance, bound, 0.0, kept, 500 if quick else 5000)  # Algorithm 5, lines 6 to 11
    note = "Pairs are drawn by their exact bias, times what randomized response leaves of it."
    return Reproduction("rankings/theorem-7", "people that the local test needs", tuple(rows), note)


def theorem_9(quick: bool = False, progress: bool | None = None) -> Reproduction:  # noqa: ARG001
    """Algorithm 4 (LAP): its sensitivity (Claim 10), its errors where Theorem 9 promises them, and its two thresholds."""
    rows, epsilon = [], 1 / 3
    for k, m in ((2, 4), (3, 4)):
        kinds = all_rankings(m)
        y = {
            tuple(c): sum(int(s) ** 2 for s in pair_sums(kinds[list(c)])) / k
            for c in product(range(len(kinds)), repeat=k)
        }
        rest = product(range(len(kinds)), repeat=k - 1)
        moved = max(max(values) - min(values) for values in ([y[*r, last] for last in range(len(kinds))] for r in rest))
        claimed = 2 * m * (k - 1) / k
        what = f"Claim 10: {k} rankings of {m} items, largest change of Y"
        rows.append(Comparison(what, f"at most {claimed:.4g}", f"{moved:.4g}", Verdict.of(moved <= claimed + 1e-9)))
    m, tolerance, trials = 20, 0.9, 500 if quick else 5000
    k = paper.laplace_rankings_as_printed(m, tolerance, _LEVEL, epsilon)
    for name, bound in (
        ("line 9", paper.laplace_threshold_as_printed(m, _LEVEL, epsilon)),
        ("App. C", paper.laplace_proof_threshold_as_printed(m, _LEVEL, epsilon)),
    ):
        for row in _error_rows(m, k, tolerance, bound, 2 * m / epsilon, 1.0, trials):
            wrong = row.verdict is Verdict.DIFFERS
            explained = "erratum: two thresholds are printed, and neither is exact" if wrong else ""
            verdict = Verdict.ERRATUM if wrong else row.verdict
            rows.append(Comparison(f"{name}: {row.what}", row.paper, row.ours, verdict, explained))
    note = "All data sets of the smallest sizes for Claim 10; pairs by their exact bias for the errors."
    return Reproduction("rankings/theorem-9", "rankings that LAP needs", tuple(rows), note)


EXPERIMENTS: Final[dict[str, Experiment]] = {
    "rankings/theorem-5": theorem_5,
    "rankings/theorem-6": theorem_6,
    "rankings/theorem-7": theorem_7,
    "rankings/theorem-9": theorem_9,
    **{f"rankings/figure-{name}": partial(figure_1, name, panel) for name, panel in _FIGURE_1.items()},
    **{f"rankings/figure-{name}": partial(figure_2, name, panel) for name, panel in _FIGURE_2.items()},
    **{f"rankings/figure-{name}": partial(figure_3, name, panel) for name, panel in _FIGURE_3.items()},
}
