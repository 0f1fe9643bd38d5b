"""The report: one page for whoever ran the study, and the same without its private parts for everybody else."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from peerveil.core.files import write_text
from peerveil.report import Page
from peerveil.report.words import WORDS
from peerveil.study.outcome import public_name

if TYPE_CHECKING:
    from pathlib import Path

    from peerveil.study.check import Checked
    from peerveil.study.cost import Cost
    from peerveil.study.folder import Folder
    from peerveil.study.outcome import Outcome

_KEPT: Final = {False: "whole", True: "public"}


def write_reports(folder: Folder, checked: Checked, outcomes: dict[str, Outcome], costs: list[Cost]) -> None:
    """``report.html`` for its owner alone, and ``public/report.html``, which holds only what may be published.

    The parts of both are kept beside them, for pages that have a head of their own: see :func:`saved_page`.
    """
    pages = {public: make_page(checked, outcomes, costs, public=public) for public in (False, True)}
    text = json.dumps({_KEPT[public]: page.to_dict() for public, page in pages.items()}, allow_nan=False)
    write_text(folder.private / "report.json", text + "\n", private=True)
    pages[False].write(folder.path / "report.html", private=True)
    pages[True].write(folder.public / public_name("report.html", folder.simulated))


def saved_page(folder: Path, *, public: bool) -> Page:
    """The report that a finished run wrote into its folder."""
    data = json.loads((folder / "private" / "report.json").read_text(encoding="utf-8"))
    return Page.from_dict(data[_KEPT[public]])


def make_page(
    checked: Checked,
    outcomes: dict[str, Outcome],
    costs: list[Cost],
    *,
    public: bool,
    public_report: str = "public/report.html",
) -> Page:
    """The report; ``public_report`` is where its readers find the public one."""
    title = f"SIMULATION: {checked.study.title}" if checked.simulated else checked.study.title
    page = Page(title, lead=_lead(checked, public, public_report))
    if checked.simulated:
        page.warning("A simulation: must not be published", [
            "The noise comes from a seed that stands in the study file. It protects nobody. Nothing was spent."
        ])  # fmt: skip
    everything = {planned.step.name: outcomes[planned.step.name] for planned in checked.planned}
    shown = {name: outcome for name, outcome in everything.items() if not public or _has_public(outcome)}
    asked = _titles(shown)
    page.heading("The answers")
    page.answers([(asked[name], _answer(outcome, public)) for name, outcome in shown.items()])
    hidden = len(everything) - len(shown)
    if hidden:
        steps = "One step is not shown here: it is" if hidden == 1 else f"{hidden} steps are not shown here: they are"
        page.paragraph(f"{steps} not for publication.")
    page.see_words()
    page.heading("Who is protected, and who may see it")
    page.table(["asked", "how well is what protected", "who may see it"], [
        [asked[name], _protects(outcome), _who(outcome, public=public, simulated=checked.simulated)]
        for name, outcome in shown.items()
    ])  # fmt: skip
    for name, outcome in shown.items():
        _section(page, asked[name], outcome, public=public, simulated=checked.simulated)
    _cost(page, checked, costs)
    page.glossary(WORDS)
    page.footer(_footer(checked, public))
    return page


def _lead(checked: Checked, public: bool, public_report: str) -> str:
    if checked.simulated:
        return "Made by peerveil, to try a study out."
    if public:
        return (
            "Made by peerveil. This page may be published, and is the one to show to a steering committee: it says "
            "nothing about any person beyond what is promised below."
        )
    return (
        "Made by peerveil. This page is for whoever ran the study: parts marked “must not be published” state facts about "
        "people. The page for a steering committee, and for everybody else, is "
        f"{public_report}."
    )


def _footer(checked: Checked, public: bool) -> str:
    made = f"Made by `peerveil run {checked.study.path.name}`. Tables and pictures of every step lie in folders of their names"
    if checked.simulated:
        return f"{made} under simulated/. Nothing of a simulation may be published."
    return made + (" beside this page." if public else ": public/ may be published, private/ must not.")


def _has_public(outcome: Outcome) -> bool:
    shown = [picture.public for picture in outcome.pictures]
    shown += [table.public for table in outcome.tables] + [file.public for file in outcome.files]
    return bool(outcome.found) or any(shown)


def _answer(outcome: Outcome, public: bool) -> str:
    if outcome.answer:
        return outcome.answer
    return "See below." if public else f"{outcome.private_answer} (Not for publication.)"


def _titles(outcomes: dict[str, Outcome]) -> dict[str, str]:
    """What each step asked; with its name, where several steps asked the same."""
    often = Counter(outcome.asked for outcome in outcomes.values())
    return {
        name: outcome.asked if often[outcome.asked] == 1 else f"{name}: {outcome.asked}"
        for name, outcome in outcomes.items()
    }


def _protects(outcome: Outcome) -> str:
    if outcome.protects:
        return "\n".join(f"{what}: {how}" for what, how in outcome.protects)
    return "nothing to protect is published" if outcome.found else "nothing is published"


def _who(outcome: Outcome, *, public: bool, simulated: bool) -> str:
    if simulated:
        return "nobody else: a simulation"
    if public:
        return "everybody"
    if not _has_public(outcome):
        return "whoever ran the study, nobody else"
    private = outcome.private_found or not all(
        [picture.public for picture in outcome.pictures] + [file.public for file in outcome.files]
    )
    return "everybody, but for the parts marked “must not be published”" if private else "everybody"


def _section(page: Page, title: str, outcome: Outcome, *, public: bool, simulated: bool) -> None:
    page.heading(title)
    for text in outcome.found:
        page.paragraph(text)
    short = outcome.promise_short or outcome.promise
    page.guarantee(short, outcome.promise if outcome.promise != short else "")
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
    if files and not simulated:
        page.paragraph(f"May be published: {', '.join(files)}.")


def _cost(page: Page, checked: Checked, costs: list[Cost]) -> None:
    page.heading("What it cost")
    if not costs:
        page.paragraph("Nothing was spent.")
    else:
        page.table(["account", "whole budget", "spent before", "spent by this study", "remaining"],
                   [one.row() for one in costs])  # fmt: skip
        for one in costs:
            page.paragraph(one.about_before())
    last = "would publish" if checked.simulated else "publishes"
    page.table(["step", "what it does", "spends", last], checked.rows())
