"""What ``make demo`` does: a synthetic conference through everything that exists, into one page to look at.

It grows with the house. Today it shows a leak, a private release of reviewers' strictness with its debit, answers that were
randomised on people's own devices, the ledger refusing to overspend, and the audit catching planted faults.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from peerveil.audit.cases import house_cases, planted_faults
from peerveil.errors import BadInput
from peerveil.files import write_text
from peerveil.guarantee import Guarantee
from peerveil.judgements import synthetic_conference
from peerveil.ledger import BudgetExceeded, Ledger
from peerveil.progress import progress_bar
from peerveil.randomness import Randomness, Response
from peerveil.release import publish, review_weights
from peerveil.release.adversary import audit_cases
from peerveil.release.sensitivity import means_guarantee, sorted_means
from peerveil.report import COLOURS, Page, house_style, new_axes, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from peerveil.audit import Report
    from peerveil.judgements import Events, Labels, Reviews
    from peerveil.ledger import Account

_FIVE_MINUTES: Final = 300.0
_BUDGET: Final = 3
_MARKER: Final = "made-by-peerveil-demo.txt"
_EPSILON: Final = 2


def run_demo(folder: str | Path, *, papers: int = 600, reviewers: int = 450, seed: int = 2026) -> Path:
    """Run everything and return the path of the page."""
    target = Path(folder)
    conference = synthetic_conference(papers, reviewers, reviews_per_paper=4, seed=seed)
    book = _own_folder(target) / "ledger.db"
    book.unlink(missing_ok=True)  # the demo's own budget begins anew each time
    secure = Randomness.secure()
    cases, faults = [*house_cases(), *audit_cases()], list(planted_faults())
    with house_style(), progress_bar("demo", total=3 + len(cases) + len(faults)) as advance:
        conference.write(target / "data")
        page = Page(
            "peerveil: what it does today",
            lead=f"A made-up conference ({papers:,} papers, {reviewers:,} reviewers; nobody in it exists), real noise.",
        )
        page.heading("The data")
        page.paragraph("Four tables that people produce, as the readers see them:")
        page.table(["table", "what is in it"], [
            [name, str(getattr(conference, name))] for name in ("reviews", "events", "rankings", "labels")
        ])  # fmt: skip
        advance(1)
        _leak(page, conference.events, seed)
        advance(1)
        with Ledger.open(book) as ledger:
            account = ledger.account("synthetic-conference", epsilon=_BUDGET)
            _release(page, conference.reviews, account, secure)
            _answers(page, conference.labels, secure)
            advance(1)
            _budget(page, ledger, account)
        reports = []
        for case in [*cases, *faults]:
            reports.append(case.audit(min(case.samples, 20_000) // len(case.pairs), progress=False))
            advance(1)
        _audit(page, reports[: len(cases)], list(zip(faults, reports[len(cases) :], strict=True)))
    page.footer("Made by `make demo`. The tables are in data/, the budget in ledger.db beside this page.")
    return page.write(target / "report.html")


def _own_folder(target: Path) -> Path:
    """A folder that is the demo's to overwrite: new, empty, or left by an earlier demo. Anything else is refused."""
    marker = target / _MARKER
    if target.exists() and not (target.is_dir() and (marker.exists() or not any(target.iterdir()))):
        raise BadInput("--out", got=str(target), want="a new or empty folder, or one that an earlier demo wrote")
    write_text(marker, "Written by `peerveil demo`, which may overwrite everything in this folder.\n")
    return target


# ---- the parts of the page ---------------------------------------------------------------------------------------


