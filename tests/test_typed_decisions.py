"""Decisions read typed fields: no code takes apart or searches text that the project itself wrote.

The walk knows four ways of reading text. What reads the text of others (files, addresses, requests, other programs) is
listed with its reason; a reason that nothing needs any more is an error.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jinja2 import Environment, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

# ways to cut or search a text
METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"),
    *("replace", "index", "rindex", "find", "rfind"),
}
# names of fields and variables that hold sentences or pages of our own
OURS = {
    *("about", "advice", "caption", "explanation", "headline", "html", "message", "output", "promise", "purpose"),
    *("report", "sentence", "short", "summary", "svg", "verdict", "words"),
}
WORDS = re.compile(r"[A-Za-z<$]")  # a separator such as ":" or a line break is no word
ALLOWED = {
    "core/files.py::check_out": "the suffix of a path that a user wrote",
    "study/actions.py::Parameter.flag": "the plural of a parameter's name",
    "study/execute.py::StudyFile.several": "a path that a user wrote",
    "truth/tables.py::open_answer_table": "a path that a user wrote",
    "truth/card.py::data_card": "the name of a file",
    "truth/publish.py::PublishedLabels.contents": "the name of a file",
    "study/spelling.py": "values that a user wrote",
    "calibration/functions.py::read_miscalibration": "the name of a file",
    "cli/base.py::_explained": "the name of a Python module",
    "web/collect/campaign.py::_ID": "a name that an operator chose",
    "web/collect/campaign.py::_ORIGIN": "an address",
    "web/console/files.py::safe_name": "the name of an uploaded file",
    "web/console/app.py::ConsoleSettings.make": "an address",
    "storage/": "addresses, and error codes of databases",
    "data/engines.py": "names of files, settings of Spark",
    "core/optional.py": "metadata of Python packages",
    "web/gateway/adapters.py": "an invitation that an operator wrote, and what platforms store",
    "web/gateway/space.py": "names, durations and addresses that an operator wrote",
    "data/schema.py::plain_name": "names of columns in files of other programs",
    "data/readers/": "files of other programs",
    "report/figures.py::_UNPRINTABLE": "characters, not words",
    "report/figures.py::svg": "what Matplotlib wrote",
    "web/common/app.py": "the path of a request",
    "web/common/journal.py": "names of errors and paths of Python files",
    "web/common/database.py": "error codes of databases",
    "web/common/tokens.py": "a header of a request",
    "web/common/vault.py": "a key that an operator wrote",
    "study/new.py::_tables": "the name of a file",
    "study/spec.py::_NAME": "a name that a user chose",
    "core/files.py::regular_file": "the name of a file",
    "core/text.py": "classes of Unicode characters",
    "timing/engine.py::micros": "the name of a type in DuckDB",
    "timing/durations.py::parse_duration": "a duration that a user wrote",
    "truth/tables.py::_rows": "the name of a file",
    "study/truth_shares.py::_margin": "known shares that a user wrote",
    "truth/client.py::_INVISIBLE": "characters, not words",
}
"""What reads the text of others, and what it reads; a file or folder stands for everything in it."""


def literal(node: ast.expr, constants: dict[str, ast.expr]) -> bool:
    """Whether an argument is a text with words in it, written in the source."""
    match node:
        case ast.Constant(value=str(text)):
            return bool(WORDS.search(text))
        case ast.JoinedStr(values=values):
            return any(literal(value, constants) for value in values if isinstance(value, ast.Constant))
        case ast.Tuple(elts=items):
            return any(literal(item, constants) for item in items)
        case ast.Name(id=name) if name in constants:
            return literal(constants.pop(name), constants)
    return False


def ours(node: ast.expr) -> bool:
    """Whether a value is text that we made: it has the name of such a field, or is made right there."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in OURS
        case ast.JoinedStr() | ast.Call(func=ast.Name(id="str")):
            return True
    return False


