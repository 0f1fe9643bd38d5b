"""The operator pages of the collection: campaigns, a new one, and the actions on each, all of them logged.

Loaded on first use, since it needs much that no other page needs.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import polars as pl
from starlette.responses import Response

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.web.collect import Campaign, Store
from peerveil.web.collect import export as export_reports
from peerveil.web.collect.answers import SUFFIXES, count_answers
from peerveil.web.collect.campaign import KINDS, TASK_SUFFIXES, lines_of_tasks, read_tasks, tasks_of_lines
from peerveil.web.collect.results import found_labels, operator_page, stored_result
from peerveil.web.collect.store import Known, invitation_links
from peerveil.web.common.errors import Conflict, NotFound
from peerveil.web.console import files
from peerveil.web.console.pages.request import PageRequest
from peerveil.web.console.pages.services import collection

DEFAULTS: Final = {
    **dict.fromkeys(("id", "title", "question", "tasks", "items", "answers", "opens", "closes"), ""),
    "classes": "no\nyes",
    "method": "pairs",
    "questions": "3",
    "seed": "0",
    "epsilon": "1",
    "unit": "answer",
    "accuracy": "0.9",
    "publish": "yes",
}
"""The fields of a new campaign's form, with their initial values."""
SPECIFIC: Final = {"labels": ("classes", "tasks", "accuracy"), "rankings": ("items", "method", "questions", "seed")}
"""Fields of one kind of campaign alone."""
MAX_INVITATIONS: Final = 10_000
"""Invitations made at once; the command line makes more."""
_LONGEST_FIELD: Final = 900_000  # characters
_SHOWN_LABELS: Final = 20
_MEDIA_TYPES: Final = {".csv": "text/csv", ".parquet": "application/octet-stream", ".jsonl": "application/x-ndjson"}


# ---- the form of a campaign ------------------------------------------------------------------------------------------


