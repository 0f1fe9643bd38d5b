"""Run code so that it draws the same on every run, also where it asks the operating system for randomness."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from peerveil.randomness.lanes import SecureRandomness


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within, ``os.urandom``, ``secrets`` and the secure source of noise repeat themselves.

    Noise and everything else (keys, tokens, names of temporary files) come from two streams, so that one more token moves
    no noise. The secure source still calls itself secure, so that ledgers accept it: nothing here may leave the tests.
    """
    generator, others = (np.random.Generator(np.random.PCG64DXSM([seed, stream])) for stream in range(2))

    def bits(_: Any, count: int, width: int) -> Any:
        return np.frombuffer(generator.bytes(count * (width // 8)), dtype=f"<u{width // 8}")

    def laplace(_: Any, values: Any, scale: float) -> Any:
        return values + generator.laplace(scale=scale, size=values.size)

    def discrete_laplace(_: Any, values: Any, scale: float) -> Any:
        first, second = generator.geometric(-np.expm1(-1.0 / scale), size=(2, values.size))
        return values + first - second

    with (
        patch.object(os, "urandom", others.bytes),
        patch.object(random, "_urandom", others.bytes),
        patch.object(SecureRandomness, "_bits", bits),
        patch.object(SecureRandomness, "_laplace", laplace),
        patch.object(SecureRandomness, "_discrete_laplace", discrete_laplace),
    ):
        yield
