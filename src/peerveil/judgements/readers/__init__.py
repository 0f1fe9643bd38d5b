"""Files to columns: one reader a format, and the table of which format can become which judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerveil.errors import BadInput, Verbatim
from peerveil.judgements.readers import easychair, hotcrp, mediawiki, openreview
from peerveil.judgements.readers.files import InputFile, Raw, Wish
from peerveil.judgements.readers.preflib import read_preflib, stream_preflib
from peerveil.judgements.readers.ranktables import read_rank_table
from peerveil.judgements.readers.recognise import FORMATS, recognise_file
from peerveil.judgements.readers.tabular import TABULAR, read_tabular

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from peerveil.judgements.orders import RankSet
    from peerveil.judgements.table import Table

_PLATFORMS: dict[tuple[str, str], Callable[[InputFile, Wish], Raw]] = {
    ("openreview", "Reviews"): openreview.read_reviews,
    ("openreview", "Events"): openreview.read_events,
    ("hotcrp", "Reviews"): hotcrp.read_reviews,
    ("hotcrp", "Events"): hotcrp.read_events,
    ("easychair", "Reviews"): easychair.read_reviews,
    ("easychair", "Events"): easychair.read_events,
    ("mediawiki", "Events"): mediawiki.read_events,
}


def read_raw(kind: type[Table], path: str | os.PathLike[str], format: str | None, wish: Wish) -> Raw:  # noqa: A002
    """The columns of a file for one kind of table, not yet checked."""
    file = InputFile.open(path)
    chosen = _format(file, format, kind.__name__)
    if chosen in TABULAR:
        return read_tabular(
            file,
            chosen,
            wish,
            table=kind.__name__,
            required=kind._required,
            optional=kind._optional,
            kinds=kind._kinds,
        )
    reader = _PLATFORMS[chosen, kind.__name__]
    _known_options(kind, wish)
    return reader(file, wish)


def _known_options(kind: type[Table], wish: Wish) -> None:
    unknown = [name for name in wish.columns if name not in ("score", "time")]
    if unknown:
        want = f"names for score or time only: the platform's export fixes the rest of {kind.__name__}"
        raise BadInput("columns", got=Verbatim(f"a name for {unknown[0]!r}"), want=want)


def read_rankings(path: str | os.PathLike[str], format: str | None, wish: Wish) -> tuple[RankSet, tuple[str, ...]]:  # noqa: A002
    """Ranks, counts and items of a file."""
    file = InputFile.open(path)
    chosen = _format(file, format, "Rankings")
    if chosen in TABULAR:
        return read_rank_table(file, chosen, wish)
    if wish.layout is not None:
        raise BadInput("layout", got=wish.layout, want="nothing for PrefLib, which says what is what")
    return read_preflib(file), ()


def stream_rankings(path: str | os.PathLike[str], rows: int) -> Iterator[RankSet]:
    """A PrefLib file in pieces."""
    file = InputFile.open(path)
    if _format(file, None, "Rankings") != "preflib":
        raise file.refusal(Verbatim("a file that is not PrefLib"), "a .soc, .soi, .toc or .toi file")
    return stream_preflib(file, rows)


def _format(file: InputFile, format: str | None, kind: str) -> str:  # noqa: A002
    """The format that was asked for, or the one that is recognised; refuses what cannot become ``kind``."""
    able = [name for name, (kinds, _) in FORMATS.items() if kind in kinds]
    if format is None:
        found = recognise_file(file)
        if kind not in found.kinds and found.format not in able:
            got = Verbatim(f"{found.format} ({found.why})")
            raise file.refusal(got, f"a file that holds {kind}: {', '.join(able)}")
        return found.format
    if format not in able:
        raise BadInput("format", got=format, want=f"one of {', '.join(able)} for {kind}, or None to recognise it")
    return format
