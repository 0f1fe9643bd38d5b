"""Goldberg, Fanti and Shah: printed variants, Theorem 4.8, the frontier of Theorem 4.6 and streams like the paper's."""
