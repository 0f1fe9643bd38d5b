"""The first page, and the pages of the five modules: explore before spending, then choose what to run."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from peerveil.core.errors import BadInput, one_of
from peerveil.study.actions import Action, Parameter, actions_of
from peerveil.web.common.errors import NotFound
from peerveil.web.console import files, runs, simulations
from peerveil.web.console.explore import MODULES
from peerveil.web.console.files import DataFile
from peerveil.web.console.pages.ledger import accounts_of
from peerveil.web.console.pages.request import PageRequest
from peerveil.web.console.studies import form_text, offered, read_settings

NOT_OFFERED: Final = ("rankings.aggregate",)
"""Actions that read randomized rankings from devices, which the Data page does not accept: use the command line."""


def home(request: PageRequest) -> Response:
    """The first page. Its reader will soon open a module: synthetic explorations are prepared meanwhile."""
    app, user = request.app, request.user
    for module in MODULES:
        simulations.ready(app, module, "")
    return request.page(
        "home.html",
        modules=MODULES,
        files=files.listed(app, user)[:5] if user.may("analyst") else [],
        runs=runs.listed(app, user, 8),
        states=runs.STATES,
        accounts=accounts_of(app),
    )


def module_page(request: PageRequest, name: str) -> Response:
    """A module: its exploration, and a form for each of its actions."""
    module = MODULES[name]
    usable = files.listed(request.app, request.user, module.kind) if request.user.may("analyst") else []
    polls = files.listed(request.app, request.user, files.POLL) if request.user.may("analyst") else []
    chosen = request.query("data")
    file = next((file for file in usable if file.id == chosen), None)
    if chosen and file is None and chosen not in [poll.id for poll in polls]:
        raise NotFound("there is no such file, or this module cannot use it")
    shown = _explored(request, name, file)
    shown |= {"name": name, "data": chosen, "synthetic": file is None or not module.from_file}
    if request.query("part") == "exploration":
        return request.page("exploration.html", **shown)
    steps = shown["exploration"].steps if shown["exploration"] else ()
    proposed = {step["action"]: step for step in steps}
    return request.page(
        "module.html",
        **shown,
        module=module,
        files=usable,
        fills={
            setting: [action for action, step in proposed.items() if setting in step]
            for step in proposed.values()
            for setting in step
        },
        forms=[
            (kind, form_fields(kind, file, proposed.get(kind.name, {}), usable), _data_of(kind, usable, polls))
            for kind in _offered(name).values()
        ],
        accounts=accounts_of(request.app),
    )


def _offered(name: str) -> dict[str, type[Action[Any]]]:
    """The actions of a page: those of its module, and those for any data of its kind."""
    general = [kind for kind in actions_of("data").values() if MODULES[name].kind in kind.kinds]
    return {kind.name: kind for kind in (*actions_of(name).values(), *general) if kind.name not in NOT_OFFERED}


def _data_of(kind: type[Action[Any]], usable: list[DataFile], polls: list[DataFile]) -> list[DataFile]:
    """The files that a form offers."""
    return [*usable, *(polls if kind.reads_polls else [])]


def _explored(request: PageRequest, name: str, file: DataFile | None) -> dict[str, Any]:
    """The exploration, or the progress of its simulation, or why it failed."""
    source = file.id if file is not None else ""
    text = simulations.ready(request.app, name, source)
    if text is None:
        return {"exploration": None, "failed": "", "progress": simulations.progress(request.app, name, source)}
    failed = simulations.parsed(text).get("failed", "")
    choices = sorted(
        (key, value) for key, value in request.http.query_params.items() if key not in ("data", "part", "done")
    )
    return {"exploration": None if failed else simulations.answer(name, text, tuple(choices)), "failed": failed}


def simulate_again(request: PageRequest, name: str) -> Response:
    """Simulate again after a failure."""
    file = request.field("data")
    simulations.discard(request.app, name, file)
    return request.redirect(f"/{name}", **({"data": file} if file else {}))


class FormField(NamedTuple):
    """A field of a form: its parameter, and what the form adds to the declaration."""

    parameter: Parameter
    value: str
    remark: str
    files: list[DataFile] | None

    @property
    def needed(self) -> bool:
        """Further data are needed here even if a file of the server could replace them: that is not offered."""
        refers = self.parameter.refers
        return self.parameter.required or (refers is not None and not refers.is_optional)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values to choose from, if there are few."""
        return ("true", "false") if self.parameter.is_flag else self.parameter.choices


def form_fields(
    kind: type[Action[Any]], file: DataFile | None, proposed: Mapping[str, Any], usable: list[DataFile]
) -> list[FormField]:
    """The fields of an action's form, filled in from the file, the exploration, or the defaults."""
    table = {} if file is None else next((file.tables[of] for of in kind.kinds if of in file.tables), {})
    known = {"scale": table.get("scale"), "classes": table.get("classes")} | dict(proposed)
    fields = []
    for parameter in offered(kind):
        value = known.get(parameter.name)
        text = form_text(parameter, value) if value is not None else parameter.text(parameter.default)
        remark = " Filled in from the file: please check." if table.get(parameter.name) is not None else ""
        fields.append(FormField(parameter, text, remark, usable if parameter.refers is not None else None))
    return fields


def prepare(request: PageRequest, name: str) -> Response:
    """Draft a run from a form, and have it checked."""
    form, actions = request.form, _offered(name)
    kind = actions[one_of(request.field("action"), "action", actions)]
    simulated = form.get("simulate") == "yes"
    if kind.kinds and not form.get("data"):
        wanted = " or ".join(kind.kinds)
        raise BadInput("data", got="nothing", want=f"a file of {wanted}: upload one on the Data page first")
    if kind.spends and not simulated and not form.get("account"):
        remedy = (
            "choose one under Account" if accounts_of(request.app) else "none is open yet: open one on the Ledger page"
        )
        raise BadInput("account", got="nothing", want=f"the account that pays ({remedy}), or a simulation")
    file = files.find(request.app, request.user, form["data"]) if kind.kinds else None
    step = {
        "action": kind.name,
        "data": "" if file is None else file.id,
        "account": request.field("account") if kind.spends and not simulated else "",
        "settings": _settings(kind, form, file),
    }
    about = "" if file is None else f" ({file.name})"
    title = form.get("title") or f"{MODULES[name].title}: {kind.title.lower()}{about}"[:120]
    run = runs.draft(request.app, request.user, title, [step], simulated=simulated)
    return request.redirect(f"/runs/{run}")


def _settings(kind: type[Action[Any]], form: Mapping[str, str], file: DataFile | None) -> dict[str, Any]:
    """The settings of a form. A share of papers becomes a number of them, so that a quarter is exactly a quarter.

    A number that the user typed takes precedence over the share, which the page may have filled in.
    """
    settings = read_settings(kind, {**form, "accepted": ""} if form.get("accept", "").strip() else form)
    papers = file.tables.get("reviews", {}).get("papers") if file is not None else None
    if papers and "accepted" in settings:
        settings["accept"] = max(1, round(settings.pop("accepted") * papers))
    return settings
