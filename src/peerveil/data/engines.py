"""Tables beyond memory: one way to open them, on DuckDB or Spark through Ibis, with one set of error messages.

DuckDB (``pip install 'peerveil[duckdb]'``) works on disk where memory ends. Spark is for what outgrows one machine
(``'peerveil[spark]'``, and Java): an active session is used, on whatever cluster it runs; without one a local
session is started, and stopped afterwards. Times are UTC in both.

>>> import ibis, polars
>>> answers = ibis.memtable(polars.DataFrame({"answer": [1, 2, 2]}))
>>> with open_table(answers, ["answer"]) as table:
...     rows_of(table.aggregate(most=table.answer.max()))
[{'most': 2}]
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from peerveil.core.errors import BadInput, PeerveilError, Verbatim, one_of
from peerveil.core.optional import need
from peerveil.data.problems import TableSource
from peerveil.data.schema import TableSchema, listed, suggest_columns

ENGINES: Final = ("duckdb", "spark")
SPARK_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # else it refuses timestamps in nanoseconds
    "spark.sql.shuffle.partitions": "32",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def open_table(
    source: str | os.PathLike[str] | Any,
    columns: Sequence[str],
    *,
    engine: str = "duckdb",
    memory: str | None = None,
    connection: Any = None,
    argument: str = "source",
    texts: Sequence[str] = (),
    schema: TableSchema | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """An Ibis table that has the columns, none of them with gaps; what was opened for it is closed afterwards.

    Parameters
    ----------
    source
        A Parquet or CSV file, a pattern such as ``log/*.parquet``, or an Ibis table of any backend.
    columns
        Names that must be there.
    engine
        ``"duckdb"`` or ``"spark"``, where the source is a file.
    memory
        The most memory to use, such as ``"2GB"``; DuckDB then works on disk. For Spark it is that of a session
        started here, and belongs to the settings of yours.
    connection
        An Ibis connection to read a file on, such as one from :func:`connect`; it is left open.
    argument
        What errors call the source.
    texts
        Columns of a CSV file to take as texts, where the engine must not guess what they are (times).
    schema, mapping
        The table that the source holds, and what the caller calls its columns: for what an error suggests. Unlike a reader, a
        database takes no other names by itself: it has no place for the note that would say so.
    """
    one_of(engine, "engine", ENGINES)
    if is_table(source):
        yield _checked(source, columns, argument, schema, mapping or {})
        return
    if connection is None and engine == "spark" and texts and _is_csv(source):
        raise BadInput(argument, got=str(source), want="a Parquet file: Spark guesses what times in a CSV file are")
    with ExitStack() as stack:
        if connection is None and engine == "duckdb":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="peerveil-"))
            connection = _duckdb(memory, folder)
            stack.callback(connection.disconnect)
        elif connection is None:
            session, is_ours = _spark(memory)
            if is_ours:
                stack.callback(session.stop)
            connection = load_ibis().pyspark.connect(session)
        yield _checked(_read(connection, source, argument, texts), columns, argument, schema, mapping or {})


def connect(engine: str, *, memory: str | None = None, master: str | None = None) -> Any:
    """An Ibis connection that stays open: DuckDB on this machine, or a Spark session.

    Parameters
    ----------
    engine
        ``"duckdb"`` or ``"spark"``.
    memory
        The most memory to use, such as ``"4GB"``; beyond it, DuckDB works on disk.
    master
        For Spark the address of the cluster, such as ``"spark://head:7077"`` or ``"local[2]"``.
    """
    if one_of(engine, "engine", ENGINES) == "spark":
        return load_ibis().pyspark.connect(_spark(memory, master)[0])
    folder = Path(tempfile.gettempdir()) / f"peerveil-duckdb-{os.getpid()}"  # where it works when memory ends
    return _duckdb(memory, str(folder))


def is_table(source: Any) -> bool:
    """Whether this is an Ibis table."""
    return hasattr(source, "to_pyarrow") and hasattr(source, "schema") and hasattr(source, "columns")


def rows_of(expression: Any) -> list[dict[str, Any]]:
    """What an Ibis expression gives, as one dictionary per row; for few rows of plain numbers and texts.

    Neither pandas nor Arrow stands in between, so that it is the same with every version of them.
    """
    backend = expression.get_backend()
    in_memory = any(type(node).__name__ == "InMemoryTable" for node in expression.op().find(object))
    if backend.name == "duckdb" and not in_memory:  # else the database does not have every table yet
        rows = backend.con.execute(str(backend.compile(expression))).fetchall()
    elif backend.name == "pyspark":
        rows = backend.raw_sql(str(backend.compile(expression))).collect()
    else:
        with quiet():
            return list(expression.to_pyarrow().to_pylist())
    return [dict(zip(expression.columns, row, strict=True)) for row in rows]


def builtin(name: str) -> Any:
    """A function that the database has and Ibis does not know."""

    def function(x):  # type: ignore[no-untyped-def]  # pragma: no cover
        ...

    function.__name__ = name
    function.__annotations__ = {"return": int}
    return load_ibis().udf.scalar.builtin(function)


@contextmanager
def quiet() -> Iterator[None]:
    """Ibis 12 asks DuckDB 2, and pandas 3, by names that they announce to drop: nothing that a user could mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def load_ibis() -> Any:
    """Ibis, or an error that names the extra that brings it."""
    need("duckdb")  # in the Spark extra too
    return import_module("ibis")


def _duckdb(memory: str | None, folder: str) -> Any:
    connection = load_ibis().duckdb.connect()
    try:
        connection.raw_sql("SET TimeZone = 'UTC'")
        connection.con.execute(f"SET temp_directory = '{folder}'")
        connection.con.execute("SET preserve_insertion_order = false")  # no result depends on it, and it costs memory
        if memory is not None:
            connection.con.execute("SET memory_limit = ?", [memory])
    except Exception:
        connection.disconnect()
        raise BadInput("memory", got=memory, want="a size such as '2GB' or '500MB'") from None
    return connection


def _spark(memory: str | None, master: str | None = None) -> tuple[Any, bool]:
    """A session, and whether it was started here; ``master`` asks for a new one there."""
    size = {} if memory is None else {"spark.driver.memory": _spark_size(memory)}
    need("spark")
    session = import_module("pyspark.sql").SparkSession
    active = session.getActiveSession()
    if active is not None and master is None:
        separate = active.newSession()  # its own settings on the same cluster: the user's stay as they are
        for key in ("spark.sql.session.timeZone", "spark.sql.legacy.parquet.nanosAsLong"):
            separate.conf.set(key, SPARK_SETTINGS[key])
        return separate, False
    start = session.builder.appName("peerveil").master(master or "local[*]")
    here = master is None or master.startswith("local")
    for key, value in {**SPARK_SETTINGS, **size}.items():
        if here or not key.startswith("spark.driver."):  # the driver of a remote cluster has an address of its own
            start = start.config(key, value)
    try:
        return start.getOrCreate(), True
    except Exception as error:
        reason = f"Spark could not be started; it needs Java 17 or later ({type(error).__name__})"
        raise PeerveilError(reason) from error


def _spark_size(memory: str) -> str:
    """``"2GB"`` as Spark writes it: ``2g``."""
    text = str(memory).strip().lower().removesuffix("b").removesuffix("i").replace(" ", "")
    if not (text[:-1].isdigit() and text[-1] in "kmgt"):
        raise BadInput("memory", got=memory, want="a size such as '2GB' or '500MB'")
    return text


def _is_csv(source: Any) -> bool:
    return str(source).removesuffix(".gz").endswith(".csv")


def _read(connection: Any, source: Any, argument: str, texts: Sequence[str] = ()) -> Any:
    path = str(source)
    try:
        with quiet():
            if not _is_csv(source):
                return connection.read_parquet(path)
            table = connection.read_csv(path)
            known = {name: "VARCHAR" for name in texts if name in table.columns}
            return connection.read_csv(path, types=known) if known else table
    except Exception as error:
        want = "an Ibis table, a Parquet or CSV file, or a pattern such as log/*.parquet"
        got = Verbatim(f"{source} ({type(error).__name__})")
        raise BadInput(argument, got=got, want=want) from error


def _checked(
    table: Any, columns: Sequence[str], argument: str, schema: TableSchema | None, mapping: Mapping[str, str]
) -> Any:
    missing = [name for name in columns if name not in table.columns]
    if missing and schema is not None and set(missing) <= set(schema.required):
        guess = suggest_columns(schema, table.columns, mapping)
        likely = {ours: guess.get(ours, "...") for ours in schema.required}
        want = (
            f"the names {', '.join(columns)} among {listed(table.columns)}, since a database takes no others by itself: to say "
            "which columns are meant"
        )
        suggestion = {ours: theirs for ours, theirs in likely.items() if ours != theirs}
        raise TableSource(argument).refusal(f"no column {', '.join(missing)}", want, suggestion=suggestion)
    if missing:
        want = f"columns {', '.join(columns)}; {', '.join(missing)} missing"
        raise BadInput(argument, got=list(table.columns), want=want)
    if columns:
        gaps = rows_of(table.aggregate(**{name: table[name].isnull().cast("int64").sum() for name in columns}))[0]
        text = ", ".join(f"{int(count):,} rows without {name}" for name, count in gaps.items() if count)
        if text:
            raise BadInput(argument, got=Verbatim(text), want=f"every row with {', '.join(columns)}")
    return table
