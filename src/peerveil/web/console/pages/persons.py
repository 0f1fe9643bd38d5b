"""Pages of people: signing in, invitations, roles, and the trail of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peerveil.web.common.errors import Forbidden
from peerveil.web.console import people

if TYPE_CHECKING:
    from starlette.responses import Response

    from peerveil.web.console.pages.visit import Visit


def _next(path: str) -> str:
    """Where to go after signing in: a path of this site, nothing else."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def door(visit: Visit) -> Response:
    """The page to sign in at."""
    if visit.console.one_person() or visit.asker.id:
        return visit.go("/")
    return visit.page("sign_in.html", next=_next(visit.asked("next", "/")), problem="")


def sign_in(visit: Visit) -> Response:
    """Sign in."""
    address = visit.request.client.host if visit.request.client else ""
    target = _next(visit.form.get("next", "/"))
    try:
        token = people.sign_in(visit.house, visit.form.get("name", ""), visit.form.get("password", ""), address)
    except people.WrongPassword as error:
        return visit.page("sign_in.html", 403, next=target, problem=str(error))
    visit.fresh = token
    return visit.go(target)


def sign_out(visit: Visit) -> Response:
    """Sign out."""
    if visit.asker.id and not visit.asker.alone:
        people.sign_out(visit.house, visit.asker)
    visit.fresh = ""
    return visit.go("/sign-in", "signed-out")


def welcome(visit: Visit) -> Response:
    """An invitation is opened."""
    with visit.house.database.reading() as connection:
        row = people.invitation(connection, visit.part("token"))
    return visit.page(
        "join.html",
        token=visit.part("token"),
        role=row.role,
        words=people.ROLES_IN_WORDS,
        shortest=people.SHORTEST_PASSWORD,
    )


def join(visit: Visit) -> Response:
    """An invitation is accepted."""
    form = visit.form
    visit.fresh = people.accept(visit.house, visit.part("token"), form.get("name", ""), form.get("password", ""))
    return visit.go("/")


def everybody(visit: Visit) -> Response:
    """People, invitations, the trail."""
    return _page(visit)


def _page(visit: Visit, link: str = "") -> Response:
    listed, invited = people.everybody(visit.house)
    names = {person.id: person.name for person in listed}
    lines = [{"at": line.at, "who": names.get(line.who, line.who) or "nobody", "what": line.what, "about": line.about}
             for line in visit.house.trail()]  # fmt: skip
    return visit.page(
        "people.html",
        people=listed,
        invited=invited,
        roles=people.ROLES,
        words=people.ROLES_IN_WORDS,
        lines=lines,
        link=link,
        only_here=visit.console.local,
        shortest=people.SHORTEST_PASSWORD,
    )


def found(visit: Visit) -> Response:
    """The one person of a machine becomes its first operator."""
    if not visit.asker.alone:
        raise Forbidden("somebody is registered already")
    visit.fresh = people.found(visit.house, visit.form.get("name", ""), visit.form.get("password", ""))
    return visit.go("/people", "registered")


def invite(visit: Visit) -> Response:
    """A link for somebody new, shown once."""
    if visit.asker.alone:
        raise Forbidden("register yourself first: otherwise whoever joins would shut you out")
    token = people.invite(visit.house, visit.asker, visit.form.get("role", ""))
    scheme = "https" if visit.console.settings.https else visit.request.scope["scheme"]
    return _page(visit, f"{scheme}://{visit.request.headers.get('host', '')}/join/{token}")


def withdraw(visit: Visit) -> Response:
    """Withdraw an invitation."""
    people.withdraw(visit.house, visit.asker, visit.form.get("invitation", ""))
    return visit.go("/people", "removed")


def change(visit: Visit) -> Response:
    """Another role, or out, or in again."""
    form = visit.form
    people.change(visit.house, visit.asker, visit.part("person"), role=form.get("role"), state=form.get("state"))
    return visit.go("/people", "changed")


def me(visit: Visit) -> Response:
    """One's own page."""
    return visit.page("me.html", words=people.ROLES_IN_WORDS, shortest=people.SHORTEST_PASSWORD)


def password(visit: Visit) -> Response:
    """Another password."""
    people.new_password(visit.house, visit.asker, visit.form.get("old", ""), visit.form.get("new", ""))
    return visit.go("/me", "password")


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    return [
        page("/sign-in", door, None),
        post("/sign-in", sign_in, None),
        post("/sign-out", sign_out, None),
        page("/join/{token}", welcome, None),
        post("/join/{token}", join, None),
        page("/people", everybody, "operator"),
        post("/people/found", found, "operator"),
        post("/people/invite", invite, "operator"),
        post("/people/withdraw", withdraw, "operator"),
        post("/people/{person}", change, "operator"),
        page("/me", me),
        post("/me/password", password),
    ]
