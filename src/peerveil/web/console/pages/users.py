"""Pages of users: sign-in, invitations, roles, and the activity log."""

from starlette.responses import Response

from peerveil.web.common.errors import Forbidden
from peerveil.web.console import users
from peerveil.web.console.pages.request import PageRequest, operation


def _target(path: str) -> str:
    """The page after sign-in: a path of this site, nothing else."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def sign_in_page(request: PageRequest) -> Response:
    """The sign-in page."""
    if request.app.single_user() or request.user.id:
        return request.redirect("/")
    return request.page("sign_in.html", next=_target(request.query("next", "/")), problem="")


def sign_in(request: PageRequest) -> Response:
    """Sign in."""
    address = request.http.client.host if request.http.client else ""
    target = _target(request.field("next"))
    try:
        request.new_token = users.sign_in(request.app, request.field("name"), request.field("password"), address)
    except users.WrongPassword as error:
        return request.page("sign_in.html", 403, next=target, problem=str(error))
    return request.redirect(target)


def sign_out(request: PageRequest) -> Response:
    """Sign out."""
    if request.user.id and not request.user.is_local:
        users.sign_out(request.app, request.user)
    request.new_token = ""
    return request.redirect("/sign-in", "signed-out")


def invitation(request: PageRequest) -> Response:
    """An invitation."""
    token = request.path("token")
    with request.app.database.reading() as connection:
        role = users.invitation(connection, token).role
    return request.page("join.html", token=token, role=role, may=users.ROLES[role], shortest=users.SHORTEST_PASSWORD)


def join(request: PageRequest) -> Response:
    """Accept an invitation."""
    token, name, password = request.path("token"), request.field("name"), request.field("password")
    request.new_token = users.accept(request.app, token, name, password)
    return request.redirect("/")


def overview(request: PageRequest, link: str = "") -> Response:
    """Users, invitations, the activity log; and the link of an invitation that was just made."""
    registered, invited = users.listed(request.app)
    return request.page(
        "users.html",
        users=registered,
        names={user.id: user.name for user in registered},
        invited=invited,
        roles=users.ROLES,
        activity=request.app.activity(),
        link=link,
        local=request.app.local,
        shortest=users.SHORTEST_PASSWORD,
    )


def register(request: PageRequest) -> Response:
    """The single user of a machine becomes its first operator."""
    if not request.user.is_local:
        raise Forbidden("somebody is registered already")
    request.new_token = users.register_first(request.app, request.field("name"), request.field("password"))
    return request.redirect("/users", "registered")


def invite(request: PageRequest) -> Response:
    """A link for a new user, shown once."""
    if request.user.is_local:
        raise Forbidden("register yourself first: otherwise whoever joins would lock you out")
    token = users.invite(request.app, request.user, request.field("role"))
    scheme = "https" if request.app.settings.https else request.http.scope["scheme"]
    return overview(request, f"{scheme}://{request.http.headers.get('host', '')}/join/{token}")


def profile(request: PageRequest) -> Response:
    """One's own page."""
    may = users.ROLES[request.user.role]
    return request.page("profile.html", may=may, shortest=users.SHORTEST_PASSWORD)


withdraw = operation(users.withdraw, "invitation", to="/users", done="removed")
change = operation(users.change, "user", "role", "state", to="/users", done="changed")
change_password = operation(users.change_password, "old", "new", to="/me", done="password")
