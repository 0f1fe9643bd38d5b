"""Pages of files: bring them, see what was recognized, say what is what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.core.errors import BadInput
from peerveil.study.actions import KINDS
from peerveil.web.console import files, simulations
from peerveil.web.console.pages.home import ROOMS

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.console.pages.visit import Visit


def everything(visit: Visit) -> Response:
    """All files, and how to bring another."""
    found = files.listed(visit.house, visit.asker)
    settings = visit.console.settings
    return visit.page(
        "data.html",
        files=found,
        platforms=files.PLATFORMS,
        looking=any(file.state == "looking" for file in found),
        may_point=visit.asker.alone or settings.data_folder is not None,
        data_folder=settings.data_folder,
        limit=settings.upload_limit,
    )


def upload(visit: Visit) -> Response:
    """Take a file."""
    if visit.upload is None or not visit.upload.filename:
        raise BadInput("file", got="nothing", want="a file: choose one first")
    return visit.go(
        f"/data/{files.upload(visit.house, visit.asker, visit.upload.filename, visit.upload.file)}", "added"
    )


def point(visit: Visit) -> Response:
    """Take a file that stays where it is."""
    return visit.go(f"/data/{files.point_to(visit.house, visit.asker, visit.form.get('path', ''))}", "added")


def invent(visit: Visit) -> Response:
    """An invented conference."""
    files.invent(visit.house, visit.asker)
    return visit.go("/data", "invented")


def one(visit: Visit) -> Response:
    """What was seen in a file."""
    found = files.find(visit.house, visit.asker, visit.part("file"))
    guess = found.look.get("guess") or {}
    wanted = visit.asked("kind") or found.kind or guess.get("kind") or next(iter(found.tables), "") or "reviews"
    if wanted not in KINDS:
        wanted = "reviews"
    named = dict(found.columns) or (guess.get("columns", {}) if wanted == guess.get("kind") else {})
    return visit.page(
        "file.html",
        file=found,
        platforms=files.PLATFORMS,
        kinds=KINDS,
        kind=wanted,
        wanted=files.COLUMNS[wanted],
        optional={ours for ours in files.COLUMNS[wanted] if (wanted, ours) in files.OPTIONAL},
        named=named,
        rooms={room: ROOMS[room] for room, kind in simulations.KINDS.items() if kind in found.tables},
    )


def map_columns(visit: Visit) -> Response:
    """Say what is what."""
    file, form = visit.part("file"), dict(visit.form)
    kind = form.pop("kind", "")
    columns = {name.removeprefix("column-"): value for name, value in form.items() if name.startswith("column-")}
    known = files.COLUMNS.get(kind, {})
    files.map_columns(visit.house, visit.asker, file, kind, {ours: columns[ours] for ours in known if ours in columns})
    return visit.go(f"/data/{file}", "mapped")


def remove(visit: Visit) -> Response:
    """Forget a file."""
    files.remove(visit.house, visit.asker, visit.part("file"))
    return visit.go("/data", "removed")


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    return [
        page("/data", everything, "analyst"),
        post("/data/upload", upload, "analyst"),
        post("/data/point", point, "analyst"),
        post("/data/invent", invent, "analyst"),
        page("/data/{file}", one, "analyst"),
        post("/data/{file}/columns", map_columns, "analyst"),
        post("/data/{file}/remove", remove, "analyst"),
    ]
