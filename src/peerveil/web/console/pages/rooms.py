"""The five rooms: explore before spending, then say what to run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.study.actions import actions_of
from peerveil.web.common.errors import NotFound
from peerveil.web.console import files, runs, simulations
from peerveil.web.console.drafting import offered, read_settings, shown
from peerveil.web.console.pages.home import ROOMS
from peerveil.web.console.pages.ledger import accounts_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.study.actions import Action
    from peerveil.web.console.files import File
    from peerveil.web.console.pages.visit import Visit

NOT_OFFERED: Final = ("rankings.aggregate",)
"""Actions that read reports of devices, which the Data page does not take: they are left to the command line."""


def room(visit: Visit, name: str) -> Response:
    """A room."""
    kind = simulations.KINDS[name]
    mine = files.listed(visit.house, visit.asker, kind) if visit.asker.may("analyst") else []
    chosen = visit.asked("data")
    file = next((one for one in mine if one.id == chosen), None)
    if chosen and file is None:
        raise NotFound("there is no such file, or it cannot be used in this room")
    explored = _explored(visit, name, file)
    invented = file is None or name not in simulations.FROM_FILES
    if visit.asked("part") == "exploration":
        return visit.page("exploration.html", **explored, room=name, data=chosen, invented=invented)
    own = _offered(name)
    proposed = {step["action"]: step for step in (explored["exploration"].steps if explored["exploration"] else ())}
    return visit.page(
        "room.html",
        room=name,
        title=ROOMS[name][0],
        about=ROOMS[name][1],
        kind=kind,
        files=mine,
        data=chosen,
        file=file,
        from_files=name in simulations.FROM_FILES,
        invented=invented,
        fills={
            name: [action for action, step in proposed.items() if name in step]
            for step in proposed.values()
            for name in step
        },
        forms=[_form(action, file, proposed.get(action.name, {}), mine) for action in own.values()],
        accounts=accounts_of(visit.house),
        **explored,
    )


def _offered(name: str) -> dict[str, type[Action[Any]]]:
    """The actions of a page: those of its module, and what can be done with any data of its kind."""
    described = [kind for kind in actions_of("data").values() if simulations.KINDS[name] in kind.kinds]
    return {kind.name: kind for kind in (*actions_of(name).values(), *described) if kind.name not in NOT_OFFERED}


def _explored(visit: Visit, name: str, file: File | None) -> dict[str, Any]:
    """The exploration, or how far its simulation is, or why there is none."""
    source = file.id if file is not None else ""
    text = simulations.ready(visit.house, name, source)
    found: dict[str, Any] = {"exploration": None, "failed": "", "progress": 0.0}
    if text is None:
        return {**found, "progress": simulations.progress(visit.house, name, source)}
    failed = simulations.parsed(text).get("failed")
    if failed:
        return {**found, "failed": failed}
    controls = {key: value for key, value in visit.request.query_params.items() if key not in ("data", "part", "done")}
    return {**found, "exploration": simulations.answer(name, text, tuple(sorted(controls.items())))}


def again(visit: Visit, name: str) -> Response:
    """Simulate once more after a failure."""
    file = visit.form.get("data", "")
    simulations.again(visit.house, name, file)
    return visit.go(f"/{name}", **({"data": file} if file else {}))


def _form(kind: type[Action[Any]], file: File | None, proposed: Any, mine: list[File]) -> dict[str, Any]:
    """What the form of an action asks."""
    table = {} if file is None else next((file.tables[of] for of in kind.kinds if of in file.tables), {})
    known = {"scale": table.get("scale"), "classes": table.get("classes")} | dict(proposed)
    fields = []
    for parameter in offered(kind):
        seen = known.get(parameter.name)
        value = shown(parameter, seen) if seen is not None else parameter.text(parameter.default)
        remark = " Filled in with what the file has: please check." if table.get(parameter.name) is not None else ""
        fields.append(
            {
                "name": parameter.name,
                "label": parameter.label,
                "about": f"{parameter.setting.help}{remark}",
                "value": value,
                "want": parameter.want,
                # further data are needed here even if a file of the server could replace them: it is not offered
                "needed": parameter.required or parameter.refers is not None,
                "usual": parameter.setting.common or parameter.required,
                "choices": ("true", "false") if parameter.is_flag else parameter.choices,
                "flag": parameter.is_flag,
                "many": parameter.many,
                "files": mine if parameter.refers is not None else None,
            }
        )
    return {"kind": kind, "fields": fields}


def _read(kind: type[Action[Any]], form: dict[str, str], file: File | None) -> dict[str, Any]:
    """The settings of a form. A share of papers becomes a number of them: a chair who asks for a quarter expects a quarter.

    A number that somebody typed takes precedence over the share, which may be what the page filled in.
    """
    settings = read_settings(kind, {**form, "accepted": ""} if form.get("accept", "").strip() else form)
    papers = file.tables.get("reviews", {}).get("papers") if file is not None else None
    if papers and "accepted" in settings:
        settings["accept"] = max(1, round(settings.pop("accepted") * papers))
    return settings


def prepare(visit: Visit, name: str) -> Response:
    """Make a draft of what was chosen, and have it checked."""
    form = dict(visit.form)
    kind = _offered(name).get(form.pop("action", ""))
    if kind is None:
        raise BadInput("action", got=visit.form.get("action", ""), want=f"one of {', '.join(_offered(name))}")
    simulated = form.get("simulate") == "yes"
    if kind.kinds and not form.get("data"):
        wanted = " or ".join(kind.kinds)
        raise BadInput("data", got="nothing", want=f"a file of {wanted}: upload one on the Data page first")
    if kind.spends and not simulated and not form.get("account"):
        some = (
            "choose one under Account" if accounts_of(visit.house) else "none is open yet: open one on the page Ledger"
        )
        raise BadInput("account", got="nothing", want=f"the account that pays ({some}), or a simulation")
    file = files.find(visit.house, visit.asker, form["data"]) if kind.kinds else None
    step: dict[str, Any] = {
        "action": kind.name,
        "data": "" if file is None else file.id,
        "account": form.get("account", "") if kind.spends and not simulated else "",
        "settings": _read(kind, form, file),
    }
    title = form.get("title", "")
    if not title:
        about = "" if file is None else f" ({file.name})"
        title = f"{ROOMS[name][0]}: {kind.title.lower()}{about}"[:120]
    return visit.go(f"/runs/{runs.draft(visit.house, visit.asker, title, [step], simulated=simulated)}")


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    found = []
    for name in ROOMS:
        found += [
            page(f"/{name}", partial(room, name=name)),
            post(f"/{name}/prepare", partial(prepare, name=name), "analyst"),
            post(f"/{name}/again", partial(again, name=name), "analyst"),
        ]
    return found
