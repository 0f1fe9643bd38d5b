"""The five rooms: explore before spending, then say what to run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from peerveil.console import files, runs, simulations
from peerveil.console.drafting import offered, read_settings, step_kind
from peerveil.console.web.home import ROOMS
from peerveil.console.web.ledger import accounts_of
from peerveil.errors import BadInput
from peerveil.services.errors import NotFound
from peerveil.study.check import all_steps
from peerveil.study.step import REQUIRED, OneOf

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.console.files import File
    from peerveil.console.web.visit import Visit
    from peerveil.study.step import Option, Step

TITLES: Final = {
    ("release", "means"): "Publish it",
    ("release", "plan"): "Write a plan, from public data alone",
    ("timing", "audit"): "Audit a log",
    ("timing", "post"): "Post a log with delays",
    ("calibration", "decide"): "Decide a conference",
    ("rankings", "test"): "Test a table of rankings",
    ("truth", "infer"): "Infer from answers that were randomised already",
    ("truth", "randomize"): "Randomise answers, then infer",
    ("truth", "label"): "Infer from answers as they were given, for your eyes only",
    ("truth", "compare"): "See what privacy would cost on answers you hold",
}
"""What can be done, as headings."""
USUAL: Final = {
    "epsilon",
    "weight",
    "scale",
    "gap",
    "window",
    "history",
    "adversary_error",
    "accepted",
    "level",
    "classes",
    "randomized",
}
"""Settings that are shown at once; all others are folded away."""


WORDED: Final = {
    "epsilon": ("Epsilon", "how much may be given away; smaller is safer"),
    "weight": (
        "What is measured",
        "miscalibration is strictness: points above or below what others gave to the same papers",
    ),
    "scale": ("Lowest and highest score that the form allows", "such as 1, 10"),
    "history": ("A past conference", "from whose reviews strictness is learned; the same people under the same names"),
    "adversary_error": ("How often a guess of the writer shall be wrong", "from 0 to 1; 0.5 is half of the time"),
    "accept": ("How many papers to accept", "exactly; leave it empty to give a share instead"),
    "accepted": ("Share of papers to accept", "0.25 accepts every fourth paper, rounded to whole papers"),
    "level": ("Level", "how often rankings made by chance may be taken for a signal; 0.05 is 5 times in 100"),
    "classes": ("Possible answers", "all of them, separated by commas"),
    "infer epsilon": ("Epsilon of the devices", "with which each answer was randomized, as the devices were set"),
    "randomized": (
        "Was each answer randomized on the person's own device before it was collected?",
        "if not, or if you do not know: use one of the forms below",
    ),
    "unit": ("What epsilon is for", "one answer, or everything that one person sends"),
    "window": ("One sitting", "comments of one person this close were written together, such as 5m"),
}
"""Settings in words that need no explanation; all others are called as in a study file."""


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
    own_steps = [step for (of, _), step in all_steps().items() if of == name]
    proposed = {step["do"]: step for step in (explored["exploration"].steps if explored["exploration"] else ())}
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
            name: [do for do, step in proposed.items() if name in step] for step in proposed.values() for name in step
        },
        forms=[_form(step, file, proposed.get(step.do, {}), mine) for step in own_steps],
        accounts=accounts_of(visit.house),
        **explored,
    )


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


def _form(kind: type[Step], file: File | None, proposed: Any, mine: list[File]) -> dict[str, Any]:
    """What the form of a step asks."""
    table = {} if file is None else file.tables.get(str(kind.wants), {})
    known = {"scale": table.get("scale"), "classes": table.get("classes")} | dict(proposed)
    fields = []
    for option in kind.options:
        default = known.get(option.name)
        value = offered(option, default if default is not None else option.default)
        fields.append(
            {
                "name": option.name,
                "label": _worded(kind, option)[0],
                "about": _about(kind, option, default is not None and option.name in table),
                "value": value,
                "needed": option.default is REQUIRED,
                "usual": option.name in USUAL or option.default is REQUIRED,
                "choices": option.read.names if isinstance(option.read, OneOf) else (),
                "files": mine if option.name in kind.also else None,
            }
        )
    return {
        "do": kind.do,
        "room": kind.room,
        "title": TITLES[kind.room, kind.do],
        "about": kind.about,
        "output": kind.output,
        "spends": kind.spends,
        "recorded": (kind.room, kind.do) in (("timing", "post"), ("calibration", "decide")),
        "wants": kind.wants,
        "fields": fields,
    }


def _worded(kind: type[Step], option: Option) -> tuple[str, str]:
    own = WORDED.get(f"{kind.do} {option.name}") or WORDED.get(option.name)
    return own or (option.name.replace("_", " "), option.about)


def _about(kind: type[Step], option: Option, seen: bool) -> str:
    said = _worded(kind, option)[1]
    return f"{said}; filled in with what the file has: please check" if seen else said


def _exactly(settings: dict[str, Any], file: File) -> dict[str, Any]:
    """A share of papers as a number of them: what somebody who asks for a quarter expects."""
    papers = file.tables.get("reviews", {}).get("papers")
    if "accept" in settings or "accepted" not in settings or not papers:
        return {name: value for name, value in settings.items() if name != "accepted" or "accept" not in settings}
    count = max(1, round(float(settings["accepted"]) * papers))
    return {**{name: value for name, value in settings.items() if name != "accepted"}, "accept": count}


def prepare(visit: Visit, name: str) -> Response:
    """Make a draft of what was chosen, and have it checked."""
    form = dict(visit.form)
    kind = step_kind(name, form.pop("do", ""))
    simulated = form.get("simulate") == "yes"
    if kind.wants and not form.get("data"):
        raise BadInput("data", got="nothing", want=f"a file of {kind.wants}: bring one on the Data page first")
    if kind.spends and not simulated and not form.get("account"):
        some = (
            "choose one under Account" if accounts_of(visit.house) else "none is open yet: open one on the page Ledger"
        )
        raise BadInput("account", got="nothing", want=f"the account that pays ({some}), or a simulation")
    step: dict[str, Any] = {
        "room": name,
        "do": kind.do,
        "data": form.get("data", "") if kind.wants else "",
        "account": form.get("account", "") if kind.spends and not simulated else "",
        "settings": read_settings(kind, form),
    }
    file = files.find(visit.house, visit.asker, step["data"]) if step["data"] else None
    if file is not None and kind.room == "calibration":
        step["settings"] = _exactly(step["settings"], file)
    title = form.get("title", "")
    if not title:
        about = "" if file is None else f" ({file.name})"
        title = f"{ROOMS[name][0]}: {TITLES[name, kind.do].lower()}{about}"[:120]
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
