"""The words that reports use, each in a sentence or two. ``docs/glossary.md`` says the same."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "account, budget": "What all studies together may ever spend on some data, in epsilon. It is never refilled.",
        "adversary": "Whoever sees all that is published, knows how it was made, and tries to find out about one person.",
        "chance, p-value": "How often judgments without any signal would look at least as clear as these. Below the level "
        "that was set beforehand, chance is no good explanation.",
        "delay": "The random time that a post waits before it appears, drawn once.",
        "epsilon": "How much can be learned about what is protected; smaller is safer. At 0.1 a 50:50 guess becomes right "
        "at most 52.5% of the time, at 1 at most 73.2%, at 2 at most 88.1%, at 5 at most 99.4%. What "
        "is spent on the same data adds up.",
        "gap": "How far apart two posts of one person may be and still look as if they might have been written together.",
        "guarantee": "What holds for everybody in the data, whatever else a reader knows. It names what is "
        "protected, and which two cases are hard to distinguish.",
        "ledger": "The record of what was spent. It is debited before noise is drawn, and cannot be overdrawn.",
        "linking": "Guessing that posts which appear close together come from one person. How many of the guesses are "
        "right, and how many of the true pairs are found, tell how well that works.",
        "miscalibration": "How far a score is from those that others gave to the same paper: our measure of strictness.",
        "neighboring cases": "Two states of the data that a guarantee makes hard to distinguish, such as two reviewers having "
        "exchanged one review each.",
        "noise": "Random amounts that are added before anything is published. They are what protects.",
        "one-sided": "The sensitive case is hidden (two posts were written in one sitting); the harmless case may show.",
        "protected, weakly protected": "In summaries: protected up to epsilon 2, weakly protected up to 5, in effect not "
        "protected beyond.",
        "randomized answer": "An answer that was changed by chance on the person's device before it was sent, so that nobody "
        "can be held to it.",
        "simulation": "Noise from a seed that somebody knows: it protects nobody, and is not for publication.",
        "sitting": "Posts of one person on different threads a few minutes apart.",
        "follow-up": "The default way to delay: a post that follows another of the same person on another "
        "thread waits longer than one that follows nothing.",
        "strictness": "A reviewer's mean miscalibration. Negative: stricter than others on the same papers; positive: more "
        "lenient.",
        "wrong both ways": "How often the best test takes two posts that were written together for apart, when it takes as "
        "many the other way round. A coin is wrong 50% of the time.",
    }
)
"""Words that reports use, and what they mean."""
