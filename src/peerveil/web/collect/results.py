"""What was inferred: as the database keeps it, as it is published, and as the operator's page shows it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import delete, insert, select

from peerveil.report import Page, Svg
from peerveil.truth.result import ABILITIES, CONFIDENCE
from peerveil.web.collect.store import Known, Store
from peerveil.web.collect.tables import abilities, labels, results
from peerveil.web.common import database_time
from peerveil.web.common.database import SECOND, update_or_insert
from peerveil.web.common.errors import NotFound

_ROWS: Final = 20_000  # written at once
_POST_PROCESSING: Final = (
    "Estimates while the campaign is open are for operators only. They cost no privacy: every answer was randomized on "
    "the person's device before it left it, and whatever is computed from randomized answers reveals no more than they do."
)
_LINKS: Final = (
    "The service keeps the hash of an invitation, never the invitation; a random number per person, drawn with it; and for "
    "each answer the question and the randomized class. All answers of one invitation stand under one number, since "
    "abilities need it. Whoever keeps a list of who got which invitation, and has the database, can tell which number is "
    "whose, and so which questions they answered and what they sent. What they thought is protected by the randomness alone."
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A result: when it was computed (microseconds), what it says, and its figure."""

    made: int
    content: dict[str, Any]
    figure: Svg


def stored_result(store: Store, known: Known, kind: str) -> Stored | None:
    """The last result of a kind, ``"final"`` or ``"so far"``."""
    query = select(results).where(results.c.campaign == known.number, results.c.kind == kind)
    row = store.database.first(query)
    return None if row is None else Stored(row.made, json.loads(row.content), Svg(*json.loads(row.figure)))


def store_result(
    store: Store,
    known: Known,
    kind: str,
    content: dict[str, Any],
    figure: Svg,
    *,
    label_rows: Iterable[dict[str, Any]] = (),
    ability_rows: Iterable[dict[str, Any]] = (),
) -> None:
    """Replace the result of a kind, with its labels and abilities, in one transaction: readers see the old or the new one."""
    with store.database.writing("open") as connection:
        parts = json.dumps([figure.attributes, figure.content])
        row = {"made": database_time(connection), "content": json.dumps(content), "figure": parts}
        update_or_insert(connection, results, {"campaign": known.number, "kind": kind}, row)
        if kind == "final":
            for table, rows in ((labels, label_rows), (abilities, ability_rows)):
                connection.execute(delete(table).where(table.c.campaign == known.number))
                numbered = ({"campaign": known.number, **row} for row in rows)
                while part := list(islice(numbered, _ROWS)):
                    connection.execute(insert(table), part)


def published_results(store: Store, known: Known, after: int, limit: int) -> dict[str, Any]:
    """What everybody may read: nothing before the campaign is closed and inferred, nothing at all if it is not to be published.

    Abilities are not in it: they belong to people, if only to their numbers, and are for the operator.
    """
    campaign = known.campaign
    if not campaign.publish:
        raise NotFound("the results of this campaign are not published")
    result = stored_result(store, known, "final")
    if result is None:
        raise NotFound("there are no results yet: nothing is published while the campaign is open")
    answer: dict[str, Any] = {"campaign": campaign.id, **result.content}
    if campaign.kind == "labels":
        answer["labels"] = found_labels(store, known, after, limit)
        answer["next"] = answer["labels"][-1]["number"] if len(answer["labels"]) == limit else None
    return answer


def found_labels(store: Store, known: Known, after: int = -1, limit: int | None = None) -> list[dict[str, Any]]:
    """The labels that were inferred, in the order of tasks: number, task, label and confidence."""
    campaign = known.campaign
    query = select(labels).where(labels.c.campaign == known.number, labels.c.question > after)
    return [
        {
            "number": row.question,
            "task": campaign.tasks[row.question][0],
            "label": campaign.classes[row.code],
            "confidence": row.confidence,
        }
        for row in store.database.rows(query.order_by(labels.c.question).limit(limit))
    ]


# ---- the operator's page: participation, estimates, what is still needed, results, the guarantee. No script. ------


