"""Every link inside the repository and inside the built documentation leads somewhere. No network is used."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from peerveil.study.schema import reference_page

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "actions.md"  # by docs/conf.py
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        ".github/**/*.md",
        "clients/**/*.md",
        "docs/**/*.md",
        "examples/**/*.md",
        "packaging/**/*.md",
    )
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts and path != GENERATED
)


@cache
def headings(path: Path) -> set[str]:
    """The anchors that GitHub and MyST give to the headings of a page."""
    tokens = MarkdownIt().parse(reference_page() if path == GENERATED else path.read_text(encoding="utf-8"))
    anchors: set[str] = set()
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in content.children or () if child.type in ("text", "code_inline"))
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.add(next(name for name in _numbered(anchor) if name not in anchors))
    return anchors


def _numbered(anchor: str) -> Iterator[str]:
    yield anchor
    for number in range(1, 1000):
        yield f"{anchor}-{number}"


def targets(path: Path) -> Iterator[str]:
    """What a page links to and which pictures it shows."""
    for token in MarkdownIt().parse(path.read_text(encoding="utf-8")):
        for child in token.children or ():
            if address := child.attrs.get("href") or child.attrs.get("src"):
                yield str(address)
            if child.type == "html_inline":
                yield from re.findall(r'(?:href|src)="([^"]+)"', child.content)
        if token.type == "html_block":
            yield from re.findall(r'(?:href|src)="([^"]+)"', token.content)


def broken_in_texts(paths: Iterable[Path]) -> list[str]:
    """Links of Markdown pages to files or headings that do not exist."""
    faults = []
    for path in paths:
        for address in targets(path):
            link = urlsplit(address)
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            exists = target.exists() or target == GENERATED
            if not exists or (link.fragment and target.suffix == ".md" and link.fragment not in headings(target)):
                faults.append(f"{path.name}: {address}")
    return faults


class PageLinks(HTMLParser):
    """The anchors of a built page, and all addresses in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag offers and needs."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                self.addresses.append(value)


def broken_in_html(folder: Path) -> list[str]:
    """Internal links of built pages to files or anchors that do not exist."""
    found = (path for path in folder.rglob("*.html") if "_static" not in path.parts)  # parts of the theme are no pages
    pages = {path.resolve(): PageLinks(path.read_text(encoding="utf-8")) for path in found}
    faults = []
    for path, page in pages.items():
        for address in page.addresses:
            link = urlsplit(address)
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            anchor = unquote(link.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                faults.append(f"{path.name}: {address}")
    return faults


def test_links_between_texts() -> None:
    assert {"README.md", "CONTRIBUTING.md", "index.md"} <= {path.name for path in TEXTS}
    assert sum(1 for path in TEXTS for _ in targets(path)) > 100
    assert broken_in_texts(TEXTS) == []


def test_links_between_built_pages() -> None:
    """``make test`` has built the pages before; this only brings them up to date."""
    built = ROOT / "docs" / "_build" / "html"
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(built)], cwd=ROOT, check=True)
    assert len(list(built.rglob("*.html"))) > 20
    assert broken_in_html(built) == []


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    """A missing file, heading, picture, page and anchor; what is whole or elsewhere is left alone."""
    (tmp_path / "one.md").write_text(
        "# First page\n## The `data`, twice\n## The `data`, twice\n[a](two.md#second) [b](#the-data-twice-1) [c](https://x.org/y)\n"
        '[d](gone.md) [e](two.md#third) ![f](gone.svg)\n\n<img src="lost.svg">\n',
        encoding="utf-8",
    )
    (tmp_path / "two.md").write_text("# Second\n", encoding="utf-8")
    faults = broken_in_texts([tmp_path / "one.md", tmp_path / "two.md"])
    assert faults == ["one.md: gone.md", "one.md: two.md#third", "one.md: gone.svg", "one.md: lost.svg"]
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="b.html#there"></a><img src="c.png"><a href="#top"></a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html?v=1"></a><a href="mailto:x@y.z"></a></p>')
    assert broken_in_html(tmp_path) == ["a.html: b.html#there", "a.html: c.png", "a.html: #top"]
