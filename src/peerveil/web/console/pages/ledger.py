"""Pages of the ledger: accounts, history, what remains; in words and as charts."""

from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from starlette.responses import Response

from peerveil.core.errors import BadInput
from peerveil.core.guarantee import read_epsilon
from peerveil.report import COLORS, Svg, new_axes, safe_svg
from peerveil.web.common.errors import NotFound
from peerveil.web.console.app import ConsoleApp
from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages.request import PageRequest

_LARGE: Final = 10  # a budget above it needs a confirmation
_EXPORTS: Final = {"csv": "text/csv", "json": "application/json"}


def accounts_of(app: ConsoleApp) -> list[dict[str, Any]]:
    """All accounts with their budget, what was spent and what is left."""
    with app.ledger() as ledger:
        return [_amounts(account) for account in ledger.accounts()]


def _amounts(account: Any) -> dict[str, Any]:
    return {name: getattr(account, name) for name in ("name", "epsilon", "spent", "remaining")}


def overview(request: PageRequest) -> Response:
    """All accounts."""
    accounts = accounts_of(request.app)
    shares = tuple((account["name"], account["spent"], account["remaining"]) for account in accounts)
    return request.page("ledger.html", accounts=accounts, chart=_budgets_chart(shares) if accounts else "")


def account_page(request: PageRequest) -> Response:
    """An account with its history."""
    with request.app.ledger() as ledger:
        account = next((account for account in ledger.accounts() if account.name == request.query("name")), None)
        if account is None:
            raise NotFound("there is no such account")
        entries, amounts = account.entries(), _amounts(account)
    debits = tuple(entry.debit for entry in entries if entry.debited)
    return request.page(
        "account.html",
        account=amounts,
        data_sets=len({entry.fingerprint for entry in entries}),
        entries=entries[::-1],
        chart=_history_chart(debits, amounts["epsilon"]) if debits else "",
    )


def open_account(request: PageRequest) -> Response:
    """Open an account."""
    name, epsilon = request.field("name").strip(), request.field("epsilon").strip()
    if not name:
        raise BadInput("name", got="nothing", want="a name, such as the conference and the year")
    with request.app.ledger() as ledger:
        if any(account.name == name for account in ledger.accounts()):
            want = "a new name: this account is open already, and a budget never changes"
            raise BadInput("name", got=name, want=want)
        if read_epsilon(epsilon) > _LARGE and request.field("sure") != "yes":
            want = f"at most {_LARGE}, or “I am sure” checked: above 5 hardly anybody is protected, and an account is permanent"
            raise BadInput("epsilon", got=epsilon, want=want)
        ledger.account(name, epsilon=epsilon)
    request.log("opened an account", name)
    target = request.field("next")
    return request.redirect(target if target in {f"/{module}" for module in MODULES} else "/ledger", "opened")


def export(request: PageRequest, kind: str) -> Response:
    """The complete ledger, as a backup and for others to verify."""
    with request.app.ledger() as ledger:
        text = ledger.to_csv() if kind == "csv" else ledger.to_json(indent=2)
    return request.download(text, f"ledger.{kind}", _EXPORTS[kind])


def verify(request: PageRequest) -> Response:
    """Check every entry."""
    with request.app.ledger() as ledger:
        verification = ledger.verify()
    return request.page("verified.html", ok=verification.ok, text=str(verification))


@lru_cache(maxsize=64)
def _budgets_chart(accounts: tuple[tuple[str, float, float], ...]) -> Svg:
    """Bars: what was spent, what is left, in percent of each budget."""

    def draw() -> Any:
        (ax,) = new_axes(7, 0.8 + 0.5 * len(accounts))
        spent = [100 * used / max(used + rest, 1e-12) for _, used, rest in accounts]
        places = range(len(accounts))
        ax.barh(places, spent, color=COLORS["leak"], label="spent")
        ax.barh(places, [100 - share for share in spent], left=spent, color=COLORS["private"], label="left")
        ax.set_yticks(places, [name if len(name) <= 24 else f"{name[:23]}…" for name, _, _ in accounts])
        ax.invert_yaxis()
        ax.set_xlabel("percent of each budget")
        ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
        return ax

    amounts = "; ".join(f"{name}: {spent:g} spent, {left:g} left" for name, spent, left in accounts)
    return safe_svg(draw, f"Budgets. {amounts}.")


@lru_cache(maxsize=64)
def _history_chart(debits: tuple[float, ...], budget: float) -> Svg:
    """What was spent, debit by debit, against the whole budget."""
    heights = [0.0, *accumulate(debits)]

    def draw() -> Any:
        from matplotlib.ticker import MaxNLocator

        (ax,) = new_axes(7, 2.6)
        places = [*range(len(heights)), len(heights) - 0.5]  # half a step more, to show the current amount
        ax.step(places, [*heights, heights[-1]], where="post", color=COLORS["leak"], label="spent")
        ax.axhline(budget, color=COLORS["truth"], linestyle="--", label="whole budget")
        ax.set(xlabel="debits in order", ylabel="epsilon", ylim=(0, budget * 1.1))
        ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=2)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        return ax

    return safe_svg(draw, f"Spent after each of {len(debits)} debits: {heights[-1]:g} of {budget:g}.")
