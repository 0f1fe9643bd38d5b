"""Options that mean the same in every command, each declared once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import click

COLUMN: Final = partial(
    click.Option,
    ["--column"],
    multiple=True,
    metavar="OURS=THEIRS",
    help="One of our columns and its name in the file, such as paper='Paper #'. Repeatable.",
)
FORMAT: Final = partial(click.Option, ["--format"], metavar="NAME", help="The file's format. [default: recognized]")
TIME_ZONE: Final = partial(
    click.Option, ["--time-zone"], metavar="ZONE", help="The zone of times that name none. [default: UTC]"
)
LAYOUT: Final = partial(
    click.Option,
    ["--layout"],
    type=click.Choice(["orders", "places"]),
    help="What the cells of a wide table hold: items (one column per place) or places (one column per item). "
    "[default: seen from the file]",
)
LEDGER: Final = partial(
    click.Option,
    ["--ledger"],
    metavar="FILE",
    envvar="PEERVEIL_LEDGER",
    show_envvar=True,
    help="The ledger to debit: a file, or the address of a PostgreSQL database.",
)
ACCOUNT: Final = partial(click.Option, ["--account"], metavar="NAME", help="The account to debit; it must exist.")
SEED: Final = partial(
    click.Option,
    ["--seed"],
    type=click.IntRange(min=0),
    help="Use a fixed seed for a repeatable simulation. The result is marked as not private.",
)
FORCE: Final = partial(click.Option, ["--force"], is_flag=True, help="Replace files in the folder.")
JSON: Final = partial(click.Option, ["--json", "as_json"], is_flag=True, help="Print the result as JSON.")
DEBUG: Final = partial(
    click.Option, ["--debug"], is_flag=True, expose_value=False, help="Show the whole traceback of an error."
)


def KIND(kinds: tuple[str, ...]) -> click.Option:  # noqa: N802
    """What to read a file as."""
    return click.Option(
        ["--kind"], type=click.Choice(list(kinds)), help="What to read the file as. [default: recognized]"
    )


def out_option(default: str) -> click.Option:
    """The folder to write to."""
    return click.Option(
        ["--out"],
        type=click.Path(path_type=Path),
        default=Path(default),
        show_default=True,
        help="The folder to write to: public/ may be published, private/ must not.",
    )
