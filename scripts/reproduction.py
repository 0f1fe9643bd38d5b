"""Write docs/reproduction.md from a run: `peerveil reproduce all`, then `.venv/bin/python scripts/reproduction.py out/reproduce`.

A second folder fills in what the first lacks (such as a run with --quick); what was quick is said to be quick.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from peerveil.core.files import write_text
from peerveil.papers.reproduce import Verdict, experiments

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
INDEX = ROOT / "src/peerveil/papers/reproduce/data/index.json"  # what `peerveil reproduce --list` prints
PICTURES = ROOT / "docs" / "pictures" / "reproduce"
PAPERS = {
    "release": "Ding, Shah and Wang, *On the Privacy-Utility Tradeoff in Peer-Review Data Analysis* (2021)",
    "timing": "Goldberg, Fanti and Shah, *Batching of Tasks by Users of Pseudonymous Forums*",
    "calibration": "Ding, Kamath, Wang and Shah, *Calibration with Privacy in Peer Review* (2022)",
    "rankings": "Busa-Fekete, Fotakis and Zampetakis, *Private and Non-private Uniformity Testing for Ranking Data* (2021)",
    "truth": "Wang and Xu, *Inferring Ground Truth From Crowdsourced Data Under Local Attribute Differential Privacy* (2020); "
    "it has theorems and no figures, so these are the experiments that it should have had",
}
HEAD = """# Reproduction: the papers beside us

Every figure and table of the five papers, made anew: the paper's value, ours, and agreement or the erratum that explains the
difference. One command each, given below; `peerveil reproduce all` for all of them, which writes this as a page of its own too.
The papers' figures are not copied: their values are given as numbers where they print any, and most of their curves come
without.

Written by `scripts/reproduction.py` from a run. {state}

**agrees**: as printed, or in the direction that is printed. **erratum**: differs, and [the errata](errata.md) say why.
**differs**: differs without an erratum; the note says what stands in the way (mostly data that cannot be had). **nothing
printed**: ours alone.

"""


def cell(text: str) -> str:
    """Text in a table of Markdown."""
    return re.sub(r"([|*_<>\[\]\\`])", r"\\\1", " ".join(str(text).split()))


def load(places: list[Path]) -> list[dict[str, Any]]:
    """The results in the order of the experiments, each from the first folder that has it, with its figure's text."""
    found = []
    for name in experiments():
        for place in places:
            file = place / f"{name}.json"
            if file.is_file():
                figure = file.with_suffix(".svg")
                data = json.loads(file.read_text(encoding="utf-8"))
                data["svg"] = figure.read_text(encoding="utf-8") if figure.is_file() else None
                found.append(data)
                break
        else:
            found.append({"name": name, "title": "not made in this run", "note": "", "rows": [], "svg": None})
    return found


def counts(data: dict[str, Any]) -> dict[Verdict, int]:
    """How many rows have each verdict."""
    found = [Verdict(row["verdict"]) for row in data["rows"]]
    return {verdict: found.count(verdict) for verdict in Verdict}


def section(data: dict[str, Any]) -> str:
    """One figure or table."""
    name = data["name"]
    flat = name.replace("/", "-")
    few = " (here with `--quick`: few trials)" if data.get("quick") else ""
    lines = [f"### {name}: {data['title']}", "", f"`peerveil reproduce {name}`{few}"]
    if data["svg"]:
        write_text(PICTURES / f"{flat}.svg", smaller(data["svg"]))
        lines += ["", f"![{cell(data['title'])}](pictures/reproduce/{flat}.svg)"]
    lines += ["", data["note"].replace("*", r"\*"), "", "| what | paper | ours | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {cell(r['what'])} | {cell(r['paper'])} | {cell(r['ours'])} | {cell(r['explanation'] or r['verdict'])} |"
        for r in data["rows"]
    ]
    return "\n".join(lines) + "\n"


def smaller(svg: str) -> str:
    """Fewer digits in coordinates, which nobody sees; labels stay as they are."""

    def shorter(found: re.Match[str]) -> str:
        return re.sub(r"(\d+\.\d{2})\d+", r"\1", found[0])

    return re.sub(r' (?:d|points|transform|x|y)="[^"]*"', shorter, svg)


def main() -> None:
    """Write the page and its pictures."""
    found = load([Path(place) for place in sys.argv[1:] or ["out/reproduce"]])
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    quick = [data["name"] for data in found if data.get("quick")]
    made = [data for data in found if data["rows"]]
    state = f"{len(made) - len(quick)} of {len(found)} are from a full run"
    state += f"; {len(quick)} from a quick one, with few trials, and say so" if quick else ""
    state += f"; {len(found) - len(made)} were not made." if len(made) < len(found) else "."
    total = {verdict: sum(counts(data)[verdict] for data in found) for verdict in Verdict}
    out = [HEAD.format(state=state)]
    out.append(
        "| figure or table | shows | "
        + " | ".join(Verdict)
        + " | seconds |\n|---|---|"
        + "---|" * (len(Verdict) + 1)
        + "\n"
    )
    for data in found:
        numbers = " | ".join(str(value) for value in counts(data).values())
        out.append(f"| {data['name']} | {cell(data['title'])} | {numbers} | {data.get('seconds', '-')} |\n")
    out.append("| **all** | | " + " | ".join(f"**{value}**" for value in total.values()) + " | |\n")
    for module, paper in PAPERS.items():
        out.append(f"\n## {module.capitalize()}\n\n{paper}.\n")
        out += ["\n" + section(data) for data in made if data["name"].startswith(f"{module}/")]
    write_text(PAGE, "".join(out))
    lines = (
        f"  {json.dumps(data['name'])}: {json.dumps([data['title'], data.get('seconds')], ensure_ascii=False)}"
        for data in found
    )
    write_text(INDEX, "{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
