"""Pages: escaped, self-contained, whole or not there."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from peerveil import BadInput, Guarantee, PeerveilError, Randomness, Result
from peerveil.core.result import plain
from peerveil.report import Line, Page, Svg, figure_style, new_axes, svg
from peerveil.report.page import _HTML

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'and'"


@dataclass(frozen=True, kw_only=True)
class Curve(Result):
    values: tuple[float, ...] = (1.0, 2.0)

    def draw(self, ax: Any) -> None:
        ax.plot(self.values)


PROMISE = Guarantee.pure_dp(1, unit="one review", neighbors="one review has another score")


def page() -> Page:
    built = Page(f"Title {HOSTILE}", lead=HOSTILE)
    built.heading(HOSTILE)
    built.paragraph(HOSTILE)
    built.guarantee(HOSTILE, HOSTILE)
    built.link(HOSTILE, HOSTILE)
    built.code(HOSTILE)
    built.warning(HOSTILE, [HOSTILE, Line(HOSTILE, HOSTILE)])
    built.see_words()
    built.glossary({HOSTILE: HOSTILE})
    built.table([HOSTILE], [[HOSTILE]])
    (ax,) = new_axes()
    with figure_style():
        ax.plot([1, 2], label=HOSTILE)
        ax.legend()
    built.figure(svg(ax, alt=HOSTILE), HOSTILE)
    with built.folded(HOSTILE):
        built.paragraph(HOSTILE)
        built.finding(HOSTILE, HOSTILE, [(svg(ax, alt=f"{HOSTILE}, folded"), HOSTILE)], [(HOSTILE, HOSTILE)])
    built.finding(HOSTILE, HOSTILE, [], [])
    built.footer(HOSTILE)
    return built


def test_nothing_gets_through_unescaped() -> None:
    tags: list[str] = []

    class Collector(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Collector().feed(page().html())
    assert "script" not in tags
    other = Page("Two figures")
    for values in ([1, 2], [2, 1]):
        (ax,) = new_axes()
        ax.plot(values)
        other.figure(svg(ax, alt="a line"), "a line")
    ids = re.findall(r' id="([^"]+)"', other.html())
    assert len(ids) == len(set(ids)) > 20
    assert {"main", "svg", "table", "h1", "h2"} <= set(tags)


def test_nothing_comes_from_outside() -> None:
    text = page().html()
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert all("w3.org" in address for address in addresses), addresses  # names of XML vocabularies, never fetched
    assert "default-src 'none'" in text


def test_figures_take_the_pages_colors_and_are_reproducible() -> None:
    first, second = page().html(), page().html()
    assert first == second
    assert "currentColor" in first
    assert "#010203" not in first


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new" / "report.html"
    assert page().write(target) == target
    before = target.read_text(encoding="utf-8")

    def fail(self: Path, *_: object) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(BadInput, match="disk full"):
        Page("other").write(target)
    assert target.read_text(encoding="utf-8") == before
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_parts_are_data_that_make_the_same_page_again() -> None:
    whole = page()
    kept = json.loads(json.dumps(whole.to_dict()))
    assert Page.from_dict(kept).html() == whole.html()
    assert {part.kind for part in whole.parts} == set(_HTML)  # no kind of part is left out here
    # another page takes the parts, with nothing around them; whatever is no page and no figure is escaped
    assert escape(whole) in whole.html()
    assert "<main>" not in escape(whole)
    assert escape(whole.parts[0].__html__()).startswith("&lt;h1&gt;")
    figure = next(part.content[0] for part in whole.parts if part.kind == "figure")
    assert escape(Svg(*figure)) == str(Svg(*figure))


def test_a_figure_alone_brings_its_colors() -> None:
    (ax,) = new_axes()
    picture = svg(ax, alt="a line")
    assert picture.alone().startswith('<svg style="color: #1b1f24; background: #ffffff" role="img" ')
    assert picture.alone("#777777", background=None).startswith('<svg style="color: #777777" role="img" ')
    assert picture.alone().endswith(picture.content)
    again = pickle.loads(pickle.dumps(picture))
    assert (again, again.alone()) == (picture, picture.alone())


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="^title"):
        Page(" ")
    with pytest.raises(BadInput, match="^alt"):
        svg(new_axes()[0], alt="")
    with pytest.raises(BadInput, match="^drawing"):
        Page("a").figure("<svg onload='alert(1)'></svg>", "b")  # type: ignore[arg-type]


def test_the_mark_is_on_every_form_of_a_result() -> None:
    simulated = Curve(guarantee=Randomness.simulation(1).stamp(PROMISE))
    private = Curve(guarantee=Randomness.secure().stamp(PROMISE))
    none = Curve(guarantee=Guarantee.pure_dp(None, unit="one review", neighbors="one review has another score"))
    assert "[simulation, not private]" in str(simulated)
    assert simulated.to_dict()["mark"] == "simulation, not private"
    assert "simulation, not private" in svg(simulated.plot(), alt="a curve")
    assert "not private" in svg(none.plot(), alt="a curve")
    assert "not private" not in svg(private.plot(), alt="a curve")
    assert private.mark is None
    assert not private.simulated
    assert "simulation" in simulated.to_json()
    with pytest.raises(PeerveilError, match="has no picture"):
        Result(guarantee=PROMISE).plot()


def test_plain_values() -> None:
    import datetime as dt

    import numpy as np
    import polars as pl

    assert plain(np.float64("nan")) == "NaN"
    assert plain({"when": dt.datetime(2026, 1, 1), 3: (np.int8(1), {2})}) == {
        "when": "2026-01-01T00:00:00",
        "3": [1, [2]],
    }
    assert plain(object).startswith("<class")
    assert plain(np.longdouble("0.5")) == 0.5
    assert plain(np.array(["0.5"], dtype=np.longdouble)) == [0.5]
    assert plain(np.array(["2026-01-01T00:00:00.5"], dtype="datetime64[ns]"))[0].startswith("2026-01-01T00:00:00.5")
    frame = pl.DataFrame({"a": range(100)})
    assert plain(frame)[99] == {"a": 99}
    assert plain(frame["a"])[99] == 99
    with pytest.raises(BadInput, match="keys that stay different"):
        plain({1: 2, "1": 3})
    with pytest.raises(BadInput, match="^guarantee: got None"):
        Result(guarantee=None)  # type: ignore[arg-type]
