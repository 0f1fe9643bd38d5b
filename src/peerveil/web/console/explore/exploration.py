"""What exploring a room shows: controls, what the chosen setting means in words, and curves with the setting marked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from peerveil.core.errors import BadInput, Verbatim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peerveil.report import Svg


@dataclass(frozen=True)
class Control:
    """Something that can be moved.

    Attributes
    ----------
    values : tuple of str
        What it may be; in rising order for a slider.
    kind : str
        ``"slider"`` or ``"choice"``.
    """

    name: str
    label: str
    values: tuple[str, ...]
    default: str
    help: str
    kind: str = "slider"

    def read(self, value: object) -> str:
        """The value that was chosen, or a refusal that lists what may be chosen."""
        if not isinstance(value, str) or value not in self.values:
            raise BadInput(self.name, got=value, want=f"one of {', '.join(self.values)}")
        return value


@dataclass(frozen=True)
class Figure:
    """A picture as inline SVG, and what it shows."""

    svg: Svg
    caption: str


@dataclass(frozen=True)
class Exploration:
    """What one setting of a room means. Computed from public facts or from invented data, never from private ones.

    Attributes
    ----------
    headline : str
        What this setting means for people, in a sentence.
    facts : tuple of (str, str)
        Accuracy, delay, attack success, cost: a name, and the value in words.
    sentences : tuple of str
        What stands beside the curves.
    about : str
        What all of it was computed from.
    steps : tuple of mappings
        The steps of a study that this setting makes, without data and account.
    """

    room: str
    controls: tuple[Control, ...]
    chosen: Mapping[str, str]
    headline: str
    facts: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    figures: tuple[Figure, ...]
    recommended: Mapping[str, str]
    reason: str
    about: str
    steps: tuple[Mapping[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "room": self.room,
            "controls": [{**asdict(one), "values": list(one.values)} for one in self.controls],
            "chosen": dict(self.chosen),
            "headline": self.headline,
            "facts": [list(pair) for pair in self.facts],
            "sentences": list(self.sentences),
            "figures": [asdict(one) for one in self.figures],
            "recommended": dict(self.recommended),
            "reason": self.reason,
            "about": self.about,
            "steps": [dict(step) for step in self.steps],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` wrote."""
        try:
            return cls(
                room=data["room"],
                controls=tuple(Control(**{**one, "values": tuple(one["values"])}) for one in data["controls"]),
                chosen=MappingProxyType(dict(data["chosen"])),
                headline=data["headline"],
                facts=tuple((name, value) for name, value in data["facts"]),
                sentences=tuple(data["sentences"]),
                figures=tuple(Figure(**one) for one in data["figures"]),
                recommended=MappingProxyType(dict(data["recommended"])),
                reason=data["reason"],
                about=data["about"],
                steps=tuple(MappingProxyType(dict(step)) for step in data["steps"]),
            )
        except (KeyError, TypeError, ValueError):
            raise BadInput("data", got=Verbatim("something else"), want="what Exploration.to_dict() returns") from None
