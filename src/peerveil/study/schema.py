"""All declarations at once: the JSON schema of study files (``peerveil schema > study.schema.json``), and the reference page."""

from __future__ import annotations

from typing import Any

from peerveil.study.actions import MODULES, Action, Declared, Parameter, actions_of, all_actions
from peerveil.study.execute import StudyFile
from peerveil.study.spec import AccountBudget, StudyHead

_TEXT = {"type": "string", "minLength": 1}
_REFERENCE_HEAD = """# Actions

Everything that you can do with peerveil, with all settings. An action has the same settings wherever you use it: as a command
(`peerveil release publish`), as a step of a [study](study.md) (`action = "release.publish"`) and as a form of the
[console](console.md). This page is generated from the same declarations.

Commands also take the [common options](cli.md): `--column`, `--format`, `--time-zone` (reviews, events) and `--layout` (rankings)
if they read data; `--ledger`, `--account` and `--seed` if they use an account; `--out`, `--force`, `--json` and `--debug` always.
In a study, these are set under `[data]`, `[accounts]` and `[study]`.
"""


def study_schema() -> dict[str, Any]:
    """The schema of a whole study file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A peerveil study",
        "type": "object",
        "required": ["study", "steps"],
        "additionalProperties": False,
        "properties": {
            "study": table_schema(StudyHead),
            "accounts": {"type": "object", "additionalProperties": table_schema(AccountBudget)},
            "data": {"type": "object", "additionalProperties": table_schema(StudyFile)},
            "steps": {"type": "array", "minItems": 1, "items": _any_step()},
        },
    }


def _any_step() -> dict[str, Any]:
    """The schema of a step: its action decides which keys it has.

    Taplo, which most editors use for TOML, completes only keys that are listed beside the action, and none if there is an
    ``allOf``. So all keys are listed here, and the conditions, which alone refuse something, are one level deeper.
    """
    steps = {name: step_schema(kind) for name, kind in all_actions().items()}
    keys: dict[str, Any] = {}
    for step in steps.values():
        for name, schema in step["properties"].items():
            keys.setdefault(name, []).append(schema)
    listed = {name: _listed(schemas) for name, schemas in keys.items()}
    listed["action"] = {"enum": list(steps), "description": "What to do."}
    conditions = [
        {"if": {"properties": {"action": {"const": name}}, "required": ["action"]}, "then": step}
        for name, step in steps.items()
    ]
    return {
        "type": "object",
        "required": ["action"],
        "properties": listed,
        "if": {"required": ["action"]},
        "then": {"allOf": conditions},
    }


def _listed(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """What an editor offers for a key that several actions may have: its help and its choices."""
    enums = [part.get("enum", ()) for schema in schemas for part in (schema, *schema.get("anyOf", ()))]
    choices = list(dict.fromkeys(choice for enum in enums for choice in enum))
    key: dict[str, Any] = {"description": "\n\n".join(dict.fromkeys(schema["description"] for schema in schemas))}
    if all("enum" in schema for schema in schemas):
        key["enum"] = choices
    elif choices:
        key["anyOf"] = [{"enum": choices}, {}]
    return key


def step_schema(kind: type[Action[Any]]) -> dict[str, Any]:
    """The schema of one step that does this action."""
    own: dict[str, Any] = {
        "action": {"const": kind.name, "description": kind.about},
        "name": {**_TEXT, "maxLength": 60, "description": "What its files are called; the action's name if left out."},
    }
    if kind.kinds:
        own["data"] = {**_TEXT, "description": f"The name of {' or '.join(kind.kinds)} under [data]."}
    if kind.spends:
        own["account"] = {**_TEXT, "description": "The account to debit, a name under [accounts]."}
    schema = table_schema(kind)
    schema["properties"] = own | schema["properties"]
    schema["required"] += ["data"] if kind.kinds else []
    return {"description": kind.about, **schema}


def table_schema(kind: type[Declared]) -> dict[str, Any]:
    """The schema of a table of settings: each with its help and what it may be."""
    made = kind.adapter().json_schema()
    for parameter in kind.parameters():
        schema = made["properties"][parameter.name]
        del schema["title"]
        schema.pop("default", None)
        schema["description"] = f"{parameter.setting.help} {parameter.want_sentence}"
        if parameter.default is not None:
            schema["default"] = parameter.plain(parameter.default)
    required = [parameter.name for parameter in kind.parameters() if parameter.required]
    return {"type": "object", "properties": made["properties"], "required": required, "additionalProperties": False,
            **({"$defs": made["$defs"]} if "$defs" in made else {})}  # fmt: skip


# ---- the reference page, as Markdown ---------------------------------------------------------------------------------


def reference_page() -> str:
    """The whole page: a list of all actions, then each with its settings."""
    lines = [_REFERENCE_HEAD, "| Action | What it does |", "|---|---|"]
    lines += [f"| [{name}](#{name.replace('.', '')}) | {kind.about} |" for name, kind in all_actions().items()]
    for module in MODULES:
        lines += ["", f"## {module.capitalize()}", "", *map(action_reference, actions_of(module).values())]
    return "\n".join(lines)


def action_reference(kind: type[Action[Any]]) -> str:
    """One action: what it does, publishes and needs, and a table of its settings."""
    facts = [f"Reads: {', '.join(kind.kinds)}." if kind.kinds else "Reads no data.", *kind.facts()]
    facts += ["Recorded in an account, not debited." if kind.recorded else "Debits an account."] if kind.spends else []
    facts += ["Drawn once: `--force` does not replace its results."] if kind.drawn_once else []
    lines = [f"### {kind.name}", "", kind.about, *(["", kind.details] if kind.details else []), "", " ".join(facts), ""]
    if kind.parameters():
        lines += ["| Key, option | Meaning | Values | Default |\n|---|---|---|---|", *map(_row, kind.parameters()), ""]
    if kind.examples:
        lines += ["```text", *(f"$ {line}" for line in kind.command_lines()), "```", ""]
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    stated = "none" if parameter.default in (None, ()) else f"`{parameter.text(parameter.default)}`"
    default = "required" if parameter.required else stated
    off = f" `--no-{parameter.flag[2:]}`" if parameter.is_flag and parameter.default else ""
    cells = (f"`{parameter.name}` `{parameter.flag}`{off}", parameter.setting.help, parameter.want, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
