"""Pages of the ledger: accounts, history, what remains; in words and as a picture."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import read_epsilon
from peerveil.report import COLORS, Svg, new_axes, safe_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from starlette.responses import Response

    from peerveil.ledger import Ledger
    from peerveil.web.console.house import House
    from peerveil.web.console.pages.visit import Visit


_LARGE: Final = 10  # a whole budget above it needs a second thought


def accounts_of(house: House) -> list[dict[str, Any]]:
    """Accounts with what they have, spent and have left."""
    with house.ledger() as book:
        return [
            {
                "name": account.name,
                "epsilon": account.epsilon,
                "spent": account.spent,
                "remaining": account.remaining,
                "head": account.head,
            }
            for account in book.accounts()
        ]


def overview(visit: Visit) -> Response:
    """All accounts."""
    accounts = accounts_of(visit.house)
    picture = _picture(tuple((one["name"], one["spent"], one["remaining"]) for one in accounts)) if accounts else ""
    return visit.page("ledger.html", accounts=accounts, picture=picture)


def one(visit: Visit) -> Response:
    """One account with its history."""
    name = visit.asked("name")
    with visit.house.ledger() as book:
        account = _found(book, name)
        entries = account.entries()
        rows = [
            {
                "time": f"{entry.when:%Y-%m-%d %H:%M} UTC",
                "purpose": entry.purpose,
                "debit": entry.debit,
                "debited": entry.debited,
                "words": entry.words,
            }
            for entry in entries
        ]
        shown = {
            "name": account.name,
            "epsilon": account.epsilon,
            "spent": account.spent,
            "remaining": account.remaining,
            "data_sets": len({entry.fingerprint for entry in entries}),
        }
        steps = tuple((row["time"], row["debit"]) for row in rows if row["debited"])
    picture = _history(steps, shown["epsilon"]) if steps else ""
    return visit.page("account.html", account=shown, entries=rows[::-1], picture=picture)


def _found(book: Ledger, name: str) -> Any:
    from peerveil.web.common.errors import NotFound

    found = next((account for account in book.accounts() if account.name == name), None)
    if found is None:
        raise NotFound("there is no such account")
    return found


def open_account(visit: Visit) -> Response:
    """Open an account."""
    name, epsilon = visit.form.get("name", "").strip(), visit.form.get("epsilon", "").strip()
    if not name:
        raise BadInput("name", got="nothing", want="a name, such as the conference and the year")
    with visit.house.ledger() as book:
        if any(account.name == name for account in book.accounts()):
            raise BadInput(
                "name", got=name, want="a new name: this account is open already, and a budget never changes"
            )
        if read_epsilon(epsilon) > _LARGE and visit.form.get("sure") != "yes":
            want = f"at most {_LARGE}, or a tick at “I am sure”: beyond 5 hardly anybody is protected, and an account is for good"
            raise BadInput("epsilon", got=epsilon, want=want)
        book.account(name, epsilon=epsilon)
    with visit.house.database.writing("take") as connection:
        visit.house.note(connection, visit.asker.id, "opened an account", name)
    target = visit.form.get("next", "")
    return visit.go(target if target in ("/release", "/timing", "/rankings", "/truth") else "/ledger", "opened")


def export(visit: Visit, kind: str) -> Response:
    """The whole ledger, for safe keeping and for others to verify."""
    with visit.house.ledger() as book:
        text = book.to_csv() if kind == "csv" else book.to_json(indent=2)
    return visit.file(text.encode(), f"ledger.{kind}", "text/csv" if kind == "csv" else "application/json")


def verify(visit: Visit) -> Response:
    """Check every entry."""
    with visit.house.ledger() as book:
        found = book.verify()
    return visit.page("verified.html", found=found, text=str(found))


@lru_cache(maxsize=64)
def _picture(accounts: tuple[tuple[str, float, float], ...]) -> Svg:
    """Bars: what was spent, what is left."""
    said = "; ".join(f"{name}: {spent:g} spent, {left:g} left" for name, spent, left in accounts)
    return safe_svg(lambda: _draw_accounts(accounts), f"Budgets. {said}.")


def _draw_accounts(accounts: tuple[tuple[str, float, float], ...]) -> Axes:
    (ax,) = new_axes(7, 0.8 + 0.5 * len(accounts))
    names = [name if len(name) <= 24 else f"{name[:23]}…" for name, _, _ in accounts]
    whole = [max(used + rest, 1e-12) for _, used, rest in accounts]
    spent = [100 * one[1] / all_of for one, all_of in zip(accounts, whole, strict=True)]
    left = [100 - share for share in spent]
    places = list(range(len(accounts)))
    ax.barh(places, spent, color=COLORS["leak"], label="spent")
    ax.barh(places, left, left=spent, color=COLORS["private"], label="left")
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlabel("of 100 parts of each budget")
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
    return ax


@lru_cache(maxsize=64)
def _history(steps: tuple[tuple[str, float], ...], budget: float) -> Svg:
    """What was spent, debit by debit, against the whole budget."""
    heights = [0.0, *accumulate(debit for _, debit in steps)]
    alt = f"What was spent after each of {len(steps)} debits: {heights[-1]:g} of {budget:g}."
    return safe_svg(lambda: _draw_history(heights, budget), alt)


def _draw_history(heights: list[float], budget: float) -> Axes:
    from matplotlib.ticker import MaxNLocator

    (ax,) = new_axes(7, 2.6)
    places = [*range(len(heights)), len(heights) - 0.5]  # half a step more, to show where it stands now
    ax.step(places, [*heights, heights[-1]], where="post", color=COLORS["leak"], label="spent")
    ax.axhline(budget, color=COLORS["truth"], linestyle="--", label="whole budget")
    ax.set(xlabel="debits, one after another", ylabel="epsilon", ylim=(0, budget * 1.1))
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def routes(page: Any, post: Any) -> list[Any]:
    """The addresses of these pages."""
    return [
        page("/ledger", overview),
        post("/ledger/open", open_account, "operator"),
        page("/ledger/verify", verify),
        *(page(f"/ledger/export.{kind}", partial(export, kind=kind)) for kind in ("csv", "json")),
        page("/ledger/account", one),
    ]
