"""Secure randomness: randomized response and Laplace noise, in values a second."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import Row, best_of
from peerveil import Randomness, Response

VALUES = 10_000_000
FEW = 4_000  # for peers that take one value a call


def bench() -> list[Row]:
    return [*response(), *laplace()]


def response() -> list[Row]:
    import opendp.prelude as dp
    from diffprivlib.mechanisms import Binary

    dp.enable_features("contrib")
    secure, rng = Randomness.secure(), np.random.default_rng(0)
    rows = []
    for classes in (2, 5):
        rule = Response(1, classes)
        one: Any = dp.m.make_randomized_response(categories=list(range(classes)), prob=rule.keep)
        for dtype in (np.uint8, np.int64):
            answers = rng.integers(0, classes, VALUES).astype(dtype)
            some = answers[:FEW].tolist()
            ours = VALUES / _seconds(lambda a=answers, r=rule: secure.respond(a, r))
            peer = FEW / _seconds(lambda s=some, m=one: [m(v) for v in s])
            what = f"response, {classes} classes, {np.dtype(dtype).name}"
            rows.append(Row(what, ours, peer, "values/s", "peer: OpenDP, which has no vector form"))
    binary = Binary(epsilon=1, value0="0", value1="1")
    texts = [str(v) for v in rng.integers(0, 2, FEW)]
    answers = rng.integers(0, 2, VALUES).astype(np.uint8)
    ours = VALUES / _seconds(lambda: secure.respond(answers, Response(1, 2)))
    peer = FEW / _seconds(lambda: [binary.randomise(v) for v in texts])
    rows.append(Row("response, 2 classes", ours, peer, "values/s", "peer: diffprivlib's Binary"))
    entropy = VALUES / _seconds(lambda: os.urandom(4 * VALUES))
    rows.append(Row("response, 2 classes", ours, entropy, "values/s", "peer: drawing the entropy alone"))
    return rows


def laplace() -> list[Row]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    secure, rows = Randomness.secure(), []
    kinds: list[tuple[str, Any, Any, Any]] = [
        ("Laplace", dp.atom_domain(T=float, nan=False), dp.l1_distance(T=float), secure.laplace),
        ("discrete Laplace", dp.atom_domain(T=dp.i64), dp.l1_distance(T=dp.i64), secure.discrete_laplace),
    ]
    for name, atoms, metric, draw in kinds:
        space = dp.vector_domain(atoms), metric
        direct: Any = space >> dp.m.then_laplace(scale=2.0)
        for n in (1_000, 20_000):
            values = np.arange(n, dtype=float if name == "Laplace" else np.int64)
            ours, peer = best_of(5, partial(draw, values, scale=2.0), partial(direct, values))
            rows.append(Row(f"{name}, vector of {n:,}", n / ours, n / peer, "values/s", "peer: OpenDP directly"))
    return rows


def _seconds(function: Any) -> float:
    return best_of(3, function)[0]
