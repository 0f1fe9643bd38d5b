"""Arithmetic that rounds in the right direction.

- :mod:`peerveil.numerics.exact`: budgets and scales as exact rationals, and their safe conversion to floats.
- :mod:`peerveil.numerics.binomial`: exact confidence bounds for a probability.
"""
