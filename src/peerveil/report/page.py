"""One HTML file that needs nothing else: no script, no network, light and dark, printable."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from peerveil.core.errors import BadInput
from peerveil.core.files import write_text
from peerveil.report.figures import Svg

CSS: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --pale: #59636e; --paper: #ffffff; --card: #f5f7f9;
  --line: #d5dbe1; --accent: #1f649b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --pale: #a3adb8; --paper: #15181c; --card: #1e2329;
  --line: #3a424b; --accent: #6db3e8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 3rem; max-width: 56rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 2.2rem; line-height: 1.15; letter-spacing: -.015em; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.2rem 0 .5rem; padding-top: 1.2rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; }
.lead { color: var(--pale); }
.lead a { display: inline-block; padding: .25rem 0; margin: -.25rem 0; }
.callout { background: var(--card); border-left: 4px solid var(--accent); padding: .75rem 1rem; margin: 1rem 0; }
.warning { border: 1px solid var(--line); border-left: 4px solid #d1495b; padding: .5rem 1rem; margin: 1rem 0; }
.finding h2 { font-size: 1rem; font-weight: 600; color: var(--pale); margin-bottom: .2rem; }
.finding .answer { font-size: 1.3rem; line-height: 1.35; font-weight: 600; margin: 0 0 .8rem; }
.finding figure { border: 1px solid var(--line); border-radius: .8rem; padding: 1rem; }
.finding ul { list-style: none; margin: 0; padding: 0; font-size: .9rem; }
@media screen and (min-width: 48rem) { .finding figure { display: grid; grid-template-columns: 1fr 12rem; gap: 1.2rem; } }
details { margin: .4rem 0 0; font-size: .9rem; }
summary { cursor: pointer; color: var(--pale); padding: .2rem 0; }
.fold { font-size: 1rem; margin-top: .5rem; }
.fold > summary { color: var(--accent); }
pre { background: var(--card); border: 1px solid var(--line); padding: .6rem .8rem; margin: .6rem 0; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; break-inside: avoid; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0 0 0 1rem; }
a { color: var(--accent); }
figure { margin: 1rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption { color: var(--pale); font-size: .9rem; }
.wide { overflow-x: auto; margin: 1rem 0;
  background: linear-gradient(90deg, var(--paper) 30%, transparent) 0 0 / 3rem 100% no-repeat local,
    linear-gradient(270deg, var(--paper) 30%, transparent) 100% 0 / 3rem 100% no-repeat local,
    linear-gradient(90deg, var(--line), transparent) 0 0 / 1rem 100% no-repeat scroll,
    linear-gradient(270deg, var(--line), transparent) 100% 0 / 1rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--pale); font-weight: 600; }
td p { margin: 0 0 .3rem; }
footer { margin-top: 3rem; color: var(--pale); font-size: .85rem; }
@media screen and (max-width: 40rem) {
  body { padding: 1.25rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  table, tbody, tr, td { display: block; width: 100%; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tr { border: 1px solid var(--line); margin: 0 0 .8rem; padding: .3rem 0; }
  td { border: 0; overflow-wrap: anywhere; }
  td.none { display: none; }
  td::before { content: attr(data-label); display: block; color: var(--pale); font-size: .8rem; font-weight: 600; }
  figure { overflow-x: auto; }
  figure svg { min-width: 30rem; }
  .finding figure { padding: .7rem; }
  .finding .answer { font-size: 1.15rem; }
  figure::before { content: "swipe sideways to see the whole figure"; display: block; color: var(--pale);
    font-size: .8rem; position: sticky; left: 0; }
  figcaption { position: sticky; left: 0; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2 { break-after: avoid; margin-top: 1.5rem; }
  tr, .callout, .warning, dt { break-inside: avoid; }
  .wide { background: none; break-inside: auto; overflow: visible; }
  figure svg { max-height: 10.5cm; }
  a { color: inherit; }
  details::details-content { display: block; content-visibility: visible; }
}
"""
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "account, budget": "What all studies together may ever spend on some data, in epsilon. It is never refilled.",
        "adversary": "Somebody who sees all that is published, knows how it was made, and tries to learn about one person.",
        "chance, p-value": "How often judgments without any signal would look at least as clear as these. Below the level "
        "that was set beforehand, chance is not a good explanation.",
        "delay": "The random time that a post waits before it appears, drawn once.",
        "epsilon": "How much can be learned about what is protected; smaller is safer. At 1 a 50:50 guess is correct at most "
        "73.2% of the time, at 5 at most 99.4%. What is spent on the same data adds up.",
        "gap": "How far apart two posts of one person may be and still look as if they might have been written together.",
        "guarantee": "What holds for everybody in the data, whatever else a reader knows. It names what is "
        "protected, and which two cases are hard to distinguish.",
        "ledger": "The record of what was spent. It is debited before noise is drawn, and cannot be overdrawn.",
        "linking": "Guessing that posts which appear close together come from one person. Attacks are compared by how "
        "many links are correct when half of the true pairs are found.",
        "miscalibration": "How far a score is from those that others gave to the same paper: the measure of strictness.",
        "neighboring cases": "Two states of the data that a guarantee makes hard to distinguish, such as two reviewers who "
        "exchanged one review each.",
        "noise": "Random amounts that are added before anything is published. They are what protects.",
        "one-sided": "The sensitive case is hidden (two posts were written in one sitting); the harmless case may show.",
        "protected, weakly protected": "In summaries: protected up to epsilon 2, weakly protected up to 5, in effect not "
        "protected beyond.",
        "randomized answer": "An answer that was changed at random on the person's device before it was sent.",
        "simulation": "Noise from a seed that somebody knows: it protects nobody, and is not for publication.",
        "sitting": "Posts of one person on different threads a few minutes apart.",
        "follow-up": "The default way to delay: a post that follows another of the same person on another "
        "thread waits longer than one that follows nothing.",
        "strictness": "A reviewer's mean miscalibration. Negative: stricter than others on the same papers; positive: more "
        "lenient.",
        "wrong both ways": "How often the best test takes two posts that were written together for apart, when it is wrong "
        "equally often the other way round. A coin is wrong 50% of the time.",
    }
)
"""Words that reports use, and what they mean; the glossary of the documentation shows the same list."""


