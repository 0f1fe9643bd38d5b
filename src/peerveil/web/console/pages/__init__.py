"""The console's pages. :data:`PAGES` declares each of them once: method, path, handler, and the role that may use it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages import data, ledger, modules, runs, services, users
from peerveil.web.console.runs import TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from peerveil.web.console.pages.request import PageRequest


class Page(NamedTuple):
    """A page; ``role`` None admits everybody."""

    method: str
    path: str
    handler: Callable[[PageRequest], Response]
    role: str | None


def _campaigns(name: str, **options: bool) -> Callable[[PageRequest], Response]:
    """A handler of the campaign pages, which are imported on first use."""
    return lambda request: getattr(import_module("peerveil.web.console.pages.campaigns"), name)(request, **options)


_CAMPAIGN: Final = "/services/collect/{campaign}"
PAGES: Final = (
    Page("GET", "/", modules.home, "reader"),
    Page("GET", "/data", data.overview, "analyst"),
    Page("POST", "/data/upload", data.upload, "analyst"),
    Page("POST", "/data/path", data.add_path, "analyst"),
    Page("POST", "/data/synthetic", data.add_synthetic, "analyst"),
    Page("GET", "/data/{file}", data.file_page, "analyst"),
    Page("POST", "/data/{file}/columns", data.map_columns, "analyst"),
    Page("POST", "/data/{file}/remove", data.remove, "analyst"),
    *(Page("GET", f"/{name}", partial(modules.module_page, name=name), "reader") for name in MODULES),
    *(Page("POST", f"/{name}/prepare", partial(modules.prepare, name=name), "analyst") for name in MODULES),
    *(Page("POST", f"/{name}/simulate", partial(modules.simulate_again, name=name), "analyst") for name in MODULES),
    Page("GET", "/runs", runs.overview, "reader"),
    Page("GET", "/runs/all.toml", runs.combined_study, "analyst"),
    Page("GET", "/runs/{run}", runs.run_page, "reader"),
    Page("GET", "/runs/{run}/progress", runs.progress, "analyst"),
    *(Page("POST", f"/runs/{{run}}/{name}", partial(runs.advance, transition=name), "analyst") for name in TRANSITIONS),
    Page("POST", "/runs/{run}/discard", runs.discard, "analyst"),
    Page("POST", "/runs/{run}/share", runs.share, "analyst"),
    Page("GET", "/runs/{run}/study.toml", runs.study, "analyst"),
    Page("GET", "/runs/{run}/report.html", runs.report, "reader"),
    Page("GET", "/runs/{run}/public.zip", runs.public_zip, "reader"),
    Page("GET", "/runs/{run}/public/{path:path}", runs.public_file, "reader"),
    Page("GET", "/runs/{run}/private/{path:path}", runs.private_file, "analyst"),
    Page("GET", "/ledger", ledger.overview, "reader"),
    Page("POST", "/ledger/open", ledger.open_account, "operator"),
    Page("GET", "/ledger/verify", ledger.verify, "reader"),
    Page("GET", "/ledger/export.csv", partial(ledger.export, kind="csv"), "reader"),
    Page("GET", "/ledger/export.json", partial(ledger.export, kind="json"), "reader"),
    Page("GET", "/ledger/account", ledger.account_page, "reader"),
    Page("GET", "/sign-in", users.sign_in_page, None),
    Page("POST", "/sign-in", users.sign_in, None),
    Page("POST", "/sign-out", users.sign_out, None),
    Page("GET", "/join/{token}", users.invitation, None),
    Page("POST", "/join/{token}", users.join, None),
    Page("GET", "/users", users.overview, "operator"),
    Page("POST", "/users/register", users.register, "operator"),
    Page("POST", "/users/invite", users.invite, "operator"),
    Page("POST", "/users/withdraw", users.withdraw, "operator"),
    Page("POST", "/users/{user}", users.change, "operator"),
    Page("GET", "/me", users.profile, "reader"),
    Page("POST", "/me/password", users.change_password, "reader"),
    Page("GET", "/services", services.overview, "operator"),
    Page("GET", "/services/gateway", services.gateway_page, "operator"),
    Page("POST", "/services/gateway/clock", services.confirm_clock, "operator"),
    Page("GET", "/services/collect", _campaigns("overview"), "operator"),
    Page("GET", "/services/new-campaign", _campaigns("new_page"), "operator"),  # no campaign can have this address
    Page("POST", "/services/new-campaign", _campaigns("create"), "operator"),
    Page("GET", _CAMPAIGN, _campaigns("campaign_page"), "operator"),
    *(
        Page("POST", f"{_CAMPAIGN}/{name}", _campaigns(name), "operator")
        for name in ("invite", "close", "infer", "export", "truth")
    ),
    Page("POST", f"{_CAMPAIGN}/estimate", _campaigns("infer", so_far=True), "operator"),
    Page("GET", f"{_CAMPAIGN}/results.json", _campaigns("results"), "operator"),
    Page("GET", f"{_CAMPAIGN}/labels.csv", _campaigns("labels"), "operator"),
)
