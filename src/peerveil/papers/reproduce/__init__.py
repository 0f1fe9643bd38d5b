"""Every figure and table of the five papers, made anew: what the paper shows, what we find, and why they differ.

An experiment is a function of ``(quick, progress)`` that returns a :class:`Reproduction`. Each module's experiments stand
in the module of its name, in ``EXPERIMENTS``; what the papers only illustrate is in
:mod:`peerveil.papers.reproduce.illustrations`.
"""

from peerveil.papers.reproduce.experiment import Comparison, Reproduction, Verdict, experiments

__all__ = ["Comparison", "Reproduction", "Verdict", "experiments"]
