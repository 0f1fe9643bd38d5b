"""A JSON schema of study files, for editors: ``peerveil schema > study.schema.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.study.actions import all_actions
from peerveil.study.execute import DataFile
from peerveil.study.spec import AccountBudget, StudyHead

if TYPE_CHECKING:
    from peerveil.study.actions import Action, Declared

_TEXT = {"type": "string", "minLength": 1}


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
            "data": {"type": "object", "additionalProperties": table_schema(DataFile)},
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
    choices = list(dict.fromkeys(choice for schema in schemas for choice in schema.get("enum", ())))
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
    properties = {
        parameter.name: {
            **{
                key: value
                for key, value in made["properties"][parameter.name].items()
                if key not in ("title", "default")
            },
            "description": f"{parameter.setting.help} {parameter.want_sentence}",
            **({} if parameter.default is None else {"default": parameter.plain(parameter.default)}),
        }
        for parameter in kind.parameters()
    }
    required = [parameter.name for parameter in kind.parameters() if parameter.required]
    definitions = {"$defs": made["$defs"]} if "$defs" in made else {}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **definitions,
    }
