"""Pages of runs: what would be spent, the progress, the results, and files to download."""

from functools import partial
from typing import Final

from starlette.responses import Response

from peerveil.study.report import saved_page
from peerveil.web.common.errors import NotFound
from peerveil.web.console import runs
from peerveil.web.console.pages.request import PageRequest, operation
from peerveil.web.console.runs import ConsoleRun

_MEDIA_TYPES: Final = {".csv": "text/csv", ".json": "application/json", ".svg": "image/svg+xml", ".toml": "text/plain"}


def overview(request: PageRequest) -> Response:
    """All runs."""
    listed = runs.listed(request.app, request.user)
    return request.page(
        "runs.html",
        runs=listed,
        states=runs.STATES,
        working=any(run.state in runs.WORKING for run in listed),
        finished=any(run.state == "done" and not run.simulated and runs.owns(request.user, run) for run in listed),
    )


def combined_study(request: PageRequest) -> Response:
    """All finished runs, as one study file."""
    return request.download(runs.combined_study(request.app, request.user), "all-runs.toml", "text/plain")


def run_page(request: PageRequest) -> Response:
    """A run, in whatever state it is."""
    run = runs.find(request.app, request.user, request.path("run"))
    owner, done, working = runs.owns(request.user, run), run.state == "done", run.state in runs.WORKING
    share, message = runs.progress(request.app, run) if working else (0.0, "")
    private_view = owner and request.query("view") != "public"
    confirm = run.state == "ready" and not run.simulated
    return request.page(
        "run.html",
        run=run,
        owner=owner,
        states=runs.STATES,
        working=working,
        share=share,
        message=message,
        steps=run.check.get("steps", []),
        earlier=runs.earlier(request.app, request.user, run) if confirm else [],
        publishes=run.simulated or run.publishes,
        private_view=private_view,
        report=saved_page(run.out, public=not private_view) if done else None,
        public_files=run.files(public=True) if done else {},
        private_files=run.files(public=False) if done and owner else {},
    )


advance = {
    name: operation(partial(runs.advance, name=name), "run", to="/runs/{run}", done=name) for name in runs.TRANSITIONS
}
"""Start a run, check it again, or resume it."""
discard = operation(runs.discard, "run", to="/runs", done="discarded")


def share(request: PageRequest) -> Response:
    """Share it with readers, or hide it from them."""
    run, shared = request.path("run"), request.field("shared") == "yes"
    runs.share(request.app, request.user, run, shared=shared)
    return request.redirect(f"/runs/{run}", "shared" if shared else "unshared")


def study(request: PageRequest) -> Response:
    """The study file."""
    run = runs.find_own(request.app, request.user, request.path("run"))
    return request.download(run.study, f"study-{run.id}.toml", "text/plain")


def report(request: PageRequest) -> Response:
    """The report as one file."""
    run = _done(request)
    public = request.query("view") == "public" or not runs.owns(request.user, run)
    return request.download(run.report(public=public).read_bytes(), f"report-{run.id}.html", "text/html")


def public_zip(request: PageRequest) -> Response:
    """Everything that may be published, in one file."""
    run = _done(request)
    name = f"{'simulated' if run.simulated else 'public'}-{run.id}.zip"
    return request.download(runs.public_zip(run), name, "application/zip")


def file(request: PageRequest, *, public: bool) -> Response:
    """A file that may be published, or, for the owner of the run, one that must not be.

    A path that is not on the list does not exist, whatever it is.
    """
    run = _done(request)
    path = run.files(public=public).get(request.path("path")) if public or runs.owns(request.user, run) else None
    if path is None:
        raise NotFound("there is no such file")
    kind = _MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    return request.download(path.read_bytes(), path.name, kind)


def _done(request: PageRequest) -> ConsoleRun:
    run = runs.find(request.app, request.user, request.path("run"))
    if run.state != "done":
        raise NotFound("this run has no files yet")
    return run
