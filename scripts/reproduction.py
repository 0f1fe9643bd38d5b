"""The documentation's reproduction pages, from stored runs.

`peerveil reproduce all`, then `.venv/bin/python scripts/reproduction.py out/reproduce` stores the results of that run in
docs/reproduction (a quick run is refused). docs/conf.py makes the pages from what is stored, one per module.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from peerveil.core.files import write_text
from peerveil.papers.reproduce import Verdict, experiments
from peerveil.papers.reproduce.experiment import MODULES

ROOT = Path(__file__).parents[1]
STORE = ROOT / "docs" / "reproduction"
INDEX = ROOT / "src/peerveil/papers/reproduce/data/index.json"  # what `peerveil reproduce --list` prints
PAPERS = {
    "release": "Ding, Shah and Wang, *On the Privacy-Utility Tradeoff in Peer-Review Data Analysis* (2021)",
    "timing": "Goldberg, Fanti and Shah, *Batching of Tasks by Users of Pseudonymous Forums* (2022)",
    "calibration": "Ding, Kamath, Wang and Shah, *Calibration with Privacy in Peer Review* (2022)",
    "rankings": "Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021)",
    "truth": "Wang and Xu, *Inferring Ground Truth From Crowdsourced Data Under Local Attribute Differential Privacy* (2020); "
    "it has theorems and no figures, so the experiments are ours",
}
HEAD = """# Reproduction

Every figure, table, algorithm and theorem with a computable claim, computed again: the paper's value, ours, and whether they
agree. {state}

- **agrees**: as printed, or in the printed direction.
- **erratum**: differs, and [the errata](../errata.md) explain why.
- **differs**: differs without an erratum; the note names the obstacle, mostly data that are not available.
- **nothing printed**: our own measurement; the paper gives no number.

`peerveil reproduce all` repeats everything, `peerveil reproduce release/figure-2a` one result. The papers' figures are not
copied.

