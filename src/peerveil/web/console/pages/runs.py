"""Pages of runs: what would be spent, how far it is, what was found, what may be taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from peerveil.study.report import saved_page
from peerveil.web.common.errors import NotFound
from peerveil.web.console import runs

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.responses import Response

    from peerveil.web.console.pages.visit import Visit
    from peerveil.web.console.runs import Run

_KINDS: Final = {".csv": "text/csv", ".json": "application/json", ".svg": "image/svg+xml", ".toml": "text/plain"}


def everything(visit: Visit) -> Response:
    """All runs."""
    found = runs.listed(visit.house, visit.asker)
    return visit.page(
        "runs.html",
        runs=found,
        states=runs.STATES,
        working=any(run.state in runs.WORKING for run in found),
        finished=any(run.state == "done" and not run.simulated and runs.owns(visit.asker, run) for run in found),
    )


def everything_done(visit: Visit) -> Response:
    """All that was done, as one study file."""
    return visit.file(runs.everything_done(visit.house, visit.asker).encode(), "everything.toml", "text/plain")


def one(visit: Visit) -> Response:
    """A run, in whatever state it is."""
    run = runs.find(visit.house, visit.asker, visit.part("run"))
    whole = runs.owns(visit.asker, run)
    share, saying = runs.progress(visit.house, run) if run.state in runs.WORKING else (0.0, "")
    shown = visit.asked("view") != "public" and whole
    return visit.page(
        "run.html",
        run=run,
        whole=whole,
        states=runs.STATES,
        working=run.state in runs.WORKING,
        share=share,
        saying=saying,
        steps=_steps(run),
        before=runs.done_before(visit.house, visit.asker, run) if run.state == "ready" and not run.simulated else [],
        publishes=run.simulated or run.publishes,
        private_view=shown,
        report=saved_page(run.out, public=not shown) if run.state == "done" else None,
        public_files=[str(path.relative_to(run.public)) for path in run.public_files()] if run.state == "done" else [],
        private_files=_private(run) if run.state == "done" and whole else [],
    )


def _steps(run: Run) -> list[dict[str, Any]]:
    """What the check found, step by step."""
    check = run.check
    columns = (check.get(name, []) for name in ("rows", "promises", "short", "cautions"))
    return [
        {
            "name": row[0],
            "does": row[1],
            "spends": row[2],
            "output": row[3],
            "promise": promise,
            "short": short,
            "cautions": cautions,
        }
        for row, promise, short, cautions in zip(*columns, strict=True)
    ]


def _private(run: Run) -> list[str]:
    return [str(path.relative_to(run.out / "private")) for path in run.private_files()]


def progress(visit: Visit) -> Response:
    """For the page's script: the state, and how far it is."""
    run = runs.own(visit.house, visit.asker, visit.part("run"))
    share, saying = runs.progress(visit.house, run)
    return visit.json({"state": run.state, "share": share, "saying": saying})


def start(visit: Visit) -> Response:
    """Start it."""
    run = visit.part("run")
    runs.start(visit.house, visit.asker, run)
    return visit.go(f"/runs/{run}", "started")


def again(visit: Visit) -> Response:
    """Check it once more."""
    run = visit.part("run")
    runs.check_again(visit.house, visit.asker, run)
    return visit.go(f"/runs/{run}", "again")


def resume(visit: Visit) -> Response:
    """Go on."""
    run = visit.part("run")
    runs.resume(visit.house, visit.asker, run)
    return visit.go(f"/runs/{run}", "started")


def show(visit: Visit) -> Response:
    """Show it to readers, or hide it from them."""
    run, shared = visit.part("run"), visit.form.get("shared") == "yes"
    runs.show(visit.house, visit.asker, run, shared=shared)
    return visit.go(f"/runs/{run}", "shared" if shared else "unshared")


def drop(visit: Visit) -> Response:
    """Throw a draft away."""
    runs.drop(visit.house, visit.asker, visit.part("run"))
    return visit.go("/runs", "dropped")


def study(visit: Visit) -> Response:
    """The study file."""
    run = runs.own(visit.house, visit.asker, visit.part("run"))
    return visit.file(run.study.encode(), f"study-{run.id}.toml", "text/plain")


def report(visit: Visit) -> Response:
    """The report as one file."""
    run = _done(visit)
    public = visit.asked("view") == "public" or not runs.owns(visit.asker, run)
    return visit.file(run.report(public=public).read_bytes(), f"report-{run.id}.html", "text/html")


def everything_public(visit: Visit) -> Response:
    """All that may be published, in one file."""
    run = _done(visit)
    return visit.file(
        runs.public_zip(run), f"{'simulated' if run.simulated else 'public'}-{run.id}.zip", "application/zip"
    )


def public_file(visit: Visit) -> Response:
    """One file that may be published."""
    run = _done(visit)
    return _send(visit, run.public, run.public_files())


def private_file(visit: Visit) -> Response:
    """One file that must not be published, for whoever ran the study."""
    run = _done(visit)
    if not runs.owns(visit.asker, run):
        raise NotFound("there is no such file")
    return _send(visit, run.out / "private", run.private_files())


def _done(visit: Visit) -> Run:
    run = runs.find(visit.house, visit.asker, visit.part("run"))
    if run.state != "done":
        raise NotFound("this run has nothing to take away yet")
    return run


def _send(visit: Visit, root: Path, listed: list[Path]) -> Response:
    """A file of a list; what is not on the list is not there, whatever its path."""
    wanted = visit.part("path")
    found = next((path for path in listed if str(path.relative_to(root)) == wanted), None)
    if found is None:
        raise NotFound("there is no such file")
    return visit.file(found.read_bytes(), found.name, _KINDS.get(found.suffix, "application/octet-stream"))


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    return [
        page("/runs", everything),
        page("/runs/everything.toml", everything_done, "analyst"),
        page("/runs/{run}", one),
        page("/runs/{run}/progress", progress, "analyst"),
        post("/runs/{run}/start", start, "analyst"),
        post("/runs/{run}/again", again, "analyst"),
        post("/runs/{run}/resume", resume, "analyst"),
        post("/runs/{run}/drop", drop, "analyst"),
        post("/runs/{run}/show", show, "analyst"),
        page("/runs/{run}/study.toml", study, "analyst"),
        page("/runs/{run}/report.html", report),
        page("/runs/{run}/public.zip", everything_public),
        page("/runs/{run}/public/{path:path}", public_file),
        page("/runs/{run}/private/{path:path}", private_file, "analyst"),
    ]