def _utc(text: str) -> str:
    """A time without a zone is in UTC, as the form says."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()


_TIME: Final = "a time such as 2026-12-01T08:00 (in UTC)"
_READERS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    **dict.fromkeys(("answers", "questions", "seed", "count"), (int, "a whole number")),
    **dict.fromkeys(("opens", "closes"), (_utc, _TIME)),
    "accuracy": (float, "a share such as 0.9"),
    **dict.fromkeys(
        ("classes", "items"), (lambda text: [line.strip() for line in text.splitlines() if line.strip()], "lines")
    ),
    "tasks": (tasks_of_lines, "lines"),
    "publish": (lambda text: text == "yes", "yes or no"),
}
"""How fields become values; all others are texts."""


def _read(name: str, text: str) -> Any:
    read, want = _READERS.get(name, (str, "text"))
    try:
        return read(text.strip())
    except ValueError:
        raise BadInput(name, got=text, want=want) from None


def campaign_of(form: Mapping[str, str]) -> Campaign:
    r"""The campaign that a form describes; every error names its field.

    >>> form = {"id": "lake", "title": "Lake", "tasks": "1\n2", "closes": "2999-12-01T08:00"}
    >>> campaign = campaign_of(DEFAULTS | form)
    >>> campaign.answers, campaign.classes, campaign.closes.isoformat()
    (2, ('no', 'yes'), '2999-12-01T08:00:00+00:00')
    """
    kind = form.get("kind", "labels")
    for name, text in form.items():
        if len(text) > _LONGEST_FIELD:
            want = f"at most {_LONGEST_FIELD:,} characters here; peerveil collect campaign takes larger files"
            raise BadInput(name, got=Verbatim(f"{len(text):,} characters"), want=want)
    optional = ("question", "answers", "questions", "seed", "opens", "closes", "accuracy")
    others = {name for of, fields in SPECIFIC.items() if of != kind for name in fields}
    texts = {name: form.get(name, "") for name in DEFAULTS if name not in others}
    content = {name: _read(name, text) for name, text in texts.items() if text.strip() or name not in optional}
    campaign = Campaign.from_dict({"kind": kind, **content})
    if campaign.closes is not None and campaign.closes <= datetime.now(UTC):
        raise BadInput("closes", got=form["closes"], want="a time in the future (in UTC)")
    return campaign


def uploaded_tasks(name: str, content: IO[bytes]) -> str:
    """The tasks of an uploaded file, as lines."""
    suffix = Path(name).suffix.lower()
    if suffix not in TASK_SUFFIXES:
        raise BadInput("file", got=name, want=f"a file whose name ends in {', '.join(TASK_SUFFIXES)}")
    with tempfile.TemporaryDirectory(prefix="peerveil-tasks-") as folder:
        path = Path(folder) / f"tasks{suffix}"
        with path.open("wb") as handle:
            shutil.copyfileobj(content, handle)
        tasks = read_tasks(path)
    lines = lines_of_tasks((task["id"] or "", task.get("text") or task["id"] or "") for task in tasks)
    if len(tasks_of_lines(lines)) != len(tasks):
        raise BadInput("file", got=name, want="tasks that all have an id, and texts on one line")
    return lines


# ---- pages -----------------------------------------------------------------------------------------------------------


def overview(request: PageRequest) -> Response:
    """All campaigns."""
    return request.page("collect.html", **collection(request))


def new_page(request: PageRequest) -> Response:
    """The form of a new campaign."""
    kind = request.query("kind", "labels")
    if kind not in KINDS:
        raise NotFound("there is no such kind of campaign")
    return _form(request, {**DEFAULTS, "kind": kind})


def _form(request: PageRequest, values: dict[str, str], problem: str = "") -> Response:
    values = {**dict.fromkeys(DEFAULTS, ""), **values}
    return request.page("collect_new.html", 422 if problem else 200, values=values, kinds=KINDS, problem=problem)


def create(request: PageRequest) -> Response:
    """The form that was filled in: first a preview with the guarantee, then the campaign; or back to the form."""
    form = {"kind": "labels", **request.form}
    step = form.pop("step", "preview")
    try:
        if request.upload is not None and request.upload.filename:
            form["tasks"] = uploaded_tasks(request.upload.filename, request.upload.file)
        if step == "change":
            return _form(request, form)
        campaign = campaign_of(form)
        if step == "create":
            request.app.services.store(create=True).add(campaign)
            request.log("created a campaign", campaign.id)
            return _campaign(request, campaign.id, "campaign")
    except BadInput as error:
        return _form(request, form, str(error))
    values = {name: form.get(name, "") for name in ("kind", *DEFAULTS)}
    if campaign.kind == "labels":
        values["tasks"] = lines_of_tasks(campaign.tasks)
    return request.page("collect_preview.html", campaign=campaign, values=values)


def campaign_page(request: PageRequest) -> Response:
    """A campaign: the collection's own page, and the actions."""
    store, known = _known(request)
    campaign, counts = known.campaign, store.participation(known)
    process = request.app.services.inferrer().state(campaign.id)
    final = stored_result(store, known, "final")
    labels = found_labels(store, known, limit=_SHOWN_LABELS) if final is not None and campaign.kind == "labels" else []
    claimed = counts["inference"]["state"] == "running"
    return request.page(
        "collect_campaign.html",
        campaign=campaign,
        counts=counts,
        parts=operator_page(store, known, commands=False),
        working=claimed or process == "running",
        ours=process == "running",
        failed=process == "failed" and not claimed and counts["inference"]["state"] != "done",
        final=final,
        labels=labels,
        formats=list(_MEDIA_TYPES),
        most=MAX_INVITATIONS,
        command=collection(request)["command"],
    )


# ---- actions ---------------------------------------------------------------------------------------------------------


def _known(request: PageRequest) -> tuple[Store, Known]:
    services = request.app.services
    if not services.has_collection():
        raise NotFound("there is no such campaign")
    store = services.store()
    return store, store.known(request.path("campaign"))


def _campaign(request: PageRequest, campaign: str, done: str) -> Response:
    return request.redirect(f"/services/collect/{campaign}", done)


