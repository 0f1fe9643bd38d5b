"""One HTML file that needs nothing else: no script, no network, light and dark, printable."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from peerveil.errors import BadInput
from peerveil.files import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CSS: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --pale: #59636e; --paper: #ffffff; --card: #f5f7f9;
  --line: #d5dbe1; --accent: #2b7bba; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --pale: #a3adb8; --paper: #15181c; --card: #1e2329;
  --line: #3a424b; --accent: #6db3e8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 52rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; }
.lead { color: var(--pale); }
.promise { background: var(--card); border-left: 4px solid var(--accent); padding: .75rem 1rem; margin: 1rem 0; }
.warning { border: 1px solid var(--line); border-left: 4px solid #d1495b; padding: .5rem 1rem; margin: 1rem 0; }
.answers { padding-left: 1.2rem; }
.answers li { margin: .5rem 0; }
.answers .asked { display: block; color: var(--pale); font-size: .9rem; }
details { margin: .4rem 0 0; font-size: .9rem; }
summary { cursor: pointer; color: var(--pale); }
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
  figure::before { content: "swipe sideways to see the whole figure"; display: block; color: var(--pale);
    font-size: .8rem; position: sticky; left: 0; }
  figcaption { position: sticky; left: 0; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2 { break-after: avoid; margin-top: 1.5rem; }
  tr, .promise, .warning, dt { break-inside: avoid; }
  .wide { background: none; break-inside: auto; overflow: visible; }
  figure svg { max-height: 10.5cm; }
  a { color: inherit; }
  details::details-content { display: block; content-visibility: visible; }
}
"""


class Page:
    """A page that is written from top to bottom. All text is escaped; figures come from :func:`peerveil.report.svg`.

    >>> page = Page("What we found", lead="On <synthetic> data.")
    >>> page.heading("Scores")
    >>> page.table(["score", "papers"], [[1, 20], [2, 35]])
    >>> "&lt;synthetic&gt;" in page.html()
    True
    """

    def __init__(self, title: str, *, lead: str = "") -> None:
        if not title.strip():
            raise BadInput("title", got=title, want="a title")
        self._title = title
        self._parts: list[str] = [f"<h1>{_text(title)}</h1>"]
        if lead:
            self._parts.append(f'<p class="lead">{_text(lead)}</p>')
        self._footer = ""

    def heading(self, text: str) -> None:
        """A section begins."""
        self._parts.append(f"<h2>{_text(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Plain text."""
        self._parts.append(f"<p>{_text(text)}</p>")

    def answers(self, pairs: Sequence[tuple[str, str]]) -> None:
        """What was asked, and the answer to it."""
        items = "".join(
            f'<li><span class="asked">{_text(asked)}</span> <strong>{_text(answer)}</strong></li>'
            for asked, answer in pairs
        )
        self._parts.append(f'<ul class="answers">{items}</ul>')

    def promise(self, text: str, details: str = "") -> None:
        """A guarantee in words, set apart; what only few will read is folded away (and unfolded in print)."""
        more = f"<details><summary>The whole promise</summary><p>{_text(details)}</p></details>" if details else ""
        self._parts.append(f'<div class="promise"><p>{_text(text)}</p>{more}</div>')

    def code(self, text: str) -> None:
        """Something to be typed or copied."""
        self._parts.append(_code(text))

    def glossary(self, words: Mapping[str, str]) -> None:
        """Words and what they mean, at the place ``#words``."""
        body = "".join(f"<dt>{_text(word)}</dt><dd>{_text(meaning)}</dd>" for word, meaning in words.items())
        self._parts.append(f'<h2 id="words">Words</h2><dl>{body}</dl>')

    def see_words(self) -> None:
        """A way down to :meth:`glossary`."""
        self._parts.append('<p class="lead"><a href="#words">Words such as epsilon are explained at the end.</a></p>')

    def warning(self, title: str, lines: Sequence[str]) -> None:
        """Facts that must stay with the reader, set apart under a title; a line that begins with ``$`` is a command."""
        body = "".join(
            _code(line.removeprefix("$ ")) if line.startswith("$ ") else f"<p>{_text(line)}</p>" for line in lines
        )
        self._parts.append(f'<div class="warning"><p><strong>{_text(title)}</strong></p>{body}</div>')

    def figure(self, drawing: str, caption: str) -> None:
        """A picture, as :func:`peerveil.report.svg` makes it, with a caption."""
        if not drawing.startswith("<svg "):
            raise BadInput("drawing", got=drawing, want="what peerveil.report.svg returns")
        self._parts.append(f"<figure>{drawing}<figcaption>{_text(caption)}</figcaption></figure>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; on narrow screens every row is a card, elsewhere it scrolls where it is too wide.

        Columns without a single entry are left out. A cell may have several lines.
        """
        kept = [place for place in range(len(columns)) if any(str(row[place]) not in {"", "-"} for row in rows)]
        names = [_text(columns[place]) for place in kept]
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        body = "".join(
            "<tr>" + "".join(_cell(name, str(row[place])) for name, place in zip(names, kept, strict=True)) + "</tr>"
            for row in rows
        )
        self._parts.append(
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def footer(self, text: str) -> None:
        """The small print at the end."""
        self._footer = f"<footer>{_text(text)}</footer>"

    @property
    def parts(self) -> str:
        """What stands on the page, for pages that have a head of their own."""
        return "\n".join(self._parts)

    def html(self) -> str:
        """The whole page."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{_text(self._title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
            + "\n".join(self._parts)
            + f"\n</main>\n{self._footer}\n</body>\n</html>\n"
        )

    def write(self, path: str | Path, *, private: bool = False) -> Path:
        """Write the page, all or nothing, and return where it is; a private one is readable by its owner alone."""
        return write_text(path, self.html(), private=private)


def _cell(name: str, content: str) -> str:
    lines = content.split("\n")
    shown = _text(content) if len(lines) == 1 else "".join(f"<p>{_text(line)}</p>" for line in lines)
    empty = ' class="none"' if content in {"", "-"} else ""
    return f'<td{empty} data-label="{name.replace(chr(34), "&quot;")}">{shown}</td>'


def _code(text: str) -> str:
    return f"<pre><code>{_text(text)}</code></pre>"


def _text(text: str) -> str:
    return html.escape(text, quote=False)