def operator_page(store: Store, known: Known, *, commands: bool = True) -> Page:
    """The page of one campaign; without ``commands`` it names none, for places that have buttons."""
    campaign, counts = known.campaign, store.participation(known)
    estimate, final = (stored_result(store, known, kind) for kind in ("so far", "final"))
    page = Page(campaign.title, lead=f"Campaign {campaign.id} is {counts['state']}.{_times(known, counts['state'])}")
    page.guarantee(str(campaign.guarantee))
    page.heading("Participation")
    most = counts["most_reports"]
    share = f" ({counts['reports'] / most:.0%} of those possible)" if most else ""
    rows = {
        "invitations": f"{counts['invitations']:,}",
        "people who answered": f"{counts['people']:,}",
        "randomized answers": f"{counts['reports']:,}{share}",
        "answers that one person may give": f"{campaign.answers:,}",
        "questions": f"{campaign.size:,}",
    }
    page.table(["", ""], list(rows.items()))
    page.heading("So far" if final is None else "Results")
    if final is None:
        page.paragraph(_POST_PROCESSING)
    result = final or estimate
    if result is not None:
        _add_result(page, known, result)
    else:
        command = f" To compute one: peerveil collect infer --campaign {campaign.id} --so-far" if commands else ""
        page.paragraph(f"There is no estimate yet.{command}")
    job = counts["inference"]
    if job["state"] == "running":
        page.heading("Inference is running")
        page.paragraph(f"{job['stage']}: {job['done']:,} of {job['total']:,} answers. Reload the page to see more.")
    elif job["state"] == "failed":
        page.warning(
            "Inference failed", [f"Run it again, and see why: peerveil collect infer --campaign {campaign.id}"]
        )
    page.heading("What is protected, and what is not")
    page.guarantee(str(campaign.person_guarantee))
    page.paragraph(f"{campaign.response}. {_LINKS}")
    page.footer("Counts and estimates; no single answer is shown here.")
    return page


def _times(known: Known, state: str) -> str:
    if state == "closed":
        return ""
    times = (("Opens", known.campaign.opens), ("Closes", known.campaign.closes))
    sentences = [f" {word} {moment:%Y-%m-%d %H:%M} UTC." for word, moment in times if moment is not None]
    return "".join(sentences) or " It closes when you close it."


def _add_result(page: Page, known: Known, result: Stored) -> None:
    content = result.content
    computed = datetime.fromtimestamp(result.made / SECOND, UTC)
    page.paragraph(f"From {content['reports']:,} randomized answers, computed {computed:%Y-%m-%d %H:%M} UTC.")
    if known.campaign.kind == "rankings":
        page.paragraph(content["finding"])
        page.table(["question", "answers", "estimated share of yes"], [_question(row) for row in content["questions"]])
        caption = "The statistic beside what chance alone would give."
    else:
        page.table(["", ""], list(_label_rows(content).items()))
        page.paragraph(f"{CONFIDENCE} {ABILITIES}")
        caption = "Abilities of the people who answered, sorted and without names."
        if "needed" in content:
            caption = (
                "The lines are simulated crowds of the abilities estimated here; the vertical line is this campaign's "
                "answers per task."
            )
    page.figure(result.figure, caption)


def _label_rows(content: dict[str, Any]) -> dict[str, str]:
    rows = {"mean confidence of the labels, if people err independently": f"{content['mean_confidence']:.0%}"}
    needed = content.get("needed")
    if needed is not None:
        each = needed["answers_a_task"]
        if each is None:
            sentence = (
                f"more than {needed['more_than']} answers per task: hardly in reach with this epsilon and these people"
            )
        elif needed["more_answers"] == 0:
            sentence = f"none: {each} answers per task should do"
        else:
            sentence = f"about {needed['more_answers']:,} ({each} answers per task)"
        rows["more answers needed for the target, if people err independently"] = sentence
    return rows | {
        "answers per task": f"{content['answers_a_task']:.1f} on average",
        "tasks with an answer": f"{content['tasks_with_reports']:,} of {content['tasks']:,}",
        "median ability": f"{content['median_ability']:.2f}",
        "model": content["model"],
    }


def _question(row: dict[str, Any]) -> tuple[str, str, str]:
    about = row["about"]
    question = " before ".join(about) if len(about) == 2 else f"{about[0]} in the upper half"
    return question, f"{row['reports']:,}", f"{row['yes']:.0%} (between {row['low']:.0%} and {row['high']:.0%})"
