"""The report: one page for whoever ran the study, and the same without its private parts for everybody else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from peerveil.numerics.exact import printed
from peerveil.report import Page

if TYPE_CHECKING:
    from peerveil.study.check import Checked
    from peerveil.study.folder import Folder
    from peerveil.study.outcome import Outcome


def write_reports(folder: Folder, checked: Checked, outcomes: dict[str, Outcome]) -> None:
    """``report.html``, and ``public/report.html``, which holds only what may be published."""
    _page(checked, outcomes, public=False).write(folder.path / "report.html")
    _page(checked, outcomes, public=True).write(folder.public / "report.html")


def _page(checked: Checked, outcomes: dict[str, Outcome], *, public: bool) -> Page:
    lead = "Made by peerveil. "
    if checked.simulated:
        lead += "A simulation: every figure is marked, nothing here is private, nothing was spent."
    elif public:
        lead += "This page may be published."
    else:
        lead += "For whoever ran the study: parts marked “must not be published” state facts about people. The page to "
        lead += "publish is public/report.html."
    page = Page(checked.study.title, lead=lead)
    shown = [one for one in checked.planned if not public or _has_public(outcomes[one.step.spec.name])]
    page.heading("In short")
    asked = _titles([one.step.spec.name for one in shown], outcomes)
    page.table(
        ["asked", "found", "promise"],
        [
            [
                asked[one.step.spec.name],
                " ".join(_found(outcomes[one.step.spec.name], public)[:1]),
                _short(outcomes[one.step.spec.name]),
            ]
            for one in shown
        ],
    )
    for one in shown:
        _section(page, asked[one.step.spec.name], outcomes[one.step.spec.name], public=public)
    _cost(page, checked)
    page.footer(
        f"Made by `peerveil run {checked.study.path.name}`. Tables and pictures of every step lie in folders of their names"
        + (" beside this page." if public else ": public/ may be published, private/ must not.")
    )
    return page


def _has_public(outcome: Outcome) -> bool:
    shown = [picture.public for picture in outcome.pictures]
    shown += [table.public for table in outcome.tables] + [file.public for file in outcome.files]
    return bool(outcome.found) or any(shown)


def _found(outcome: Outcome, public: bool) -> list[str]:
    return outcome.found or ([] if public else outcome.private_found)


def _titles(names: list[str], outcomes: dict[str, Outcome]) -> dict[str, str]:
    """What each step asked; with its name, where several steps asked the same."""
    often = Counter(outcomes[name].asked for name in names)
    return {
        name: outcomes[name].asked if often[outcomes[name].asked] == 1 else f"{name}: {outcomes[name].asked}"
        for name in names
    }


def _short(outcome: Outcome) -> str:
    if outcome.guarantee is None:
        return "nothing to protect is published" if outcome.found else "not for publication"
    said = outcome.promise.split(":", 1)[0]
    if said.count("(") > said.count(")"):
        said = said[: said.rindex("(")].rstrip()  # the sentence goes on in the section
    return said + (f" [{outcome.mark}]" if outcome.mark else "")


def _section(page: Page, title: str, outcome: Outcome, *, public: bool) -> None:
    page.heading(title)
    for text in outcome.found:
        page.paragraph(text)
    page.promise(outcome.promise)
    for picture in outcome.pictures:
        if picture.public or not public:
            kept = "" if picture.public else " (must not be published)"
            page.figure(picture.svg, picture.caption + kept)
    for table in outcome.tables:
        if table.public or not public:
            page.table(table.columns, table.rows)
    if outcome.attack:
        page.paragraph("What an attacker could still do: " + " ".join(outcome.attack))
    if outcome.private_found and not public:
        page.warning("Must not be published", outcome.private_found)
    files = [file.name for file in outcome.files if file.public]
    if files:
        page.paragraph(f"May be published: {', '.join(files)}.")


def _cost(page: Page, checked: Checked) -> None:
    page.heading("What it cost")
    if not checked.spends:
        page.paragraph("Nothing was spent.")
    else:
        page.table(
            ["account", "whole budget", "spent by this study"],
            [
                [name, f"{printed(checked.study.accounts[name], 'down'):g}", f"{printed(amount, 'up'):g}"]
                for name, amount in checked.spends.items()
            ],
        )
    page.table(["step", "what it does", "spends", "publishes"], checked.rows())
