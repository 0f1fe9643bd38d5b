"""The console's pages. :data:`PAGES` declares each of them once: method, path, handler, and the role that may use it."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple

from starlette.responses import Response

from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages import data, ledger, modules, runs, services, users
from peerveil.web.console.pages.request import PageRequest


class ConsolePage(NamedTuple):
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
    ConsolePage("GET", "/", modules.home, "reader"),
    ConsolePage("GET", "/data", data.overview, "analyst"),
    ConsolePage("POST", "/data/upload", data.upload, "analyst"),
    ConsolePage("POST", "/data/path", data.add_path, "analyst"),
    ConsolePage("POST", "/data/synthetic", data.add_synthetic, "analyst"),
    ConsolePage("GET", "/data/{file}", data.file_page, "analyst"),
    ConsolePage("POST", "/data/{file}/columns", data.map_columns, "analyst"),
    ConsolePage("POST", "/data/{file}/remove", data.remove, "analyst"),
    *(ConsolePage("GET", f"/{name}", partial(modules.module_page, name=name), "reader") for name in MODULES),
    *(ConsolePage("POST", f"/{name}/prepare", partial(modules.prepare, name=name), "analyst") for name in MODULES),
    *(
        ConsolePage("POST", f"/{name}/simulate", partial(modules.simulate_again, name=name), "analyst")
        for name in MODULES
    ),
    ConsolePage("GET", "/runs", runs.overview, "reader"),
    ConsolePage("GET", "/runs/all.toml", runs.combined_study, "analyst"),
    ConsolePage("GET", "/runs/{run}", runs.run_page, "reader"),
    *(ConsolePage("POST", f"/runs/{{run}}/{name}", handler, "analyst") for name, handler in runs.advance.items()),
    ConsolePage("POST", "/runs/{run}/discard", runs.discard, "analyst"),
    ConsolePage("POST", "/runs/{run}/share", runs.share, "analyst"),
    ConsolePage("GET", "/runs/{run}/study.toml", runs.study, "analyst"),
    ConsolePage("GET", "/runs/{run}/report.html", runs.report, "reader"),
    ConsolePage("GET", "/runs/{run}/public.zip", runs.public_zip, "reader"),
    ConsolePage("GET", "/runs/{run}/public/{path:path}", partial(runs.file, public=True), "reader"),
    ConsolePage("GET", "/runs/{run}/private/{path:path}", partial(runs.file, public=False), "analyst"),
    ConsolePage("GET", "/ledger", ledger.overview, "reader"),
    ConsolePage("POST", "/ledger/open", ledger.open_account, "operator"),
    ConsolePage("GET", "/ledger/verify", ledger.verify, "reader"),
    ConsolePage("GET", "/ledger/export.csv", partial(ledger.export, kind="csv"), "reader"),
    ConsolePage("GET", "/ledger/export.json", partial(ledger.export, kind="json"), "reader"),
    ConsolePage("GET", "/ledger/account", ledger.account_page, "reader"),
    ConsolePage("GET", "/sign-in", users.sign_in_page, None),
    ConsolePage("POST", "/sign-in", users.sign_in, None),
    ConsolePage("POST", "/sign-out", users.sign_out, None),
    ConsolePage("GET", "/join/{token}", users.invitation, None),
    ConsolePage("POST", "/join/{token}", users.join, None),
    ConsolePage("GET", "/users", users.overview, "operator"),
    ConsolePage("POST", "/users/register", users.register, "operator"),
    ConsolePage("POST", "/users/invite", users.invite, "operator"),
    ConsolePage("POST", "/users/withdraw", users.withdraw, "operator"),
    ConsolePage("POST", "/users/{user}", users.change, "operator"),
    ConsolePage("GET", "/me", users.profile, "reader"),
    ConsolePage("POST", "/me/password", users.change_password, "reader"),
    ConsolePage("GET", "/services", services.overview, "operator"),
    ConsolePage("GET", "/services/gateway", services.gateway_page, "operator"),
    ConsolePage("POST", "/services/gateway/clock", services.confirm_clock, "operator"),
    ConsolePage("GET", "/services/collect", _campaigns("overview"), "operator"),
    # no campaign can have this address
    ConsolePage("GET", "/services/new-campaign", _campaigns("new_page"), "operator"),
    ConsolePage("POST", "/services/new-campaign", _campaigns("create"), "operator"),
    ConsolePage("GET", _CAMPAIGN, _campaigns("campaign_page"), "operator"),
    *(
        ConsolePage("POST", f"{_CAMPAIGN}/{name}", _campaigns(name), "operator")
        for name in ("invite", "close", "infer", "export", "truth")
    ),
    ConsolePage("POST", f"{_CAMPAIGN}/estimate", _campaigns("infer", so_far=True), "operator"),
    ConsolePage("GET", f"{_CAMPAIGN}/results.json", _campaigns("results"), "operator"),
    ConsolePage("GET", f"{_CAMPAIGN}/labels.csv", _campaigns("labels"), "operator"),
)