"""
FOLD_ROWS = 12  # longer tables are folded


def load() -> list[dict[str, Any]]:
    """The stored results in the order of the experiments; those not stored have no rows."""
    results = []
    for name in experiments():
        file = STORE / f"{name}.json"
        missing = {"name": name, "title": "not stored", "note": "", "rows": []}
        results.append(json.loads(file.read_text(encoding="utf-8")) if file.is_file() else missing)
    return results


def cell(text: object) -> str:
    """Text in a table of Markdown."""
    return re.sub(r"([|*_<>\[\]\\`])", r"\\\1", " ".join(str(text).split()))


def table(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """A table of Markdown; cells are texts already."""
    lines = ["| " + " | ".join(map(str, row)) + " |\n" for row in [columns, ("---",) * len(columns), *rows]]
    return "".join(lines)


def counts(results: list[dict[str, Any]]) -> list[int]:
    """How many rows have each verdict."""
    verdicts = [row["verdict"] for result in results for row in result["rows"]]
    return [verdicts.count(verdict) for verdict in Verdict]


def overview(results: list[dict[str, Any]]) -> str:
    """The first page: one row per module and one per result."""
    stored = [result for result in results if result["rows"]]
    hours = sum(result["seconds"] for result in stored) / 3600
    state = f"{len(stored)} of {len(results)} results are stored, all from full runs; {hours:.1f} hours of one core."
    rows: list[tuple[object, ...]] = []
    for module in MODULES:
        own = [result for result in stored if result["name"].startswith(f"{module}/")]
        rows.append((f"[{module}]({module}.md)", len(own), *counts(own)))
    page = HEAD.format(state=state) + table(
        ("module", "results", *Verdict), [*rows, ("all", len(stored), *counts(stored))]
    )
    toctree = "\n```{toctree}\n:hidden:\n\n" + "\n".join(MODULES) + "\n```\n"
    return page + toctree


def numbers_of(rows: list[dict[str, str]]) -> str:
    """The rows as tables: those that say "x: a / b" and "1 / 2" become one with columns a and b."""
    grids: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        tail = row["what"].rpartition(": ")[2]
        grids.setdefault(tail if row["ours"].count(" / ") == tail.count(" / ") > 0 else "", []).append(row)
    return "\n".join(_grid(tail.split(" / "), group) if tail else _list(group) for tail, group in grids.items())


def _list(rows: list[dict[str, str]]) -> str:
    cells = [tuple(cell(row[key]) for key in ("what", "paper", "ours")) for row in rows]
    return table(
        ("", "paper", "ours", "verdict"), [(*line, _verdict(row)) for line, row in zip(cells, rows, strict=True)]
    )


def _grid(methods: list[str], rows: list[dict[str, str]]) -> str:
    papers = len({row["paper"] for row in rows}) > 1  # said once in the note otherwise
    lines = [
        (
            cell(row["what"].rpartition(": ")[0]),
            *([cell(row["paper"])] if papers else []),
            *map(cell, row["ours"].split(" / ")),
            _verdict(row),
        )
        for row in rows
    ]
    return table(("", *(["paper"] if papers else []), *map(cell, methods), "verdict"), [*lines])


def _verdict(row: dict[str, str]) -> str:
    return cell(row["explanation"] or row["verdict"])


def section(result: dict[str, Any]) -> str:
    """One figure, table or theorem: the figure beside the numbers."""
    name, rows = result["name"], result["rows"]
    numbers = numbers_of(rows)
    if len(rows) > FOLD_ROWS:
        numbers = f"````{{dropdown}} All {len(rows)} rows\n{numbers}````\n"
    picture = f"![{cell(result['title'])}]({name}.svg)\n\n" if (STORE / f"{name}.svg").is_file() else ""
    body = f":::::{{container}} beside\n{picture}{numbers}:::::\n" if picture else numbers
    _, short = name.split("/")
    heading = f"## {short.replace('-', ' ').capitalize()}: {cell(result['title'])}"
    seconds = f"`peerveil reproduce {name}` ({result['seconds']:.0f} s)"
    return f"\n{heading}\n\n{seconds}\n\n{body}\n{result['note'].replace('*', chr(92) + '*')}\n"


def write_pages() -> None:
    """Write the pages that docs/conf.py asks for, where they changed."""
    results = load()
    pages = {"index": overview(results)}
    for module in MODULES:
        own = [result for result in results if result["rows"] and result["name"].startswith(f"{module}/")]
        verdicts = ", ".join(f"{number} {verdict}" for number, verdict in zip(counts(own), Verdict, strict=True))
        head = f"# {module.capitalize()}\n\n{PAPERS[module]}. Rows: {verdicts}.\n"
        pages[module] = head + "".join(section(result) for result in own)
    for name, text in pages.items():
        page = STORE / f"{name}.md"
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            write_text(page, text)


def smaller(svg: str) -> str:
    """Fewer digits in coordinates; labels stay as they are."""

    def shorter(match: re.Match[str]) -> str:
        return re.sub(r"(\d+\.\d{2})\d+", r"\1", match[0])

    return re.sub(r' (?:d|points|transform|x|y)="[^"]*"', shorter, svg)


def store(run: Path) -> None:
    """Store the results of a full run."""
    for name in experiments():
        file = run / f"{name}.json"
        if not file.is_file():
            continue
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["quick"]:
            sys.exit(f"{file} is from a quick run: run `peerveil reproduce {name}` without --quick")
        data = {key: result[key] for key in ("name", "title", "note", "seconds", "rows")}
        write_text(STORE / f"{name}.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        figure = file.with_suffix(".svg")
        if figure.is_file():
            write_text(STORE / f"{name}.svg", smaller(figure.read_text(encoding="utf-8")))


def write_index() -> None:
    """Titles and seconds of the stored results, for the command line."""
    pairs = {result["name"]: [result["title"], result.get("seconds")] for result in load()}
    lines = (f"  {json.dumps(name)}: {json.dumps(pair, ensure_ascii=False)}" for name, pair in pairs.items())
    write_text(INDEX, "{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    for place in sys.argv[1:] or ["out/reproduce"]:
        store(Path(place))
    write_index()
