"""Words that pages need: what was done, how long ago, how large."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

DONE: Final = {
    "added": "The file was added.",
    "invented": "An invented conference was added. Nobody in it exists: try whatever you like.",
    "mapped": "The columns were named; the file is read again.",
    "removed": "Removed.",
    "opened": "The account is open.",
    "started": "The run has started.",
    "dropped": "The draft was thrown away. Nothing had been spent.",
    "registered": "You are registered as an operator. From now on everybody signs in.",
    "changed": "Changed.",
    "shared": "Readers and other analysts can now see the public part.",
    "unshared": "Only you and operators can see it again.",
    "password": "Your password was changed; everywhere else you were signed out.",
    "signed-out": "You are signed out.",
    "campaign": "The campaign was made.",
    "closed": "The campaign is closed. Nothing more is taken.",
    "inferring": "Inference has begun; load the page again in a moment.",
    "again": "It is checked once more.",
    "estimating": "An estimate is being made; it is for operators alone, and costs no privacy.",
    "reports": "The reports were added to your files. Once they are read, choose Truth below.",
    "clock": "The clock was confirmed. The gateway goes on.",
}
"""What a page may say was done: only these, so that no link can put words into our mouth."""


def clock(microseconds: int) -> str:
    """A time as people read it."""
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def ago(microseconds: int) -> str:
    """How long ago.

    >>> ago(int((time.time() - 7300) * 1e6))
    '2 hours ago'
    """
    seconds = max(0, time.time() - microseconds / 1e6)
    for length, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def size_in_words(count: int) -> str:
    """Bytes.

    >>> size_in_words(1_500_000)
    '1.5 MB'
    """
    for length, word in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if count >= length:
            return f"{count / length:.3g} {word}"
    return f"{count} bytes"
