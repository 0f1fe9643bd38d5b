"""Ding, Shah and Wang (2021): noise on the sorted means, the chains of Algorithms 1 and 2, and the simulations of Appendix C."""
