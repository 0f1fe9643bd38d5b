"""What exploring a module shows: controls, what the chosen setting means in words, and charts with the setting marked.

Each module declares the same parts for a setting: a headline, the attack, facts, a sentence, charts and a recommendation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from peerveil.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from peerveil.report import Svg


@dataclass(frozen=True)
class Control:
    """A parameter that the reader can change: a ``"slider"`` with rising values, or a ``"choice"``."""

    name: str
    label: str
    values: tuple[str, ...]
    default: str
    help: str
    kind: str = "slider"

    def read(self, value: object) -> str:
        """The chosen value, or an error that lists the possible ones."""
        if not isinstance(value, str) or value not in self.values:
            raise BadInput(self.name, got=value, want=f"one of {', '.join(self.values)}")
        return value


class Series(NamedTuple):
    """A curve: one value for each value of the first control, or one number for a horizontal line. Colors have meanings."""

    name: str
    values: Sequence[float] | float
    color: str = "private"
    dashed: bool = False


class Chart(NamedTuple):
    """Curves over the values of the first control. With ``percent``, values are shares and are drawn as percentages."""

    caption: str
    y_label: str
    series: tuple[Series, ...]
    percent: bool = True


class Figure(NamedTuple):
    """A chart drawn as inline SVG."""

    svg: Svg
    caption: str


class Attack(NamedTuple):
    """How often an attacker is correct about ``target``, in percent: before, and with the setting.

    ``guaranteed`` says that the setting's value is an upper bound; otherwise it is an average from a simulation.
    """

    target: str
    before: str
    after: str
    guaranteed: bool = True
    note: str = ""

    @property
    def fact(self) -> str:
        """In short."""
        return f"{self._limit} {self.after} correct about {self.target}; {self.before} today"

    @property
    def sentence(self) -> str:
        """As a sentence, the same for every module."""
        text = (
            f"An attacker who is correct {self.before} of the time today about {self.target} would be correct "
            f"{self._limit} {self.after} of the time with this setting."
        )
        return f"{text} {self.note}".rstrip()

    @property
    def _limit(self) -> str:
        return "at most" if self.guaranteed else "about"


@dataclass(frozen=True)
class Exploration:
    """What one setting of a module means. Computed from public facts or from synthetic data, never from private data.

    A module declares the first group of fields; :func:`peerveil.web.console.explore.explore` adds the second.

    Attributes
    ----------
    facts : tuple of (str, str)
        Accuracy, delay, cost: a name, and the value in words.
    recommended : mapping
        The recommended values of controls; the others stay as chosen.
    about : str
        What all of it was computed from.
    steps : tuple of mappings
        The study steps for this setting, without data and account.
    """

    headline: str
    attack: Attack
    facts: tuple[tuple[str, str], ...]
    sentence: str
    charts: tuple[Chart, ...]
    recommended: Mapping[str, str]
    reason: str
    about: str
    steps: tuple[Mapping[str, Any], ...]

    module: str = ""
    controls: tuple[Control, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