def waits(events: Events, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds from a comment to the same person's next one on another paper, and to a random other person's."""
    actor, _ = events.numbered("actor")
    thread, _ = events.numbered("thread")
    time = events.times / 1e6
    order = np.lexsort((time, actor))
    actor, thread, time = actor[order], thread[order], time[order]
    follows = (actor[1:] == actor[:-1]) & (thread[1:] != thread[:-1])
    same = (time[1:] - time[:-1])[follows]
    starts = np.searchsorted(actor, np.arange(actor.max() + 2))
    picked = rng.permutation(time.size)
    other = []
    for i in picked[: same.size].tolist():
        person = int(rng.integers(0, actor.max() + 1))
        theirs = time[starts[person] : starts[person + 1]]
        later = theirs[np.searchsorted(theirs, time[i], side="right") :]
        if person != actor[i] and later.size:
            other.append(later[0] - time[i])
    return same, np.array(other)


def _leak(page: Page, events: Events, seed: int) -> None:
    same, other = waits(events, np.random.default_rng(seed))
    shares = [100 * float(np.mean(part <= _FIVE_MINUTES)) for part in (same, other)]
    page.heading("A leak: comments of one sitting")
    page.paragraph(
        f"Of consecutive comments of one reviewer on different papers, {shares[0]:.1f}% follow within five minutes; of "
        f"a comment and the next one of another reviewer, {shares[1]:.2f}%. Who sees two pseudonyms comment minutes "
        "apart can guess that they are one person."
    )
    (ax,) = new_axes()
    edges = np.logspace(0, 7, 43).tolist()
    for part, colour, label in (
        (same, COLOURS["leak"], "the same reviewer, another paper"),
        (other, COLOURS["truth"], "another reviewer"),
    ):
        ax.hist(np.maximum(part, 1), bins=edges, weights=np.full(part.size, 100 / part.size), color=colour,
                alpha=0.75, label=label)  # fmt: skip
    ax.set_xscale("log")
    ax.axvline(_FIVE_MINUTES, color=COLOURS["accent"], linestyle="--", label="five minutes")
    ax.set_xticks([1, 60, 3600, 86400, 864000], ["1 s", "1 min", "1 h", "1 day", "10 days"])
    ax.set_xlabel("time from a comment to the next one by ...")
    ax.set_ylabel("% of comments")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=3)
    alt = f"Histogram of waiting times. {shares[0]:.0f}% of one reviewer's comments follow within five minutes."
    page.figure(svg(ax, alt), "Waiting times between comments, logarithmic. The left hump is what gives people away.")


def _release(page: Page, reviews: Reviews, account: Account, randomness: Randomness) -> None:
    result = publish(
        reviews, epsilon=_EPSILON, weight="miscalibration", scale=(1, 10), account=account, randomness=randomness
    )
    weights = review_weights(reviews, "miscalibration", scale=(1, 10))
    truth = sorted_means(weights.values, reviews.numbered("reviewer")[0])
    errors = [
        float(np.sqrt(np.mean((guess - truth) ** 2))) for guess in (result.noisy, result.means, result.expectation)
    ]
    (ax,) = new_axes(height=4)
    result.plot(ax)
    ax.plot(100 * (np.arange(truth.size) + 0.5) / truth.size, truth, ":", color="0.5", label="true (never published)")
    ax.legend(loc="upper left", fontsize="small")
    page.heading("A release: how strict reviewers are")
    page.paragraph(
        "For every reviewer: how much higher they score than the other reviewers of the same papers, on average. The "
        f"ledger was debited first, then noise was drawn. Typical error of a mean: {errors[0]:.2g} with the noise alone, "
        f"{errors[1]:.2g} after using what is public anyway. {result.beyond_public()}"
    )
    page.promise(str(result.guarantee))
    page.figure(svg(ax, f"{result.summary()}. {result.beyond_public()}"),
                "What is published (blue) among what the public data allow (grey). Only a demo may show the truth.")  # fmt: skip


def _answers(page: Page, labels: Labels, randomness: Randomness) -> None:
    classes = [0, 1]  # the questions are yes or no; the set of classes never comes from the answers
    codes, (worker, _) = labels.codes(classes), labels.numbered("worker")
    truth = float(np.mean(codes == 1))
    rows: list[tuple[Any, ...]] = []
    epsilons = ("0.25", "0.5", "1", "2")
    for group, epsilon in enumerate(epsilons):  # every person is in one group, so that each answer is sent once
        answers = codes[worker % len(epsilons) == group]
        response = Response(epsilon, classes)
        counts = np.bincount(randomness.respond(answers, response), minlength=len(classes))
        share, seen = response.unbiased(counts)[1] / answers.size, counts[1] / answers.size
        error = np.sqrt(seen * (1 - seen) / answers.size) / (response.keep - response.other)
        rows.append((epsilon, f"{100 * response.keep:.1f}", share, error))
    (ax,) = new_axes(height=2.6)
    places = np.arange(len(rows))
    ax.errorbar(
        places, [100 * r[2] for r in rows], yerr=[196 * r[3] for r in rows], fmt="o", capsize=4,
        color=COLOURS["private"], label="estimate from randomised answers, 95% interval",
    )  # fmt: skip
    ax.axhline(100 * truth, color=COLOURS["accent"], linestyle="--", label="true share (never collected)")
    ax.set_xticks(places, [f"epsilon {r[0]}" for r in rows])
    ax.set_xlim(-0.5, len(rows) - 0.5)
    ax.set_ylabel("% answering yes")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    page.heading("Answers that were randomised before they left")
    page.paragraph(
        f"{codes.size:,} crowd answers, each randomised once on its owner's device; the people were split into four "
        f"groups to show four strengths. At epsilon 1 an answer is sent as given {rows[2][1]} times in 100, so that "
        "nobody can be held to it; the share in the crowd can still be estimated."
    )
    promises = [randomness.stamp(Guarantee.local_attribute_dp(epsilon)) for epsilon in epsilons]
    page.promise(str(Guarantee.parallel(*promises, touched=1)))
    page.figure(svg(ax, "Estimates of the share of one answer for four epsilons, around the true share."),
                "The stronger the privacy (left), the wider the interval.")  # fmt: skip


def _budget(page: Page, ledger: Ledger, account: Account) -> None:
    page.heading("The budget")
    try:
        account.spend(means_guarantee(2), purpose="a second look", data="the same", randomness=Randomness.secure())
    except BudgetExceeded as refusal:
        page.paragraph(f"A second release at epsilon 2 was refused: {refusal}.")
    page.table(
        ["#", "purpose", "epsilon", "remaining", "promise"],
        [[r["entry"], r["purpose"], r["epsilon"], r["remaining"], r["guarantee"]] for r in ledger.table(account.name)],
    )
    page.paragraph(f"The ledger's own check of its chain of entries: {ledger.verify()}")


def _audit(page: Page, reports: list[Report], faults: list[tuple[Any, Report]]) -> None:
    page.heading("Would a lie be noticed?")
    page.paragraph(
        "Every mechanism was run many times on neighbouring inputs, and the best distinguishing event was certified. "
        "Honest mechanisms (blue) stay left of their claim; mechanisms that were broken on purpose (red) are found out."
    )
    ax = draw_audit([*reports, *(report for _, report in faults)])
    caught = sum(not report.passed for _, report in faults)
    page.figure(
        svg(ax, f"Found against claimed: honest mechanisms below 1, {caught} planted faults above."),
        f"{sum(r.passed for r in reports)} of {len(reports)} honest claims stand; "
        f"{caught} of {len(faults)} planted faults caught.",
    )
    page.table(
        ["planted fault", "what is wrong", "claimed", "found"],
        [[case.name, case.fault, f"{r.claimed:g}", f"at least {r.found:.2f}"] for case, r in faults],
    )


def draw_audit(reports: list[Report]) -> Axes:
    """Bars of what was found, coloured by whether the claim stands; all of the reports claim 1."""
    (ax,) = new_axes(height=0.9 + 0.32 * len(reports))
    colours = [COLOURS["private" if report.passed else "leak"] for report in reports]
    ax.barh([report.name for report in reports], [report.found for report in reports], color=colours)
    ax.axvline(1, color=COLOURS["accent"], linestyle="--", label="claimed by all of them")
    ax.set_xlabel("certified privacy loss")
    ax.invert_yaxis()
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1))
    return ax
