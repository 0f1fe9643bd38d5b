"""The report: one page for whoever ran the study, and the same without its private parts for everybody else.

It also says what the run took from each account, beside what others had taken before (:class:`Cost`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from peerveil.core.exact import printed
from peerveil.core.files import write_text
from peerveil.report import Page
from peerveil.report.page import WORDS
from peerveil.study.outcome import Outcome, public_name

if TYPE_CHECKING:
    from peerveil.ledger import Account
    from peerveil.study.check import Checked
    from peerveil.study.folder import Folder

_SAVED: Final = {False: "whole", True: "public"}
_OPERATOR_LEAD: Final = (
    "Made by peerveil for whoever ran the study: parts marked “must not be published” state facts about people."
)
_PUBLIC_LEAD: Final = (
    "Made by peerveil. This page may be published: it reveals nothing about any person beyond the guarantees below."
)


def write_reports(folder: Folder, checked: Checked, outcomes: dict[str, Outcome], costs: list[Cost]) -> None:
    """``report.html`` for its owner alone, and ``public/report.html``, which holds only what may be published.

    The parts of both are saved beside them, for pages that have a head of their own: see :func:`saved_page`.
    """
    pages = {public: make_page(checked, outcomes, costs, public=public) for public in (False, True)}
    text = json.dumps({_SAVED[public]: page.to_dict() for public, page in pages.items()}, allow_nan=False)
    write_text(folder.private / "report.json", text + "\n", private=True)
    pages[False].write(folder.path / "report.html", private=True)
    pages[True].write(folder.public / public_name("report.html", folder.simulated))


def saved_page(folder: Path, *, public: bool) -> Page:
    """The report that a finished run wrote into its folder, without links to the files beside it."""
    data = json.loads((folder / "private" / "report.json").read_text(encoding="utf-8"))
    page = Page.from_dict(data[_SAVED[public]])
    page.parts = [part for part in page.parts if part.kind != "link"]
    return page


def make_page(
    checked: Checked,
    outcomes: dict[str, Outcome],
    costs: list[Cost],
    *,
    public: bool,
    public_page: str = "public/report.html",
) -> Page:
    """The report: findings first, one screen per step, with everything else folded away.

    ``public_page`` is where its readers find the public one.
    """
    if checked.simulated:
        page = Page(f"SIMULATION: {checked.study.title}", lead="Made by peerveil, to try a study out.")
        seeded = "The noise comes from a seed in the study file, so it protects nobody. Nothing was spent."
        page.warning("A simulation: must not be published", [seeded])
    else:
        page = Page(checked.study.title, lead=_PUBLIC_LEAD if public else _OPERATOR_LEAD)
        if not public:
            page.link("The report for a steering committee and everybody else", public_page)
    shown = {name: outcomes[name] for name in checked.names if not public or not outcomes[name].public.is_empty}
    for outcome, question in zip(shown.values(), _questions(shown), strict=True):
        _add_step(page, question, outcome, public=public, simulated=checked.simulated)
    if hidden := len(checked.names) - len(shown):
        steps = "One step is not shown here: it is" if hidden == 1 else f"{hidden} steps are not shown here: they are"
        page.paragraph(f"{steps} not for publication.")
    _add_cost(page, checked, costs)
    page.glossary(WORDS)
    page.footer(_footer(checked, public))
    return page


def _footer(checked: Checked, public: bool) -> str:
    made = f"Made by `peerveil run {checked.study.path.name}`. Each step has a folder of its name with its tables and figures"
    place = " beside this page." if public else ": public/ may be published, private/ must not."
    return made + (" under simulated/. Nothing of a simulation may be published." if checked.simulated else place)


def _answer(outcome: Outcome, public: bool) -> str:
    return outcome.public.answer or ("See below." if public else f"{outcome.private.answer} (Not for publication.)")


def _questions(outcomes: dict[str, Outcome]) -> list[str]:
    """The question of each step; with its name, where several steps have the same."""
    counts = Counter(outcome.question for outcome in outcomes.values())
    return [
        outcome.question if counts[outcome.question] == 1 else f"{name}: {outcome.question}"
        for name, outcome in outcomes.items()
    ]


def _add_step(page: Page, question: str, outcome: Outcome, *, public: bool, simulated: bool) -> None:
    """The answer, the first chart and what is protected; the rest is folded away."""
    parts = {"": outcome.public} | ({} if public else {" (must not be published)": outcome.private})
    charts = [(figure.svg, figure.caption + note) for note, part in parts.items() for figure in part.figures]
    nothing = [["what is published", "nothing that needs protection" if outcome.public.findings else "nothing"]]
    page.finding(question, _answer(outcome, public), charts[:1], outcome.protections or nothing)
    with page.folded("Details, guarantee and tables"):
        for text in outcome.public.findings:
            page.paragraph(str(text))
        short, text = outcome.guarantee_short or outcome.guarantee_text, outcome.guarantee_text
        page.guarantee(short, text if text != short else "")
        for chart in charts[1:]:
            page.figure(*chart)
        for part in parts.values():
            for table in part.tables:
                page.table(table.columns, table.rows)
        if outcome.attack:
            page.paragraph("What an attacker could still do: " + " ".join(outcome.attack))
        if outcome.private.findings and not public:
            page.warning("Must not be published", outcome.private.findings)
        if outcome.public.files and not simulated:
            page.paragraph(f"May be published: {', '.join(outcome.public.files)}.")


@dataclass(frozen=True)
class Cost:
    """One account, as it stood when the run had made its last debit.

    Attributes
    ----------
    before : fractions.Fraction
        What others had spent until then; ``before_on_these_data`` is the part of it on the same tables.
    ours : fractions.Fraction
        What this run spent.
    """

    account: str
    budget: Fraction
    before: Fraction
    before_on_these_data: Fraction
    ours: Fraction

    @property
    def remaining(self) -> Fraction:
        """What was left."""
        return self.budget - self.before - self.ours

    def row(self) -> list[str]:
        """For the report: account, whole budget, spent before, by this study, remaining; rounded to the safe side."""
        figures = ((self.budget, "down"), (self.before, "up"), (self.ours, "up"), (self.remaining, "down"))
        return [self.account, *(f"{printed(amount, side):g}" for amount, side in figures)]  # type: ignore[arg-type]

    def about_before(self) -> str:
        """Whether what had gone before went for the same data."""
        if not self.before:
            return f"Nothing had been spent from {self.account} before."
        amounts = (self.before, self.before_on_these_data, self.before + self.ours)
        before, same, total = (f"{printed(amount, 'up'):g}" for amount in amounts)
        if self.before_on_these_data == self.before:
            return (
                f"The {before} spent before from {self.account} went for the same data: for everybody in them it adds up "
                f"with what this study spent to {total}."
            )
        part = f"{same} of it" if self.before_on_these_data else "none of it"
        return (
            f"Of the {before} spent before from {self.account}, {part} went for the same data; the rest for other data."
        )


def cost_of(account: Account, keys: Collection[str]) -> Cost:
    """What the run whose debits have these keys took, and what others had taken until its last debit.

    What is spent later does not change the answer, so that a report that is made again says the same.
    """
    entries = list(account.entries())
    own = [place for place, entry in enumerate(entries) if entry.key in keys]
    others = [entry for entry in (entries[: own[-1]] if own else entries) if entry.key not in keys]
    tables = {entries[place].fingerprint for place in own}
    same, ours = [entry for entry in others if entry.fingerprint in tables], [entries[place] for place in own]
    sums = (sum((entry.exact_debit for entry in group), Fraction(0)) for group in (others, same, ours))
    return Cost(account.name, account.exact_epsilon, *sums)


def _add_cost(page: Page, checked: Checked, costs: list[Cost]) -> None:
    page.heading("What it cost")
    if not costs:
        page.paragraph("Nothing was spent.")
    else:
        columns = ["account", "whole budget", "spent before", "spent by this study", "remaining"]
        page.table(columns, [cost.row() for cost in costs])
    with page.folded("What each step does, spends and publishes"):
        for cost in costs:
            page.paragraph(cost.about_before())
        last = "would publish" if checked.simulated else "publishes"
        page.table(["step", "what it does", "spends", last], checked.rows())
