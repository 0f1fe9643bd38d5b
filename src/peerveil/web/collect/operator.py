"""The operator's page: participation, estimates, what is still needed, results, the promise in words. No script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from peerveil.report import Page
from peerveil.truth.result import CONFIDENCE
from peerveil.web.collect.outcomes import Stored, stored_result

if TYPE_CHECKING:
    from peerveil.web.collect.store import Known, Store

POST_PROCESSING = (
    "Estimates while the campaign is open are for operators only. They cost no privacy: every report was randomized on "
    "the person's device before it left it, and whatever is computed from randomized reports reveals no more than they do."
)
LINKS = (
    "The service keeps the hash of an invitation, never the invitation; a random number a person, drawn with it; and for "
    "each report the question and the randomized class. All reports of one invitation stand under one number, since "
    "abilities need it. Whoever keeps a list of who got which invitation, and has the database, can tell which number is "
    "whose, and so which questions they answered and what they reported. What they thought is protected by the randomness "
    "alone."
)


def operator_page(store: Store, known: Known, *, commands: bool = True) -> Page:
    """The page of one campaign; without ``commands`` it names none, for places that have buttons."""
    campaign, counts = known.campaign, store.participation(known)
    soon, final = (stored_result(store, known, kind) for kind in ("so far", "final"))
    times = "" if counts["state"] == "closed" else f" {_times(campaign.opens, campaign.closes)}"
    page = Page(campaign.title, lead=f"Campaign {campaign.id} is {counts['state']}.{times}")
    page.guarantee(str(campaign.guarantee))
    page.heading("Participation")
    most = counts["most_reports"]
    share = f" ({100 * counts['reports'] / most:.0f} in 100 of those possible)" if most else ""
    rows: list[tuple[str, str]] = [
        ("invitations handed out", f"{counts['invitations']:,}"),
        ("people who reported", f"{counts['people']:,}"),
        ("reports", f"{counts['reports']:,}{share}"),
        ("answers that one person may give", f"{campaign.answers:,}"),
        ("questions", f"{campaign.size:,}"),
    ]
    page.table(["", ""], rows)
    if final is not None:
        _results(page, known, final, "Results")
    else:
        page.heading("So far")
        page.paragraph(POST_PROCESSING)
        if soon is None:
            how = f" Make one: peerveil collect infer --campaign {campaign.id} --so-far" if commands else ""
            page.paragraph(f"No estimate was made yet.{how}")
        else:
            _results(page, known, soon, "")
    work = counts["inference"]
    if work["state"] == "running":
        page.heading("Inference is running")
        page.paragraph(
            f"{work['stage']}: {work['done']:,} of {work['total']:,} reports. Load the page again to see more."
        )
    elif work["state"] == "failed":
        page.warning(
            "Inference failed", [f"Run it again, and see why: peerveil collect infer --campaign {campaign.id}"]
        )
    page.heading("What is promised, and what is not")
    page.guarantee(str(campaign.person_guarantee))
    page.paragraph(f"{campaign.response}. {LINKS}")
    page.footer("Counts and estimates; no single report is shown here.")
    return page


def _times(opens: datetime | None, closes: datetime | None) -> str:
    said = [
        f"{word} {moment:%Y-%m-%d %H:%M} UTC."
        for word, moment in (("Opens", opens), ("Closes", closes))
        if moment is not None
    ]
    return " ".join(said) or "It closes when you say so."


def _results(page: Page, known: Known, found: Stored, title: str) -> None:
    if title:
        page.heading(title)
    made = datetime.fromtimestamp(found.made / 1_000_000, UTC)
    page.paragraph(f"From {found.content['reports']:,} reports, computed {made:%Y-%m-%d %H:%M} UTC.")
    if known.campaign.kind == "labels":
        _labels(page, found.content)
    else:
        _rankings(page, found.content)
    page.figure(found.figure, _caption(known, found.content))


def _labels(page: Page, content: dict[str, Any]) -> None:
    rows = [
        ("answers a task", f"{content['answers_a_task']:.1f} on average"),
        ("tasks with a report", f"{content['tasks_with_reports']:,} of {content['tasks']:,}"),
        ("median ability", f"{content['median_ability']:.2f}"),
        ("model", content["model"]),
    ]
    if "mean_confidence" in content:
        rows.insert(0, ("mean confidence of the labels", f"{100 * content['mean_confidence']:.0f}%"))
    needed = content.get("needed")
    if needed is not None:
        if needed["answers_a_task"] is None:
            told = f"more than {needed['more_than']} answers a task: hardly in reach with this epsilon and these people"
        elif needed["more_answers"] == 0:
            told = f"none: {needed['answers_a_task']} answers a task should do"
        else:
            told = f"about {needed['more_answers']:,} ({needed['answers_a_task']} answers a task)"
        rows.insert(1, ("more answers needed for the aim, if people err independently", told))
    page.table(["", ""], rows)
    page.paragraph(CONFIDENCE)


def _rankings(page: Page, content: dict[str, Any]) -> None:
    page.paragraph(content["finding"])
    rows = [
        (
            " before ".join(one["about"]) if len(one["about"]) == 2 else f"{one['about'][0]} in the upper half",
            f"{one['reports']:,}",
            f"{100 * one['yes']:.0f} in 100 (between {100 * one['low']:.0f} and {100 * one['high']:.0f})",
        )
        for one in content["questions"]
    ]
    page.table(["question", "reports", "estimated share of yes"], rows)


def _caption(known: Known, content: dict[str, Any]) -> str:
    if known.campaign.kind == "rankings":
        return "The statistic beside what chance alone would give."
    if "needed" in content:
        return "The lines are simulated crowds of the abilities found here; the vertical line is this campaign's answers a task."
    return "Abilities of the people who reported, sorted and without names, with intervals of two standard errors."
