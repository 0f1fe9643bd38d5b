"""The tables that people produce, checked once and never changed.

Read a file, or build a table from columns
    :class:`Reviews` (who scored which paper), :class:`Events` (who posted in which thread when),
    :class:`Rankings` (orders of the same items), :class:`Labels` (who answered what to which task). Each has
    ``.read(path)`` and ``.from_frame(frame)``.
Find out what a file is
    :func:`recognize`
See what is in a table, for the operator alone
    :func:`describe`, which gives a :class:`TableDescription`
Invent a conference to try things on
    :func:`synthetic_conference`, which gives a :class:`SyntheticConference` with its :class:`HiddenTruth`
Understand a refusal
    :class:`BadTable`, whose ``problems`` are each a :class:`Problem` with row and column

>>> from tempfile import TemporaryDirectory
>>> from peerveil.data import Reviews, recognize
>>> with TemporaryDirectory() as folder:
...     path = Reviews(paper=[1, 1, 2], reviewer=[7, 8, 7], score=[6, 8, 3]).write(f"{folder}/reviews.csv")
...     print(recognize(path).kinds, Reviews.read(path))
('Reviews',) 3 reviews of 2 papers by 2 reviewers; scores 3 to 8, mean 5.67

A table has ``len``, ``.frame`` (Polars), ``.column(name)`` (NumPy, read-only), ``.numbered(name)`` (codes and values),
``.fingerprint``, ``.write(path)``, ``==``, and prints as one line.
"""

from __future__ import annotations

from peerveil.data.describe import TableDescription, describe
from peerveil.data.events import Events
from peerveil.data.labels import Labels
from peerveil.data.problems import BadTable, Problem
from peerveil.data.rankings import Rankings
from peerveil.data.readers.recognize import recognize
from peerveil.data.reviews import Reviews
from peerveil.data.synthetic import HiddenTruth, SyntheticConference, synthetic_conference

__all__ = [
    "BadTable",
    "Events",
    "HiddenTruth",
    "Labels",
    "Problem",
    "Rankings",
    "Reviews",
    "SyntheticConference",
    "TableDescription",
    "describe",
    "recognize",
    "synthetic_conference",
]
