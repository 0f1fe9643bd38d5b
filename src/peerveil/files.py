"""Writing files: all or nothing.

The data goes to a temporary file beside the target, is flushed to the disk and renamed: a reader never sees half a
file, and a failed write leaves what was there before. A private file can be read by its owner alone, from the moment in
which it exists.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import IO, TYPE_CHECKING

from peerveil.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """Write a text file, all or nothing, and return where it is; a private one is readable by its owner alone.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/new/note.txt", "done").read_text()
    'done'
    """
    return write_atomically(path, lambda handle: handle.write(text.encode()), private=private)


def target_path(path: str | os.PathLike[str]) -> Path:
    """A path that a file can be written to; anything else is refused."""
    if not isinstance(path, str | os.PathLike):
        raise BadInput("path", got=path, want="a file name")
    target = Path(path)
    if target.is_dir():
        raise BadInput("path", got=str(target), want="a file name, not a folder")
    return target
