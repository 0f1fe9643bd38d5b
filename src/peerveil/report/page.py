"""One HTML file that needs nothing else: no script, no network, light and dark, printable."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from peerveil.errors import BadInput
from peerveil.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CSS: Final = """
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
figure { margin: 1rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption { color: var(--pale); font-size: .9rem; }
.wide { overflow-x: auto; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--pale); font-weight: 600; }
footer { margin-top: 3rem; color: var(--pale); font-size: .85rem; }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; } h2 { break-after: avoid; margin-top: 1.5rem; }
  .wide { break-inside: auto; overflow: visible; } tr, .promise, .warning { break-inside: avoid; }
  figure svg { max-height: 10.5cm; } a { color: inherit; } }
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

    def promise(self, text: str) -> None:
        """A guarantee in words, set apart."""
        self._parts.append(f'<p class="promise">{_text(text)}</p>')

    def warning(self, title: str, lines: Sequence[str]) -> None:
        """Facts that must stay with the reader, set apart under a title."""
        body = "".join(f"<p>{_text(line)}</p>" for line in lines)
        self._parts.append(f'<div class="warning"><p><strong>{_text(title)}</strong></p>{body}</div>')

    def figure(self, drawing: str, caption: str) -> None:
        """A picture, as :func:`peerveil.report.svg` makes it, with a caption."""
        if not drawing.startswith("<svg "):
            raise BadInput("drawing", got=drawing, want="what peerveil.report.svg returns")
        self._parts.append(f"<figure>{drawing}<figcaption>{_text(caption)}</figcaption></figure>")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; it scrolls by itself where it is too wide."""
        head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
        body = "".join("<tr>" + "".join(f"<td>{_text(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
        self._parts.append(
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def footer(self, text: str) -> None:
        """The small print at the end."""
        self._footer = f"<footer>{_text(text)}</footer>"

    def html(self) -> str:
        """The whole page."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{_text(self._title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
            + "\n".join(self._parts)
            + f"\n</main>\n{self._footer}\n</body>\n</html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Write the page, all or nothing, and return where it is."""
        return write_text(path, self.html())


def _text(text: str) -> str:
    return html.escape(text, quote=False)
