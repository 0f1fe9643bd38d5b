"""Counting pairs of events without listing them: memory grows with events, never with pairs."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count_within(group, value, limits):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each limit, the number of pairs in one group whose values differ by at most it.

    Rows are sorted by group, then value. Two fingers walk once a limit.
    """
    out = np.zeros(limits.size, dtype=np.int64)
    for k in range(limits.size):
        limit = limits[k]
        low = 0
        total = 0
        for i in range(value.size):
            while group[low] != group[i] or value[i] - value[low] > limit:
                low += 1
            total += i - low
        out[k] = total
    return out


@njit(cache=True, nogil=True)
def count_joint(group, arrival, posted, window, limits):  # type: ignore[no-untyped-def]  # pragma: no cover
    """For each limit, pairs in one group that arrived within the window and were posted within the limit.

    Rows are sorted by group, then arrival; limits ascend. The last entry counts all pairs within the window. A group is
    done pair by pair, or, where it has too many pairs for that, with a Fenwick tree over the posting times: then the work
    is (limits) x (events) x log(events), whatever the number of pairs.
    """
    width = limits.size
    bins = np.zeros(width + 1, dtype=np.int64)  # the last one: posted further apart than every limit
    everything = 0
    start = 0
    size = group.size
    while start < size:
        stop = start
        while stop < size and group[stop] == group[start]:
            stop += 1
        pairs = 0
        low = start
        for i in range(start, stop):
            while arrival[i] - arrival[low] > window:
                low += 1
            pairs += i - low
        everything += pairs
        count = stop - start
        if pairs <= 4 * width * count * (1 + np.log2(count)):
            low = start
            for i in range(start, stop):
                while arrival[i] - arrival[low] > window:
                    low += 1
                for j in range(low, i):
                    bins[np.searchsorted(limits, abs(posted[i] - posted[j]))] += 1
        else:
            _by_tree(arrival[start:stop], posted[start:stop], window, limits, bins)
        start = stop
    result = np.empty(width + 1, dtype=np.int64)
    result[:width] = np.cumsum(bins[:width])
    result[width] = everything
    return result


@njit(cache=True, nogil=True)
def _by_tree(arrival, posted, window, limits, bins):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A window slides over arrivals; a Fenwick tree counts the posting times in it that are close enough."""
    count = arrival.size
    sorted_posted = np.sort(posted)
    rank = np.searchsorted(sorted_posted, posted)
    before = 0
    for k in range(limits.size):
        tree = np.zeros(count + 1, dtype=np.int64)
        total = 0
        low = 0
        for i in range(count):
            while arrival[i] - arrival[low] > window:
                at = rank[low] + 1
                while at <= count:
                    tree[at] -= 1
                    at += at & -at
                low += 1
            top = np.searchsorted(sorted_posted, posted[i] + limits[k], side="right")
            bottom = np.searchsorted(sorted_posted, posted[i] - limits[k], side="left")
            while top > 0:
                total += tree[top]
                top -= top & -top
            while bottom > 0:
                total -= tree[bottom]
                bottom -= bottom & -bottom
            at = rank[i] + 1
            while at <= count:
                tree[at] += 1
                at += at & -at
        bins[k] += total - before
        before = total
