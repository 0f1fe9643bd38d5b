"""Compiled E-steps over answers that are sorted by task.

One pass does the whole step: the posterior of a task needs its own answers only, and is added to the counts of those who gave
them while they are still in the processor's cache. An answer is one ``code``, the position of its worker and label in a table
of log weights; what made these weights (a model, a channel) is not known here. Tasks are taken in blocks, so that exponentials
are computed many at once, in plain loops that the compiler turns into vector instructions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from peerveil.core.lazy import njit

if TYPE_CHECKING:
    from peerveil.core.arrays import Codes, Floats, Ints

_BLOCK: Final = 128  # tasks at once for two classes
_BLOCK_CELLS: Final = 1024  # tasks times classes at once for more
_LOG2E: Final = 1.4426950408889634
_LN2_HIGH: Final = 0.693147180369123816490  # ln 2 in two parts: products of the first with whole numbers are exact
_LN2_LOW: Final = 1.90821492927058770002e-10
_ROUND: Final = 6755399441055744.0  # 1.5 * 2^52: a number added to it is rounded, and stands in its lowest bits
_LOWEST: Final = -700.0  # exponentials below are about 1e-304, and not denormal


# "contract" lets a product and a sum become one instruction; reordering sums would remove the rounding by _ROUND
@njit(cache=True, error_model="numpy", fastmath={"contract"})
def exponentials(x: Floats, size: int, shifted: Floats, shifted_bits: Ints, out: Floats, out_bits: Ints) -> None:
    """``out[:size] = exp(x[:size])`` for arguments from -700 (lower ones count as -700) to 700, within 2.5e-16 of its size.

    With m = round(x / ln 2) and r = x - m ln 2, exp(x) = 2^m exp(r): the Taylor series to r^13 for |r| <= ln(2)/2, whose
    remainder is below 1e-17, and m added to the exponent of the result. ``shifted`` is working memory; the ``bits`` are the
    same arrays, read as integers.
    """
    for j in range(size):
        shifted[j] = max(x[j], _LOWEST) * _LOG2E + _ROUND
    for j in range(size):
        m = shifted[j] - _ROUND
        r = (max(x[j], _LOWEST) - m * _LN2_HIGH) - m * _LN2_LOW
        series = 1 / 39916800 + r * (1 / 479001600 + r * (1 / 6227020800))
        series = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * series))
        series = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * series))
        out[j] = 1.0 + r * (1.0 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * series))))
    for j in range(size):
        out_bits[j] += shifted_bits[j] << 52


@njit(cache=True, error_model="numpy")
def exponentiate(values: Floats) -> None:
    """:func:`exponentials` of an array, in place."""
    x, work = np.empty(_BLOCK_CELLS), np.empty(_BLOCK_CELLS)
    for first in range(0, values.size, _BLOCK_CELLS):
        size = min(_BLOCK_CELLS, values.size - first)
        out = values[first : first + size]
        for j in range(size):
            x[j] = out[j]
        exponentials(x, size, work, work.view(np.int64), out, out.view(np.int64))


# sums of a block in any order: the exponentials keep theirs, since the compiler's permission stands with each instruction
@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def two_class_pass(
    start: Codes, code: Codes, evidence: Floats, log_odds: float, gold: Codes, posterior: Floats, counts: Floats
) -> float:
    """An E-step for two classes, any model: writes ``posterior[t]`` of class 1, and its sum over the answers of each code.

    ``evidence[c]`` is the log weight of code c if class 1 is correct minus that if class 0 is; ``log_odds`` is the same of the
    prior. ``gold[t]`` is a known class or -1, or the array is empty. Returns the sum over tasks of ln(1 + e^d), d being all
    evidence of a task: the log-likelihood relative to class 0 (of a known class: d or 0).
    """
    counts[:] = 0.0
    d, x, e, work = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    work_bits, e_bits = work.view(np.int64), e.view(np.int64)
    tasks, total = start.size - 1, 0.0
    for first in range(0, tasks, _BLOCK):
        size = min(_BLOCK, tasks - first)
        for j in range(size):  # unsigned positions: none is checked for being negative
            score = log_odds
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                score += evidence[np.uint64(code[i])]
            d[j] = score
            x[j] = -abs(score)
        exponentials(x, size, work, work_bits, e, e_bits)
        product = 1.0  # of numbers up to 2, so that one logarithm serves a block
        for j in range(size):
            product *= 1.0 + e[j]
            total += max(d[j], 0.0)
            likelier = 1.0 / (1.0 + e[j])
            posterior[first + j] = likelier if d[j] >= 0 else e[j] * likelier
        total += math.log(product)
        if gold.size:
            for j in range(size):
                known = gold[first + j]
                if known >= 0:
                    total += known * d[j] - max(d[j], 0.0) - math.log(1.0 + e[j])
                    posterior[first + j] = known
        for j in range(size):
            p = posterior[first + j]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                counts[np.uint64(code[i])] += p
    return total


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def normalize(score: Floats, size: int, k: int, gold: Codes, first: int, out: Floats, work: Floats) -> float:
    """Log scores of ``size`` tasks and ``k`` classes (``score[j * k + z]``) to posteriors in ``out``.

    Returns the sum of the logarithms of the normalizers. Rows are laid out one after the other; ``first`` is the first task.
    """
    total, product = 0.0, 1.0
    for j in range(size):
        top = score[j * k]
        for z in range(1, k):
            top = max(top, score[j * k + z])
        total += top
        if gold.size and gold[first + j] >= 0:
            total += score[j * k + gold[first + j]] - top
        for z in range(k):
            score[j * k + z] -= top
    exponentials(score, size * k, work, work.view(np.int64), out, out.view(np.int64))
    for j in range(size):
        normalizer = 0.0
        for z in range(k):
            normalizer += out[j * k + z]
        if gold.size and gold[first + j] >= 0:
            for z in range(k):
                out[j * k + z] = 1.0 if z == gold[first + j] else 0.0
            continue
        for z in range(k):
            out[j * k + z] /= normalizer
        product *= normalizer
        if product > 1e200:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def coin_pass(
    start: Codes, code: Codes, evidence: Floats, log_prior: Floats, gold: Codes, posterior: Floats, counts: Floats
) -> float:
    """An E-step for one-coin models, at a cost that hardly grows with the number of classes.

    A correct answer of worker w weighs ``evidence[w]`` more than a wrong one (whose weight is the same whatever is correct, and
    is added by the caller). ``counts[w]`` becomes the expected number of correct answers of w.
    """
    k = log_prior.size
    counts[:] = 0.0
    block, tasks, total, classes = max(1, _BLOCK_CELLS // k), start.size - 1, 0.0, np.uint32(k)
    score, p, work = np.empty(block * k), np.empty(block * k), np.empty(block * k)
    for first in range(0, tasks, block):
        size = min(block, tasks - first)
        for j in range(size):
            for z in range(k):
                score[j * k + z] = log_prior[z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                w = np.uint32(code[i]) // classes
                score[np.uint64(j * k) + np.uint64(np.uint32(code[i]) - w * classes)] += evidence[np.uint64(w)]
        total += normalize(score, size, k, gold, first, p, work)
        for j in range(size):
            for z in range(k):
                posterior[first + j, z] = p[j * k + z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                w = np.uint32(code[i]) // classes
                counts[np.uint64(w)] += p[np.uint64(j * k) + np.uint64(np.uint32(code[i]) - w * classes)]
    return total


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def class_coin_pass(
    start: Codes,
    code: Codes,
    wrong: Floats,
    evidence: Floats,
    log_prior: Floats,
    gold: Codes,
    posterior: Floats,
    correct: Floats,
    answers: Floats,
) -> float:
    """An E-step for models with an ability by class: an answer of worker w weighs ``wrong[w, z]`` if class z is correct, and
    ``evidence[w, z]`` more if the answer is z.

    Writes ``posterior[t, z]``, the expected ``answers[w, z]`` to tasks of class z, and the ``correct[w, z]`` ones among them.
    Returns the log-likelihood.
    """
    k = log_prior.size
    correct[:], answers[:] = 0.0, 0.0
    block, tasks, total, classes = max(1, _BLOCK_CELLS // k), start.size - 1, 0.0, np.uint32(k)
    score, p, work = np.empty(block * k), np.empty(block * k), np.empty(block * k)
    for first in range(0, tasks, block):
        size = min(block, tasks - first)
        for j in range(size):
            row = score[j * k : j * k + k]
            for z in range(k):
                row[z] = log_prior[z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                w = np.uint64(np.uint32(code[i]) // classes)
                label = np.uint64(code[i]) - w * np.uint64(k)
                for z in range(k):
                    row[z] += wrong[w, z]
                row[label] += evidence[w, label]
        total += normalize(score, size, k, gold, first, p, work)
        for j in range(size):
            row = p[j * k : j * k + k]
            for z in range(k):
                posterior[first + j, z] = row[z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                w = np.uint64(np.uint32(code[i]) // classes)
                label = np.uint64(code[i]) - w * np.uint64(k)
                for z in range(k):
                    answers[w, z] += row[z]
                correct[w, label] += row[label]
    return total


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def table_pass(
    start: Codes, code: Codes, weights: Floats, log_prior: Floats, gold: Codes, posterior: Floats, counts: Floats
) -> float:
    """An E-step for any model: ``weights[c, z]`` is the log weight of code c if z is correct.

    Writes ``posterior[t, z]`` and its sums over the answers of each code, ``counts[c, z]``; returns the log-likelihood.
    """
    k = log_prior.size
    counts[:] = 0.0
    flat_weights, flat_counts = weights.reshape(-1), counts.reshape(-1)
    block, tasks, total = max(1, _BLOCK_CELLS // k), start.size - 1, 0.0
    score, p, work = np.empty(block * k), np.empty(block * k), np.empty(block * k)
    for first in range(0, tasks, block):
        size = min(block, tasks - first)
        for j in range(size):
            row = score[j * k : j * k + k]
            for z in range(k):
                row[z] = log_prior[z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                cell = np.uint64(code[i]) * np.uint64(k)
                for z in range(np.uint64(k)):
                    row[z] += flat_weights[cell + z]
        total += normalize(score, size, k, gold, first, p, work)
        for j in range(size):
            row = p[j * k : j * k + k]
            for z in range(k):
                posterior[first + j, z] = row[z]
            for i in range(start[np.uint64(first + j)], start[np.uint64(first + j + 1)]):
                cell = np.uint64(code[i]) * np.uint64(k)
                for z in range(np.uint64(k)):
                    flat_counts[cell + z] += row[z]
    return total


@njit(cache=True, error_model="numpy")
def count_answers(start: Codes, code: Codes, posterior: Floats, counts: Floats) -> None:
    """The sums ``counts[c, z]`` that belong to given posteriors."""
    counts[:] = 0.0
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            for z in range(posterior.shape[1]):
                counts[np.uint64(code[i]), z] += posterior[t, z]


@njit(cache=True, error_model="numpy")
def count_by_class(start: Codes, code: Codes, posterior: Floats, correct: Floats, answers: Floats) -> None:
    """Add to every worker's ``answers[w, z]`` to tasks of class z, and to the ``correct[w, z]`` ones among them."""
    k = posterior.shape[1]
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            w = np.uint32(code[i]) // np.uint32(k)
            label = np.uint32(code[i]) - w * np.uint32(k)
            for z in range(k):
                answers[w, z] += posterior[t, z]
            correct[w, label] += posterior[t, label]


@njit(cache=True, error_model="numpy")
def add_moments(start: Codes, code: Codes, posterior: Floats, correct: Floats, uncertainty: Floats) -> None:
    """Add c and c (1 - c) of every answer to its worker, c being the probability that it is correct."""
    k = np.uint32(posterior.shape[1])
    for t in range(start.size - 1):
        for i in range(start[t], start[t + 1]):
            w = np.uint32(code[i]) // k
            c = posterior[t, np.uint32(code[i]) - w * k]
            correct[w] += c
            uncertainty[w] += c * (1.0 - c)