def reads_text(node: ast.AST, constants: dict[str, ast.expr]) -> bool:
    """Whether this very expression cuts or searches a text."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            if any(isinstance(op, ast.In | ast.NotIn) and ours(other) for op, other in zip(ops, others, strict=True)):
                return True
            sides = [left, *others]
            cut = any(isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice) for side in sides)
            return cut and any(literal(side, dict(constants)) for side in sides)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name)):
            return name != "escape"
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in METHODS:
            return literal(first, dict(constants))
    return False


def found_in(source: str) -> Iterator[tuple[str, int]]:
    """Where a module reads text: the function or constant, and the line."""
    tree = ast.parse(source)
    constants = {
        target.id: statement.value
        for statement in tree.body
        for target in (statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)])
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and statement.value
    }

    def walk(node: ast.AST, place: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            name = place
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{place}.{child.name}" if place else child.name
            elif not place and isinstance(child, ast.Assign | ast.AnnAssign):
                target = child.targets[0] if isinstance(child, ast.Assign) else child.target
                name = target.id if isinstance(target, ast.Name) else ""
            if reads_text(child, constants):
                yield name, child.lineno  # type: ignore[attr-defined]
            yield from walk(child, name)

    yield from walk(tree, "")


def places() -> Iterator[tuple[str, int]]:
    package = ROOT / "src" / "peerveil"
    for path in sorted(package.rglob("*.py")):
        for place, line in found_in(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(package).as_posix()}::{place}", line


def test_no_code_reads_text_that_we_wrote() -> None:
    unexplained = [f"{place}, line {line}" for place, line in places() if not place.startswith(tuple(ALLOWED))]
    assert not unexplained, "give the decision a typed field, or say in ALLOWED whose text this is"


def test_every_reason_is_still_needed() -> None:
    used = [place for place, _ in places()]
    assert not [entry for entry in ALLOWED if not any(place.startswith(entry) for place in used)]


@pytest.mark.parametrize(
    "old",
    [
        'any(step_kind(step["room"]).publishes[:7] != "nothing" for step in steps)',
        "[entry for entry in entries if self._tag in entry.purpose]",
        "run is None or run not in entry.purpose",
        'whole_sentence(g).split(" (to be distinguished: ", 1)[0]',
        'whole_sentence(g).rsplit(" (neighbors: ", 1)[0] + "."',
        'text[text.index("<main>") + 6 : text.index("</main>")]',
        'self.verdict.startswith(("agrees", "same direction"))',
        '"erratum" if "erratum" in self.verdict else "differs"',
        "self.paper.startswith(_NOTHING)",
        're.sub(r"pass \\w+\\.of\\(data, columns=.*", "choose the columns below", str(problem))',
        'report.read_text().replace("public/report.html", "result/public/report.html")',
        """picture.replace("<svg ", '<svg style="color: #1b1f24" ', 1)""",
        'drawing.startswith("<svg ")',
        'line.removeprefix("$ ") if line.startswith("$ ") else line',
        'Finding(name, "NOT" not in verdict, verdict)',
        '"too long" in str(error)',
        'promise.unit.removesuffix(" of one person")',
        'name.endswith(" (auto)")',
    ],
)
def test_what_was_there_before_would_be_found(old: str) -> None:
    source = f'_NOTHING = ("no experiment", "another log")\n\ndef decide():\n    return {old}\n'
    assert {place for place, _ in found_in(source)} == {"decide"}


@pytest.mark.parametrize(
    "good",
    [
        "step.publishes",
        "entry.key in keys",
        'verdict is Verdict.AGREES or method == "two-sample"',
        '"\\n".join(text.split("\\n"))',
        'host.partition(":")[2]',
        '"reviewer" in frame.columns',
    ],
)
def test_what_decides_by_value_is_left_alone(good: str) -> None:
    assert not list(found_in(f"def decide():\n    return {good}\n"))


def template_faults(source: str) -> list[str]:
    """What a template must not do: search in a text, or declare one safe (pages and figures say so themselves)."""
    tree = Environment().parse(source)
    faults = [f"filter {one.name}" for one in tree.find_all(nodes.Filter) if one.name in {"safe", "svg", "replace"}]
    for one in tree.find_all(nodes.Compare):
        searched = [op for op in one.ops if op.op in {"in", "notin"} and not isinstance(op.expr, nodes.Tuple)]
        if searched and isinstance(one.expr, nodes.Const) and isinstance(one.expr.value, str):
            faults.append(f"a search for {one.expr.value!r}")
    return faults


def test_templates_neither_search_text_nor_declare_it_safe() -> None:
    paths = sorted((ROOT / "src" / "peerveil").rglob("templates/*.html"))
    assert len(paths) > 20
    faults = {path.name: template_faults(path.read_text(encoding="utf-8")) for path in paths}
    assert not {name: found for name, found in faults.items() if found}


@pytest.mark.parametrize(
    "old", ["{{ report | svg }}", "{{ parts | safe }}", '{% if "optional" in about %}x{% endif %}']
)
def test_what_templates_did_before_would_be_found(old: str) -> None:
    assert template_faults(old)