def invite(request: PageRequest) -> Response:
    """New invitations as a text to be saved: links, then the same ones as codes. They cannot be shown again."""
    store, known = _known(request)
    campaign, site = known.campaign, request.field("site")
    if store.state(known) == "closed":
        raise Conflict("this campaign is closed; nobody could answer any more")
    count = _read("count", request.field("count"))
    if not 1 <= count <= MAX_INVITATIONS:
        want = f"a whole number from 1 to {MAX_INVITATIONS:,} (peerveil collect token makes more)"
        raise BadInput("count", got=count, want=want)
    invitation_links(site, campaign.id, [])  # refuses a bad address before anything is made
    tokens = store.invite(known, count)
    request.log("made invitations", f"{count:,} for {campaign.id}")
    lines = [
        f"# {count:,} invitations to the campaign {campaign.id} ({campaign.title}): one line per person.",
        "# They are shown only once. Do not record who got which.",
        "# As links:",
        *invitation_links(site, campaign.id, tokens),
        "# The same invitations, in the same order, as codes:",
        *tokens,
    ]
    return request.download("\n".join([*lines, ""]), f"invitations-{campaign.id}.txt", "text/plain; charset=utf-8")


def infer(request: PageRequest, *, so_far: bool = False) -> Response:
    """Infer the result of a closed campaign, or with ``so_far`` an estimate of an open one, in a process of its own."""
    store, known = _known(request)
    campaign, closed = known.campaign.id, store.state(known) == "closed"
    if so_far and closed:
        raise Conflict("this campaign is closed: infer its result instead")
    if not so_far and not closed:
        raise Conflict("this campaign is open: close it first, or make an estimate")
    _require_reports(store, known)
    if not request.app.services.inferrer()(campaign, so_far=so_far):
        raise Conflict("it is running already; reload the page in a moment")
    request.log("started an estimate" if so_far else "started an inference", campaign)
    return _campaign(request, campaign, "estimating" if so_far else "inferring")


def _require_reports(store: Store, known: Known) -> None:
    if not count_answers(store, known):
        raise Conflict("there are no answers yet")


def close(request: PageRequest) -> Response:
    """Close it permanently."""
    store, known = _known(request)
    if request.field("sure") != "yes":
        raise BadInput("sure", got="nothing", want="the box checked: a closed campaign cannot be opened again")
    store.end(known, now=True)
    request.log("closed a campaign", known.campaign.id)
    return _campaign(request, known.campaign.id, "closed")


def _export_into(folder: Path, store: Store, known: Known, suffix: str) -> Path:
    """All randomized answers in a new file of a folder."""
    one_of(suffix, "format", SUFFIXES)
    _require_reports(store, known)
    return export_reports(store, known, folder / f"reports-{known.campaign.id}{suffix}")


def export(request: PageRequest) -> Response:
    """All randomized answers, as a file."""
    store, known = _known(request)
    suffix = request.field("format")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="peerveil-reports-"))
        path = _export_into(Path(folder), store, known, suffix)
        request.log("exported answers", known.campaign.id)
        remove = stack.pop_all().close
    return request.download(path, path.name, _MEDIA_TYPES[suffix], afterwards=remove)


def truth(request: PageRequest) -> Response:
    """The randomized answers as a file of the console, for the truth module."""
    store, known = _known(request)
    if known.campaign.kind != "labels":
        raise BadInput("campaign", got=known.campaign.id, want="a campaign of labels")
    with tempfile.TemporaryDirectory(prefix="peerveil-reports-") as folder:
        path = _export_into(Path(folder), store, known, ".csv")
        with path.open("rb") as content:
            file = files.upload(request.app, request.user, path.name, content)
    request.log("added answers of a campaign to the data", known.campaign.id)
    return request.redirect(f"/data/{file}", "reports")


def results(request: PageRequest) -> Response:
    """What was inferred, as JSON."""
    store, known = _known(request)
    campaign, final = known.campaign, stored_result(store, known, "final")
    if final is None:
        raise NotFound("there are no results yet")
    content: dict[str, Any] = {"campaign": campaign.id, **final.content}
    if campaign.kind == "labels":
        content["labels"] = found_labels(store, known)
    text = json.dumps(content, ensure_ascii=False, indent=1)
    return request.download(text, f"results-{campaign.id}.json", "application/json")


def labels(request: PageRequest) -> Response:
    """The labels as a table."""
    store, known = _known(request)
    rows = found_labels(store, known) if known.campaign.kind == "labels" else []
    if not rows:
        raise NotFound("there are no labels yet")
    text = pl.DataFrame(rows).select("task", "label", "confidence").write_csv()
    return request.download(text, f"labels-{known.campaign.id}.csv", "text/csv")
