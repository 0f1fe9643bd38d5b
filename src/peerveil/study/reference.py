"""The reference page of all actions, as Markdown, from their declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.study.actions import all_actions

if TYPE_CHECKING:
    from peerveil.study.actions import Action, Parameter

_HEAD = """# Actions

Everything that you can do with peerveil, with all settings. An action has the same settings wherever you use it: as a command
(`peerveil release publish`), as a step of a study (`action = "release.publish"`) and as a form of the console. This page is
generated from the same declarations.

Commands that read data also take `--column`, `--format`, `--time-zone` (reviews and events) and `--layout` (rankings); those that spend
take `--ledger`, `--account` and `--seed`; all take `--out`, `--force`, `--json` and `--debug`. In a study, these are set under
`[data]`, `[accounts]` and `[study]`.
"""


def reference_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(action_reference(kind) for kind in all_actions().values())])


def action_reference(kind: type[Action[Any]]) -> str:
    """One action: what it does, publishes and needs, and a table of its settings."""
    facts = [f"Reads {' or '.join(kind.kinds)}." if kind.kinds else "Reads no data."]
    facts.append(f"May be published: {kind.publishes}." if kind.publishes else "Nothing of it may be published.")
    facts += [f"For the operator only: {kind.operator}."] if kind.operator else []
    if kind.spends:
        facts.append("Recorded in an account, not debited." if kind.recorded else "Debits an account.")
    lines = [f"## {kind.name}", "", kind.about, *(["", kind.details] if kind.details else []), "", " ".join(facts), ""]
    if kind.parameters():
        lines += ["| Study key | Option | Values | Default | Meaning |", "|---|---|---|---|---|"]
        lines += [_row(parameter) for parameter in kind.parameters()]
        lines.append("")
    if kind.examples:
        shown = [f"$ peerveil {kind.module()} {kind.verb()} {arguments}" for arguments in kind.examples]
        lines += ["```text", *shown, "```", ""]
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"`{parameter.text(parameter.default)}`"
    if not parameter.required and parameter.default in (None, ()):
        default = "none"
    cells = (f"`{parameter.name}`", f"`{parameter.flag}`", parameter.want, default, parameter.setting.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
