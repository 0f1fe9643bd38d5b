"""The collection's operator pages: campaigns, a new one, and what can be done with each."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.storage import Address
from peerveil.web.collect.campaign import KINDS
from peerveil.web.collect.results import found_labels, operator_page, stored_result
from peerveil.web.common.errors import NotFound
from peerveil.web.console import campaigns
from peerveil.web.console.annex import start_command

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.collect import Campaign, Store
    from peerveil.web.collect.store import Known
    from peerveil.web.console.pages.visit import Visit

_SHOWN: Final = 20
"""Labels on a campaign's page; all are in the file."""
_FORMATS: Final = {".csv": "text/csv", ".parquet": "application/octet-stream", ".jsonl": "application/x-ndjson"}


def everything(visit: Visit) -> Response:
    """All campaigns."""
    annex = visit.console.annex
    found, problem = [], ""
    if annex.collects():
        try:
            found = annex.store().listed()
        except PeerveilError as error:
            problem = str(error)
    return visit.page(
        "collect.html",
        campaigns=found,
        problem=problem,
        where=Address.read(annex.collect_url).shown,
        command=start_command("collect", annex.collect_url),
    )


def blank(visit: Visit) -> Response:
    """The form of a new campaign."""
    kind = visit.asked("kind", "labels")
    if kind not in KINDS:
        raise NotFound("there is no such kind of campaign")
    return _form(visit, {**campaigns.BLANK, "kind": kind})


def _form(visit: Visit, values: dict[str, str], problem: str = "") -> Response:
    return visit.page(
        "collect_new.html",
        422 if problem else 200,
        values={**dict.fromkeys(campaigns.BLANK, ""), **values},
        kinds=KINDS,
        problem=problem,
    )


def new(visit: Visit) -> Response:
    """What was filled in: shown with its promise first, made only when that was seen, or changed once more."""
    form = {"kind": "labels", **visit.form}
    step = form.pop("step", "preview")
    try:
        if visit.upload is not None and visit.upload.filename:
            form["tasks"] = campaigns.uploaded_tasks(visit.upload.filename, visit.upload.file)
        if step == "change":
            return _form(visit, form)
        campaign = campaigns.campaign_of(form)
        if step == "make":
            campaigns.make(visit.house, visit.asker, visit.console.annex.store(create=True), campaign)
            return visit.go(f"/services/collect/{campaign.id}", "campaign")
    except BadInput as error:
        return _form(visit, form, str(error))
    return _preview(visit, campaign, campaigns.form_of(campaign, form))


def _preview(visit: Visit, campaign: Campaign, values: dict[str, str]) -> Response:
    return visit.page("collect_preview.html", campaign=campaign, values=values)


def _known(visit: Visit) -> tuple[Store, Known]:
    annex = visit.console.annex
    if not annex.collects():
        raise NotFound("there is no such campaign")
    store = annex.store()
    return store, store.known(visit.part("campaign"))


def one(visit: Visit) -> Response:
    """A campaign: the collection's own page, and what can be done."""
    store, known = _known(visit)
    counts = store.participation(known)
    beside = visit.console.annex.inferrer().state(known.campaign.id)
    final = stored_result(store, known, "final")
    labels = found_labels(store, known, limit=_SHOWN) if final is not None and known.campaign.kind == "labels" else []
    claimed = counts["inference"]["state"] == "running"
    return visit.page(
        "collect_campaign.html",
        campaign=known.campaign,
        counts=counts,
        parts=operator_page(store, known, commands=False),
        working=claimed or beside == "running",
        ours=beside == "running",
        failed=beside == "failed" and not claimed and counts["inference"]["state"] != "done",
        final=final,
        labels=labels,
        formats=list(_FORMATS),
        most=campaigns.MOST_INVITATIONS,
        command=start_command("collect", visit.console.annex.collect_url),
    )


def invite(visit: Visit) -> Response:
    """Invitations, to be saved: they are shown this once."""
    store, known = _known(visit)
    count, site = visit.form.get("count", ""), visit.form.get("site", "")
    text = campaigns.invitations(visit.house, visit.asker, store, known, count, site)
    return visit.file(text.encode(), f"invitations-{known.campaign.id}.txt", "text/plain; charset=utf-8")


def estimate(visit: Visit) -> Response:
    """An estimate so far."""
    return _begin(visit, so_far=True)


def infer(visit: Visit) -> Response:
    """The result."""
    return _begin(visit, so_far=False)


def _begin(visit: Visit, *, so_far: bool) -> Response:
    store, known = _known(visit)
    inferrer = visit.console.annex.inferrer()
    campaigns.begin(visit.house, visit.asker, store, known, inferrer, so_far=so_far)
    return visit.go(f"/services/collect/{known.campaign.id}", "estimating" if so_far else "inferring")


def close(visit: Visit) -> Response:
    """Close it for good."""
    store, known = _known(visit)
    if visit.form.get("sure") != "yes":
        raise BadInput("sure", got="nothing", want="the box ticked: a campaign that is closed cannot be opened again")
    campaigns.close(visit.house, visit.asker, store, known)
    return visit.go(f"/services/collect/{known.campaign.id}", "closed")


def export(visit: Visit) -> Response:
    """All reports, as a file."""
    store, known = _known(visit)
    suffix = visit.form.get("format", "")
    folder = Path(tempfile.mkdtemp(prefix="peerveil-reports-"))
    try:
        path = campaigns.export_into(folder, store, known, suffix)
        campaigns.note(visit.house, visit.asker, "exported reports", known.campaign.id)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return visit.saved(path, path.name, _FORMATS[suffix], afterwards=lambda: shutil.rmtree(folder, ignore_errors=True))


def truth(visit: Visit) -> Response:
    """The reports as a file of the console."""
    store, known = _known(visit)
    return visit.go(f"/data/{campaigns.to_data(visit.house, visit.asker, store, known)}", "reports")


def results(visit: Visit) -> Response:
    """What was inferred, as JSON."""
    store, known = _known(visit)
    found = stored_result(store, known, "final")
    if found is None:
        raise NotFound("there are no results yet")
    content: dict[str, Any] = {"campaign": known.campaign.id, **found.content}
    if known.campaign.kind == "labels":
        content["labels"] = found_labels(store, known)
    text = json.dumps(content, ensure_ascii=False, indent=1)
    return visit.file(text.encode(), f"results-{known.campaign.id}.json", "application/json")


def labels(visit: Visit) -> Response:
    """The labels as a table."""
    store, known = _known(visit)
    found = found_labels(store, known) if known.campaign.kind == "labels" else []
    if not found:
        raise NotFound("there are no labels yet")
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["task", "label", "confidence"])
    writer.writerows([row["task"], row["label"], row["confidence"]] for row in found)
    return visit.file(text.getvalue().encode(), f"labels-{known.campaign.id}.csv", "text/csv")
