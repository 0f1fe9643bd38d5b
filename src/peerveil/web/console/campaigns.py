"""What operators do with campaigns: each act through the collection's own functions, with a line in the trail."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, Verbatim
from peerveil.web.collect import Campaign, export
from peerveil.web.collect.campaign import KINDS
from peerveil.web.collect.exporting import SUFFIXES, count_answers
from peerveil.web.collect.store import invitation_links
from peerveil.web.collect.tasks import SUFFIXES as TASK_SUFFIXES
from peerveil.web.collect.tasks import lines_of_tasks, read_tasks, tasks_of_lines
from peerveil.web.common.errors import Conflict
from peerveil.web.console import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peerveil.web.collect import Store
    from peerveil.web.collect.service import Inferrer
    from peerveil.web.collect.store import Known
    from peerveil.web.console.house import House
    from peerveil.web.console.people import Asker

BLANK: Final = {
    "id": "",
    "title": "",
    "question": "",
    "classes": "no\nyes",
    "tasks": "",
    "items": "",
    "method": "pairs",
    "questions": "3",
    "seed": "0",
    "epsilon": "1",
    "unit": "answer",
    "answers": "",
    "accuracy": "0.9",
    "opens": "",
    "closes": "",
    "publish": "yes",
}
"""A form to begin with."""
OWN: Final = {"labels": ("classes", "tasks", "accuracy"), "rankings": ("items", "method", "questions", "seed")}
"""Fields of one kind of campaign alone."""
MOST_INVITATIONS: Final = 10_000
"""Invitations made at once; the command line makes more."""
_LONGEST: Final = 900_000  # characters of a form's field


def campaign_of(form: Mapping[str, str]) -> Campaign:
    r"""The campaign that a form describes; every problem is named with its field.

    >>> form = {
    ...     **BLANK,
    ...     "kind": "labels",
    ...     "id": "lake",
    ...     "title": "Lake",
    ...     "tasks": "1\n2",
    ...     "closes": "2999-12-01T08:00",
    ... }
    >>> campaign = campaign_of(form)
    >>> campaign.answers, campaign.classes, campaign.closes.isoformat()
    (2, ('no', 'yes'), '2999-12-01T08:00:00+00:00')
    """
    kind = form.get("kind", "labels")
    if kind not in KINDS:
        raise BadInput("kind", got=kind, want=f"one of {', '.join(KINDS)}")
    for name, text in form.items():
        if len(text) > _LONGEST:
            want = f"at most {_LONGEST:,} characters here; peerveil collect campaign takes larger files"
            raise BadInput(name, got=Verbatim(f"{len(text):,} characters"), want=want)
    given = {name: form.get(name, "").strip() for name in BLANK}
    content: dict[str, Any] = {name: given[name] for name in ("id", "title", "epsilon", "unit")}
    content |= {"kind": kind, "publish": given["publish"] == "yes"}
    if given["question"]:
        content["question"] = given["question"]
    for name in ("answers", "questions", "seed"):
        if given[name]:
            content[name] = _whole(given[name], name)
    for name in ("opens", "closes"):
        if given[name]:
            content[name] = _time(given[name], name)
    if given["accuracy"]:
        content["accuracy"] = _share(given["accuracy"])
    content["classes"], content["items"] = (
        [line.strip() for line in given[name].splitlines() if line.strip()] for name in ("classes", "items")
    )
    content |= {"method": given["method"], "tasks": tasks_of_lines(given["tasks"])}
    other = next(fields for of, fields in OWN.items() if of != kind)
    campaign = Campaign.from_dict({name: value for name, value in content.items() if name not in other})
    if campaign.closes is not None and campaign.closes <= datetime.now(UTC):
        raise BadInput("closes", got=given["closes"], want="a time that is still to come (in UTC)")
    return campaign


def form_of(campaign: Campaign, form: Mapping[str, str]) -> dict[str, str]:
    """What a form holds once its campaign was understood: as it was sent, with the tasks as lines."""
    kept = {name: form.get(name, "") for name in ("kind", *BLANK)}
    if campaign.kind == "labels":
        kept["tasks"] = lines_of_tasks(campaign.tasks)
    return kept


def uploaded_tasks(name: str, content: IO[bytes]) -> str:
    """The tasks of an uploaded file, as lines."""
    suffix = Path(name).suffix.lower()
    if suffix not in TASK_SUFFIXES:
        raise BadInput("file", got=name, want=f"a file whose name ends in {', '.join(TASK_SUFFIXES)}")
    with tempfile.TemporaryDirectory(prefix="peerveil-tasks-") as folder:
        path = Path(folder) / f"tasks{suffix}"
        with path.open("wb") as handle:
            shutil.copyfileobj(content, handle)
        found = read_tasks(path)
    lines = lines_of_tasks((task["id"] or "", task.get("text") or task["id"] or "") for task in found)
    if len(tasks_of_lines(lines)) != len(found):
        raise BadInput("file", got=name, want="tasks that all have an id, and texts on one line")
    return lines


def _whole(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInput(name, got=text, want="a whole number") from None


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput("accuracy", got=text, want="a share such as 0.9") from None


def _time(text: str, name: str) -> str:
    """A time without a zone is meant in UTC, as the form says."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(name, got=text, want="a time such as 2026-12-01T08:00 (in UTC)") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).isoformat()