class Line(NamedTuple):
    """A paragraph, and the command below it if there is one."""

    text: str
    command: str = ""

    def paragraphs(self) -> list[str]:
        """For a terminal: the command has a ``$`` in front."""
        return [self.text, f"$ {self.command}"] if self.command else [self.text]


class PagePart(NamedTuple):
    """One part of a page: its kind (a name in ``_HTML``) and what stands in it. All text is escaped, figures are SVG."""

    kind: str
    content: tuple[Any, ...]

    def __html__(self) -> str:
        return _HTML[self.kind](*self.content)


_Parts = Sequence[tuple[str, Sequence[Any]]]  # parts inside a part, as they are or as JSON holds them


class Page:
    """A page that is written from top to bottom, part by part. Text is escaped; figures come from :func:`peerveil.report.svg`.

    >>> page = Page("What we found", lead="On <synthetic> data.")
    >>> page.heading("Scores")
    >>> page.table(["score", "papers"], [[1, 20], [2, 35]])
    >>> "&lt;synthetic&gt;" in page.html()
    True
    >>> [part.kind for part in page.parts]
    ['title', 'lead', 'heading', 'table']
    """

    def __init__(self, title: str, *, lead: str = "") -> None:
        if not title.strip():
            raise BadInput("title", got=title, want="a title")
        self.title = title
        self.parts: list[PagePart] = []
        self._footer = ""
        self._add("title", title)
        if lead:
            self._add("lead", lead)

    def _add(self, kind: str, *content: Any) -> None:
        self.parts.append(PagePart(kind, content))

    def heading(self, text: str) -> None:
        """A section begins."""
        self._add("heading", text)

    def paragraph(self, text: str) -> None:
        """Plain text."""
        self._add("paragraph", text)

    def link(self, text: str, target: str) -> None:
        """A line that leads to a file beside the page."""
        self._add("link", text, target)

    def finding(
        self, question: str, answer: str, charts: Sequence[tuple[Svg, str]], facts: Sequence[Sequence[str]]
    ) -> None:
        """One screen: what was asked, the answer in a sentence, charts with captions, and facts (pairs of what and how)."""
        figures = [PagePart("figure", ((drawing.attributes, drawing.content), caption)) for drawing, caption in charts]
        self._add("finding", question, answer, figures, [list(fact) for fact in facts])

    @contextmanager
    def folded(self, summary: str) -> Iterator[None]:
        """Parts that are added inside the block are folded away under a summary (and unfolded in print)."""
        before, self.parts = self.parts, []
        try:
            yield
        finally:
            inner, self.parts = self.parts, before
        if inner:
            self._add("folded", summary, inner)

    def guarantee(self, text: str, details: str = "") -> None:
        """A guarantee in words, set apart; what only few will read is folded away (and unfolded in print)."""
        self._add("guarantee", text, details)

    def code(self, text: str) -> None:
        """Something to be typed or copied."""
        self._add("code", text)

    def glossary(self, words: Mapping[str, str]) -> None:
        """Words and what they mean, folded away at the place ``#words``."""
        self._add("glossary", dict(words))

    def see_words(self) -> None:
        """A way down to :meth:`glossary`."""
        self._add("see_words")

    def warning(self, title: str, lines: Sequence[str | Line]) -> None:
        """Facts that must stay with the reader, set apart under a title."""
        self._add("warning", title, [line if isinstance(line, Line) else Line(line) for line in lines])

    def figure(self, drawing: Svg, caption: str) -> None:
        """A picture, as :func:`peerveil.report.svg` makes it, with a caption."""
        if not isinstance(drawing, Svg):
            raise BadInput("drawing", got=drawing, want="what peerveil.report.svg returns")
        self._add("figure", (drawing.attributes, drawing.content), caption)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; on narrow screens every row is a card, elsewhere it scrolls where it is too wide.

        Columns without a single entry are left out. A cell may have several lines.
        """
        self._add("table", list(columns), [[str(cell) for cell in row] for row in rows])

    def footer(self, text: str) -> None:
        """The small print at the end."""
        self._footer = text

    def __html__(self) -> str:
        """What stands on the page, for pages that have a head of their own."""
        return "\n".join(part.__html__() for part in self.parts)

    def html(self) -> str:
        """The whole page."""
        footer = f"<footer>{_text(self._footer)}</footer>" if self._footer else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{_text(self.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
            f"{self.__html__()}\n</main>\n{footer}\n</body>\n</html>\n"
        )

    def write(self, path: str | Path, *, private: bool = False) -> Path:
        """Write the page, all or nothing, and return where it is; a private one is readable by its owner alone."""
        return write_text(path, self.html(), private=private)

    def to_dict(self) -> dict[str, Any]:
        """The page as JSON values."""
        return {"title": self.title, "parts": [[kind, *rest] for kind, rest in self.parts], "footer": self._footer}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Page:
        """What :meth:`to_dict` gave."""
        page = cls(data["title"])
        page.parts = [PagePart(kind, tuple(content)) for kind, *content in data["parts"]]
        page.footer(data["footer"])
        return page


# ---- parts as HTML ---------------------------------------------------------------------------------------------------


def _finding(question: str, answer: str, charts: _Parts, facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li>{_text(what)}: <strong>{_text(how)}</strong></li>" for what, how in facts)
    body = f'<h2>{_text(question)}</h2><p class="answer">{_text(answer)}</p>{_inner(charts)}'
    return f'<section class="finding">{body}{f"<ul>{items}</ul>" if items else ""}</section>'


def _folded(summary: str, parts: _Parts) -> str:
    return f'<details class="fold"><summary>{_text(summary)}</summary>{_inner(parts)}</details>'


def _inner(parts: _Parts) -> str:
    return "\n".join(PagePart(kind, tuple(content)).__html__() for kind, content in parts)


def _guarantee(text: str, details: str) -> str:
    more = f"<details><summary>The full guarantee</summary><p>{_text(details)}</p></details>" if details else ""
    return f'<div class="callout"><p>{_text(text)}</p>{more}</div>'


def _glossary(words: Mapping[str, str]) -> str:
    body = "".join(f"<dt>{_text(word)}</dt><dd>{_text(meaning)}</dd>" for word, meaning in words.items())
    return f'<details class="fold" id="words"><summary>Words used here</summary><dl>{body}</dl></details>'


def _warning(title: str, lines: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"<p>{_text(text)}</p>{_code(command) if command else ''}" for text, command in lines)
    return f'<div class="warning"><p><strong>{_text(title)}</strong></p>{body}</div>'


def _figure(drawing: tuple[str, str], caption: str) -> str:
    return f"<figure>{Svg(*drawing)}<figcaption>{_text(caption)}</figcaption></figure>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    filled = [place for place in range(len(columns)) if any(row[place] not in {"", "-"} for row in rows)]
    names = [_text(columns[place]) for place in filled]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(_cell(name, row[place]) for name, place in zip(names, filled, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(name: str, content: str) -> str:
    lines = content.split("\n")
    shown = _text(content) if len(lines) == 1 else "".join(f"<p>{_text(line)}</p>" for line in lines)
    empty = ' class="none"' if content in {"", "-"} else ""
    return f'<td{empty} data-label="{name.replace(chr(34), "&quot;")}">{shown}</td>'


def _code(text: str) -> str:
    return f"<pre><code>{_text(text)}</code></pre>"


def _text(text: str) -> str:
    return html.escape(text, quote=False)


_HTML: Final[Mapping[str, Callable[..., str]]] = {
    "title": lambda text: f"<h1>{_text(text)}</h1>",
    "lead": lambda text: f'<p class="lead">{_text(text)}</p>',
    "heading": lambda text: f"<h2>{_text(text)}</h2>",
    "paragraph": lambda text: f"<p>{_text(text)}</p>",
    "link": lambda text, target: f'<p class="lead"><a href="{html.escape(target)}">{_text(text)}</a></p>',
    "finding": _finding,
    "folded": _folded,
    "guarantee": _guarantee,
    "code": _code,
    "glossary": _glossary,
    "see_words": lambda: '<p class="lead"><a href="#words">Words such as epsilon are explained at the end.</a></p>',
    "warning": _warning,
    "figure": _figure,
    "table": _table,
}
