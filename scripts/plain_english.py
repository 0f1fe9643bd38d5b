"""List words and phrases that the project does not use, by file and line; exit code 1 if there are any. `make test` runs it.

Readers are program chairs, engineers and researchers, many of them not native speakers: US spelling, the field's own words,
one word for one thing. A place that is right as it stands goes into EXCEPTIONS, with the reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "GOVERNANCE.md",
    "CODE_OF_CONDUCT.md",
    "CHANGELOG.md",
    "docs",
    "examples",
    "src",
)
ENDINGS = {".py", ".md", ".html", ".js", ".toml", ".txt", ".css", ".yaml", ".yml"}
_UNITS = "row|line|folder|file|figure|number|page|count|answer|question|point|draw|post|step|bin|score|vote|report"
RULES = {  # what to look for, and what to write instead
    rf"\b(?:one|a|an|two|three|\d+) (?:{_UNITS})s? an? (?!few|lot|bit|time|day|week|month|year|second|minute)\w+\b": "per",
    r"\b(?:random|normal|anonym|organ|recogn|optim|minim|maxim|summar|initial|serial|general|penal)is[ei]\w*\b": "-ize",
    r"\b(?:neighbour|colour|behaviour|favour|honour|labour)\w*|\bcentre\w*|\bjudgement\w*|\blicence\b": "US spelling",
    r"\bmodell(?:ed|ing)\b|\blabell(?:ed|ing|er)\b|\bcatalogue\b": "US spelling",
    r"\b(?:told|tell(?:s|ing)?) (?:\w+ ){0,3}apart\b": "distinguish",
    r"\bmade[- ]up\b|\binvent(?:ed|s)\b": "synthetic",
    r"\btimes in (?:100|a hundred|1,?000)\b": "percent",
    r"\breckon\w*|\bspeaks? for\b|\bsomewhat other\b|\blets? expect\b|\bfound out\b|\bis of no use\b": "say it plainly",
    r"\b(?:the|this|our|a|each|every|all|five) (?:house|floors?|lanes?)\b|\brooms?\b": "project, module, layer, source",
    r"\bplanted faults?\b|\blied?\b|\blies\b": "deliberately broken mechanism; false claim",
    r"^\s*(?:found|one|kept|said|looked_at|seen|asked|given|told)\s*(?::[^=]+)?=(?!=)": "a noun for the value",
}
EXCEPTIONS: dict[str, str] = {  # "file: text of the hit": reason
    "CHANGELOG.md: judgements": "the old name of a package",
    "CHANGELOG.md: room": "the old key of a study file",
}


def hits(path: Path) -> list[tuple[int, str, str]]:
    """Line number, text and replacement of every hit of a file."""
    name = path.relative_to(ROOT)
    return [
        (number, match[0].strip(), better)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1)
        for pattern, better in RULES.items()
        for match in re.finditer(pattern, line, 0 if pattern.startswith("^") else re.IGNORECASE)
        if f"{name}: {match[0].strip()}" not in EXCEPTIONS
    ]


def main() -> int:
    """Print every place; 1 if there are any."""
    listed = subprocess.run(
        ["git", "ls-files", *READ], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    places = [(name, *hit) for name in listed if Path(name).suffix in ENDINGS for hit in hits(ROOT / name)]
    for name, number, text, better in places:
        print(f"{name}:{number}: {text!r} -> {better}")
    print(f"plain English: {len(places)} places")
    return bool(places)


if __name__ == "__main__":
    sys.exit(main())
