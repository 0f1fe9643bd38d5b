"""The reference page of all actions, as Markdown, from their declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.study.actions import MODULES, actions_of, all_actions

if TYPE_CHECKING:
    from peerveil.study.actions import Action, Parameter

_HEAD = """# Actions

Everything that you can do with peerveil, with all settings. An action has the same settings wherever you use it: as a command
(`peerveil release publish`), as a step of a [study](study.md) (`action = "release.publish"`) and as a form of the
[console](console.md). This page is generated from the same declarations.

Commands also take the [common options](cli.md): `--column`, `--format`, `--time-zone` (reviews, events) and `--layout` (rankings)
if they read data; `--ledger`, `--account` and `--seed` if they use an account; `--out`, `--force`, `--json` and `--debug` always.
In a study, these are set under `[data]`, `[accounts]` and `[study]`.
"""


def reference_page() -> str:
    """The whole page: a list of all actions, then each with its settings."""
    lines = [_HEAD, "| Action | What it does |", "|---|---|"]
    lines += [f"| [{name}](#{name.replace('.', '')}) | {kind.about} |" for name, kind in all_actions().items()]
    for module in MODULES:
        lines += ["", f"## {module.capitalize()}", "", *map(action_reference, actions_of(module).values())]
    return "\n".join(lines)


def action_reference(kind: type[Action[Any]]) -> str:
    """One action: what it does, publishes and needs, and a table of its settings."""
    facts = [f"Reads: {', '.join(kind.kinds)}." if kind.kinds else "Reads no data.", *kind.facts()]
    if kind.spends:
        facts.append("Recorded in an account, not debited." if kind.recorded else "Debits an account.")
    facts += ["Drawn once: `--force` does not replace its results."] if kind.drawn_once else []
    lines = [f"### {kind.name}", "", kind.about, *(["", kind.details] if kind.details else []), "", " ".join(facts), ""]
    if kind.parameters():
        lines += [
            "| Key, option | Meaning | Values | Default |",
            "|---|---|---|---|",
            *map(_row, kind.parameters()),
            "",
        ]
    if kind.examples:
        lines += ["```text", *(f"$ {line}" for line in kind.command_lines()), "```", ""]
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"`{parameter.text(parameter.default)}`"
    if not parameter.required and parameter.default in (None, ()):
        default = "none"
    off = f" `--no-{parameter.flag[2:]}`" if parameter.is_flag and parameter.default else ""
    name = f"`{parameter.name}` `{parameter.flag}`{off}"
    cells = (name, parameter.setting.help, parameter.want, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
