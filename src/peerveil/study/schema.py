"""A JSON schema of study files, for editors: ``peerveil schema > study.schema.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.study.actions import KINDS, all_actions

if TYPE_CHECKING:
    from peerveil.study.actions import Action

_TEXT = {"type": "string", "minLength": 1}


def study_schema() -> dict[str, Any]:
    """The schema of a whole study file."""
    from peerveil.study.spelling import EPSILON_SCHEMA

    kinds = all_actions()
    step = {
        "type": "object",
        "required": ["action"],
        "properties": {"action": {"enum": list(kinds), "description": "What to do."}},
        "allOf": [
            {"if": {"properties": {"action": {"const": name}}, "required": ["action"]}, "then": step_schema(kind)}
            for name, kind in kinds.items()
        ],
    }
    data = {
        "path": {**_TEXT, "description": "The file, beside the study unless the path is absolute."},
        "kind": {"enum": list(KINDS), "description": "What it holds; recognized if left out."},
        "format": {**_TEXT, "description": "The file's format; recognized if left out."},
        "columns": {
            "type": "object",
            "additionalProperties": _TEXT,
            "description": "Our columns and their names in the file.",
        },
        "time_zone": {**_TEXT, "description": "The zone of times that name none; UTC if left out."},
        "layout": {"enum": ["orders", "places"], "description": "What the cells of a wide table of rankings hold."},
    }
    head = {
        "title": {**_TEXT, "maxLength": 200, "description": "What the report is called."},
        "ledger": {**_TEXT, "description": "Where spending is kept: a file, or the address of a PostgreSQL database."},
        "seed": {"type": "integer", "minimum": 0, "description": "Simulate: nothing is spent, everything is marked."},
    }
    account = {"epsilon": {**EPSILON_SCHEMA, "description": "The account's whole budget."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A peerveil study",
        "type": "object",
        "required": ["study", "steps"],
        "additionalProperties": False,
        "properties": {
            "study": _object(head, required=["title"]),
            "accounts": {"type": "object", "additionalProperties": _object(account, required=["epsilon"])},
            "data": {"type": "object", "additionalProperties": _object(data, required=["path"])},
            "steps": {"type": "array", "minItems": 1, "items": step},
        },
    }


def step_schema(kind: type[Action[Any]]) -> dict[str, Any]:
    """The schema of one step that does this action."""
    made = kind.adapter().json_schema()
    properties = {
        parameter.name: {
            **{
                key: value
                for key, value in made["properties"][parameter.name].items()
                if key not in ("title", "default")
            },
            "description": f"{parameter.setting.help} {parameter.want[0].upper()}{parameter.want[1:]}.",
            **({} if parameter.default is None else {"default": parameter.plain(parameter.default)}),
        }
        for parameter in kind.parameters()
    }
    own: dict[str, Any] = {"action": {"const": kind.name}, "name": {**_TEXT, "maxLength": 60}}
    if kind.kinds:
        own["data"] = {**_TEXT, "description": f"The name of {' or '.join(kind.kinds)} under [data]."}
    if kind.spends:
        own["account"] = {**_TEXT, "description": "The account to debit, a name under [accounts]."}
    schema = _object(
        own | properties, required=[parameter.name for parameter in kind.parameters() if parameter.required]
    )
    schema["required"] += ["data"] if kind.kinds else []
    return {"description": kind.about, **schema, **({"$defs": made["$defs"]} if "$defs" in made else {})}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
