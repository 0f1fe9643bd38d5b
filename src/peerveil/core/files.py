"""Files: written all or nothing into folders that were checked before, and read with their problems named.

The data goes to a temporary file beside the target, is flushed to the disk and renamed: a reader never sees half a
file, and a failed write leaves what was there before. A private file can be read by its owner alone, from the moment in
which it exists.
"""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from peerveil.core.errors import BadInput, Verbatim

_LARGEST_TOML: Final = 1_000_000


def write_atomically(
    path: str | os.PathLike[str], fill: Callable[[IO[bytes]], object], *, private: bool = False
) -> Path:
    """Fill a temporary file beside ``path``, then rename it; returns the path. Missing folders are made.

    A ``private`` file has mode 0600, whatever stood there before.
    """
    target = target_path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # never readable by others, not even while it is written
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(number, "wb") as handle:
            fill(handle)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput("path", got=str(target), want=f"a file that can be written ({reason})") from error
    finally:
        # the folder itself may be what was wrong
        if temporary.parent.is_dir():
            temporary.unlink(missing_ok=True)
    return target


def write_text(path: str | os.PathLike[str], text: str, *, private: bool = False) -> Path:
    """Write a text file, all or nothing, and return where it is; a private one is readable by its owner alone."""
    return write_atomically(path, lambda handle: handle.write(text.encode()), private=private)


def target_path(path: str | os.PathLike[str]) -> Path:
    """A path that a file can be written to; anything else is refused."""
    if not isinstance(path, str | os.PathLike):
        raise BadInput("path", got=path, want="a file name")
    target = Path(path)
    if target.is_dir():
        raise BadInput("path", got=str(target), want="a file name, not a folder")
    return target


def check_out(out: Path, force: bool, *, name: str = "--out", again: str = "") -> None:
    """Refuse an output folder that cannot be used, before anything is computed or spent.

    Refused are a name with a file suffix (unless it is a folder already), an existing file, a folder that cannot be written and,
    without ``force``, a folder that is not empty. What a refusal advises is itself accepted. ``again`` says what doing it again
    costs.
    """
    place = next(path for path in (out, *out.parents) if os.path.lexists(path))
    if out == place and not out.is_dir():
        raise BadInput(name, got=Verbatim(f"a file ({out})"), want=f"a folder: for example {_free_folder(out)}")
    if out != place and re.fullmatch(r"\.[A-Za-z]\w{0,9}", out.suffix):
        raise BadInput(name, got=str(out), want=f"a folder: for example {_free_folder(out)}")
    if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        raise BadInput(name, got=str(out), want="a folder that can be written to")
    if out == place and any(out.iterdir()) and not force:
        got = Verbatim(f"a folder that is not empty ({out})")
        raise BadInput(name, got=got, want=f"a new or empty folder, or --force to replace files in it{again}")


def _free_folder(out: Path) -> Path:
    """A folder beside a refused one, of which nothing exists yet."""
    stem = out.name.partition(".")[0] or "results"
    names = (f"{stem}-{number}" if number else stem for number in range(10_000))
    return next(path for path in map(out.with_name, names) if not os.path.lexists(path))


def regular_file(path: Path, argument: str) -> Path:
    """A path to a file that can be read from beginning to end: no folder, device or pipe."""
    if "\0" in str(path):
        raise BadInput(argument, got=str(path), want="a path without a zero byte")
    if not os.path.exists(path):  # noqa: PTH110 (Path.exists raises an error for a name that is too long)
        raise BadInput(argument, got=str(path), want="a file that exists")
    if not path.is_file():
        raise BadInput(argument, got=str(path), want="a regular file")
    if not os.access(path, os.R_OK):
        raise BadInput(argument, got=str(path), want="a file that may be read")
    return path


def read_toml(path: str | os.PathLike[str], argument: str) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says; anything else is refused."""
    path = regular_file(Path(path), argument)
    if path.stat().st_size > _LARGEST_TOML:
        raise BadInput(argument, got=str(path), want=f"a file of at most {_LARGEST_TOML:,} bytes")
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except UnicodeDecodeError:
        raise BadInput(argument, got=str(path), want="a text file in UTF-8") from None
    except (ValueError, RecursionError) as error:  # no TOML, a number of too many digits, or too deeply nested
        raise BadInput(str(path), got=Verbatim(str(error)), want="a TOML file") from None


def table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table of the file, empty if it is not there."""
    return require_table(content.get(key, {}), key)


def require_table(entries: object, place: str) -> Mapping[str, Any]:
    """What should be a table."""
    if not isinstance(entries, dict):
        raise BadInput(place, got=entries, want=f"a table, written [{place}]")
    return entries


def words(value: object, place: str, longest: int = 200) -> str:
    """A text on one line."""
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise BadInput(place, got=value, want=f"a text on one line, of 1 to {longest} characters")
    return value.strip()