# ---- acts ------------------------------------------------------------------------------------------------------------


def note(house: House, asker: Asker, what: str, about: str) -> None:
    """A line in the trail."""
    with house.database.writing("take") as connection:
        house.note(connection, asker.id, what, about)


def make(house: House, asker: Asker, store: Store, campaign: Campaign) -> None:
    """A new campaign; its terms never change afterwards."""
    store.add(campaign)
    note(house, asker, "made a campaign", campaign.id)


def invitations(house: House, asker: Asker, store: Store, known: Known, count: str, site: str) -> str:
    """New invitations as a text: links, then the same ones as bare codes. Nothing of them can be shown again."""
    campaign = known.campaign
    if store.state(known) == "closed":
        raise Conflict("this campaign is closed; nobody could answer any more")
    number = _whole(count.strip(), "count")
    if not 1 <= number <= MOST_INVITATIONS:
        want = f"a whole number from 1 to {MOST_INVITATIONS:,} (peerveil collect token makes more)"
        raise BadInput("count", got=number, want=want)
    invitation_links(site, campaign.id, [])  # before anything is made
    tokens = store.invite(known, number)
    note(house, asker, "made invitations", f"{number:,} for {campaign.id}")
    lines = [
        f"# {number:,} invitations to the campaign {campaign.id} ({campaign.title}): one line for one person.",
        "# They are shown this once. Keep no list of who got which.",
        "# As links:",
        *invitation_links(site, campaign.id, tokens),
        "# The same invitations, in the same order, as codes:",
        *tokens,
    ]
    return "\n".join([*lines, ""])


def close(house: House, asker: Asker, store: Store, known: Known) -> None:
    """Take nothing more, for good."""
    store.end(known, now=True)
    note(house, asker, "closed a campaign", known.campaign.id)


def begin(house: House, asker: Asker, store: Store, known: Known, inferrer: Inferrer, *, so_far: bool) -> None:
    """Infer in a process of its own: an estimate while the campaign is open, the result once it is closed."""
    state = store.state(known)
    if so_far and state == "closed":
        raise Conflict("this campaign is closed: infer its result instead")
    if not so_far and state != "closed":
        raise Conflict("this campaign is open: close it first, or make an estimate")
    if not count_answers(store, known):
        raise Conflict("there are no reports yet")
    if not inferrer(known.campaign.id, so_far=so_far):
        raise Conflict("it is under way already; load the page again in a moment")
    note(house, asker, "began an estimate" if so_far else "began an inference", known.campaign.id)


def export_into(folder: Path, store: Store, known: Known, suffix: str) -> Path:
    """All reports in a new file of a folder."""
    if suffix not in SUFFIXES:
        raise BadInput("format", got=suffix, want=f"one of {', '.join(SUFFIXES)}")
    if not count_answers(store, known):
        raise Conflict("there are no reports yet")
    return export(store, known, folder / f"reports-{known.campaign.id}{suffix}")


def to_data(house: House, asker: Asker, store: Store, known: Known) -> str:
    """The reports as a file of the console, for the truth room; its id."""
    if known.campaign.kind != "labels":
        raise BadInput("campaign", got=known.campaign.id, want="a campaign of labels")
    with tempfile.TemporaryDirectory(prefix="peerveil-reports-") as folder:
        path = export_into(Path(folder), store, known, ".csv")
        with path.open("rb") as content:
            made = files.upload(house, asker, path.name, content)
    note(house, asker, "took reports to the data", known.campaign.id)
    return made
