"""Checks of what people write."""

from __future__ import annotations

import unicodedata
from typing import Final

_JOINERS: Final = "\u200c\u200d"  # Persian and Hindi words and joined emoji need these two invisible characters


def on_one_line(text: str) -> bool:
    """No control, format, private or unassigned characters, no line or paragraph separators."""
    return all(
        char in _JOINERS or not (kind.startswith("C") or kind in {"Zl", "Zp"})
        for char, kind in ((char, unicodedata.category(char)) for char in text)
    )
