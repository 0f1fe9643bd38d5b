"""Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021).

- :mod:`~peerveil.papers.rankings.printed`: the tests and sample sizes as printed. None of them is private.
- :mod:`~peerveil.papers.rankings.repaired`: the three central private tests, repaired so that their guarantee holds.
- :mod:`~peerveil.papers.rankings.losses`: exact privacy losses of both.
- :mod:`~peerveil.papers.rankings.two_sample`: the exact test on two rankings.
- :mod:`~peerveil.papers.rankings.local_bits`: the local test that sends one bit per pair of items.
"""
