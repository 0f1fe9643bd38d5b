"""The rules can fail: a sound page breaks none of them, and each deliberate fault breaks its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.web.console.accessibility import broken, faults, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

SOUND = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sound</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root { color-scheme: light dark; } body { font: 16px sans-serif; margin: 1rem; background: #fff; color: #222; }
a { color: #0645ad; } button, input, select { min-height: 30px; } ::placeholder { color: #555; opacity: 1; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } a { color: #9cf; } ::placeholder { color: #bbb; } }
:focus-visible { outline: 3px solid #2b7bba; }
/*style*/</style></head><body>
<header><nav aria-label="Pages"><a href="#main">All <b>pages</b></a> of this site</nav></header>
<main id="main"><h1>Sound</h1><p>Some text, and <a href="#main">a link</a> in it.</p><h2>More</h2>
<form><label>Name <input name="name" placeholder="Ada"></label><label for="c">Kind</label>
<select id="c"><option>one</option></select>
<button>Send</button></form>
<table><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table><ul><li>one</li></ul>
<svg role="img" aria-label="A line" width="50" height="30"><text y="20" fill="currentColor">x</text></svg>
<details><summary style="min-height: 24px; padding: 4px">More</summary><p class="folded">Folded away.</p></details>
</main><footer>The end</footer></body></html>"""

FAULTS = [
    ("language", '<html lang="en">', "<html>"),
    ("title", "<title>Sound</title>", "<title> </title>"),
    ("zoom", "initial-scale=1", "initial-scale=1, user-scalable=no"),
    ("landmarks", '<main id="main">', '<div id="main">'),
    ("landmarks", ' aria-label="Pages"', ""),
    ("landmarks", "<footer>The end</footer>", "<div>Lost</div>"),
    ("headings", "<h1>Sound</h1>", "<p>Sound</p>"),
    ("headings", "<h2>More</h2>", "<h1>More</h1>"),
    ("headings", "<h2>More</h2>", "<h3>More</h3>"),
    ("headings", "<h2>More</h2>", "<h2></h2>"),
    ("control-name", "<label>Name <input", "<label><input"),
    ("control-name", '<label for="c">', "<label>"),
    ("control-name", "<button>Send", '<progress value="0.5"></progress><button>Send'),
    ("image-name", ' aria-label="A line"', ""),
    ("image-name", 'role="img"', ""),
    ("image-name", "<ul>", '<img src="data:,"><ul>'),
    ("link-name", ">a link<", '><span aria-hidden="true">x</span><'),
    ("button-name", "<button>Send", "<button>"),
    ("unique-ids", "<footer>", '<footer id="main">'),
    ("references", '<input name="name"', '<input name="name" aria-describedby="nowhere"'),
    ("references", 'for="c"', 'for="d"'),
    ("references", 'href="#main">a', 'href="#gone">a'),
    ("tab-order", "<button>", '<button tabindex="3">'),
    ("tab-order", "<footer>The end", '<footer aria-hidden="true"><button>x</button>'),
    ("table-headers", '<th scope="col">', "<th>"),
    ("table-headers", '<th scope="col">a</th>', "<td>a</td>"),
    ("lists", "<li>one</li>", "<p>one</p>"),
    ("lists", "<ul><li>one</li></ul>", "<div><li>one</li></div>"),
    ("lists", "<ul>", "<dd>lost</dd><ul>"),
    ("contrast", "/*style*/", "p { color: #999; }"),
    ("contrast", "/*style*/", "p { opacity: .4; }"),
    ("contrast", "/*style*/", ".folded { color: #888; }"),
    ("contrast", "/*style*/", "p { background: #444; }"),
    ("contrast", "/*style*/", "p { background: url(data:,); }"),
    ("contrast", "/*style*/", "::placeholder { color: #aaa; }"),
    ("contrast", "/*style*/", "input { color: #aaa; background: #ddd; }"),
    ("contrast", "/*style*/", 'td::before { content: "label"; color: #aaa; }'),
    ("contrast", 'fill="currentColor"', 'fill="#8a8f98"'),
    ("target-size", "/*style*/", "button { min-height: 0; height: 15px; padding: 0; font-size: 10px; }"),
    ("target-size", "<p>Some text, and <a", "<p><a"),
    ("sideways", "<ul>", '<div style="width: 2000px">wide</div><ul>'),
]
DARK_ONLY = "@media (prefers-color-scheme: dark) { p { color: #555; } }"


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 380, "height": 700}, color_scheme="light")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_sound_page_breaks_no_rule(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_content(SOUND)
    assert faults(page) == []
    assert walk(page) == []


@pytest.mark.parametrize(("rule", "sound", "fault"), FAULTS)
def test_each_deliberate_fault_is_found(page: Page, rule: str, sound: str, fault: str) -> None:
    planted = SOUND.replace(sound, fault)
    if fault == "<p><a":  # a link that stands alone is no part of a sentence
        planted = planted.replace("</a> in it.</p>", "</a></p>")
    assert planted != SOUND
    page.emulate_media(color_scheme="light")
    page.set_content(planted)
    assert rule in broken(page)


def test_a_fault_that_only_the_dark_shows(page: Page) -> None:
    page.set_content(SOUND.replace("/*style*/", DARK_ONLY))
    page.emulate_media(color_scheme="light")
    assert "contrast" not in broken(page)
    page.emulate_media(color_scheme="dark")
    assert "contrast" in broken(page)


@pytest.mark.parametrize(
    ("begins", "sound", "fault"),
    [
        ("focus:", "outline: 3px solid #2b7bba", "outline: none"),
        ("focus:", "/*style*/", "button { position: fixed; left: -500px; }"),
        ("reach:", "<button>Send", '<button onfocus="this.blur()">Send'),
        ("trap:", 'name="name"', """name="name" onkeydown="if (event.key === 'Tab') event.preventDefault()" """),
    ],
)
def test_the_walk_finds_deliberate_faults(page: Page, begins: str, sound: str, fault: str) -> None:
    page.emulate_media(color_scheme="light")
    page.set_content(SOUND.replace(sound, fault))
    assert any(one.startswith(begins) for one in walk(page))
