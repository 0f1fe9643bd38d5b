"""Progress on long work: a bar on a terminal, silence everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(description: str, total: int, *, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error that advances by what is passed to the yielded function.

    ``show=None`` shows it only on a terminal, so that logs and pipes stay clean.

    >>> with progress_bar("sampling", total=3, show=False) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda step: bar.advance(task, step)


@contextmanager
def progress_callback(description: str) -> Iterator[Callable[[float, str], None]]:
    """The same for work that says which share of it is done, from 0 to 1, and what it does."""
    done = 0
    with progress_bar(description, total=1000) as advance:

        def say(share: float, text: str) -> None:  # noqa: ARG001
            nonlocal done
            steps = round(1000 * min(max(share, 0.0), 1.0)) - done
            done += steps
            advance(steps)

        yield say
