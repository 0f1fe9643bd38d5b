"""Ding, Kamath, Wang and Shah, *Calibration with Privacy in Peer Review* (2022).

- :mod:`~peerveil.papers.calibration.printed`: formulas as printed.
- :mod:`~peerveil.papers.calibration.methods`: the calibration methods that Figure 3 compares.
- :mod:`~peerveil.papers.calibration.average`: Algorithm 2, pairs on average over scores.
- :mod:`~peerveil.papers.calibration.known`: its integrals without noise, for functions of any shape.
"""
