"""From a file to columns: the reader of every format. Columns are checked afterwards, by :mod:`peerveil.data.check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerveil.core.errors import BadInput, Verbatim
from peerveil.data.readers import easychair, hotcrp, mediawiki, openreview
from peerveil.data.readers.files import InputFile
from peerveil.data.readers.preflib import read_preflib, stream_preflib
from peerveil.data.readers.rank_tables import ranks_of_table
from peerveil.data.readers.recognize import chosen_format
from peerveil.data.readers.tabular import TABULAR, ReadOptions, read_tabular
from peerveil.data.schema import RANKINGS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from peerveil.data.check import RawTable
    from peerveil.data.orders import RankSet
    from peerveil.data.schema import Schema

_PLATFORMS: dict[tuple[str, str], Callable[[InputFile, ReadOptions], RawTable]] = {
    ("openreview", "Reviews"): openreview.read_reviews,
    ("openreview", "Events"): openreview.read_events,
    ("hotcrp", "Reviews"): hotcrp.read_reviews,
    ("hotcrp", "Events"): hotcrp.read_events,
    ("easychair", "Reviews"): easychair.read_reviews,
    ("easychair", "Events"): easychair.read_events,
    ("mediawiki", "Events"): mediawiki.read_events,
}


def read_columns(schema: Schema, path: str | os.PathLike[str], format_: str | None, options: ReadOptions) -> RawTable:
    """The columns of a file for one kind of table, not yet checked."""
    file = InputFile.open(path)
    chosen = chosen_format(file, format_, schema.table)
    if chosen in TABULAR:
        return read_tabular(file, chosen, schema, options)
    fixed = [name for name in options.columns if name not in ("score", "time")]
    if fixed:
        want = f"names for score or time only: the platform's export fixes the rest of {schema.table}"
        raise BadInput("columns", got=Verbatim(f"a name for {fixed[0]!r}"), want=want)
    return _PLATFORMS[chosen, schema.table](file, options)


def read_rankings(
    path: str | os.PathLike[str], format_: str | None, options: ReadOptions
) -> tuple[RankSet, tuple[str, ...]]:
    """Ranks, counts and items of a file, and notes on what was left out."""
    file = InputFile.open(path)
    chosen = chosen_format(file, format_, "Rankings")
    if chosen in TABULAR:
        return ranks_of_table(read_tabular(file, chosen, RANKINGS, options), options)
    if options.layout is not None:
        raise BadInput("layout", got=options.layout, want="nothing for PrefLib, which says what is what")
    return read_preflib(file), ()


def stream_rankings(path: str | os.PathLike[str], rows: int) -> Iterator[RankSet]:
    """A PrefLib file in pieces."""
    file = InputFile.open(path)
    if chosen_format(file, None, "Rankings") != "preflib":
        raise file.refusal(Verbatim("a file that is not PrefLib"), "a .soc, .soi, .toc or .toi file")
    return stream_preflib(file, rows)
