"""The folder of a run: what may be published, what must not, and how far the run has come.

::

    report.html        for whoever ran the study (readable by its owner alone): everything, private parts marked
    public/            may be published: report.html, results.json, ledger.csv, and one folder per step
    private/           must not (readable by its owner alone): one folder per step, the journal, the study as it was run

A study with a seed is a simulation, of which nothing may be published: it has a folder ``simulated/`` in place of
``public/``, and the names of the files in it begin with "simulated-".

A step is kept as ``private/<step>/outcome.json`` *before* any other file of it is written, all or nothing; all other files
are made from it and can be made again. So a killed run is finished by running it again: steps with an outcome are
not repeated, and a step whose debit stands but whose outcome is missing is repeated without a second debit (nobody can
have seen what it drew).
"""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from peerveil.core.errors import BadInput, PeerveilError
from peerveil.core.files import read_toml, write_text
from peerveil.study.outcome import Outcome
from peerveil.study.spelling import require
from peerveil.study.toml import changed_settings

if TYPE_CHECKING:
    from peerveil.study.spec import Study

Loaded = TypeVar("Loaded")
_FORMAT: Final = 3
_MOST_CHANGES: Final = 5


class Folder:
    """The folder of one run. Open it with :meth:`opened`, which also keeps others out."""

    def __init__(self, path: Path, *, simulated: bool = False) -> None:
        self.path = path
        self.simulated = simulated
        self.public = path / ("simulated" if simulated else "public")
        self.private = path / "private"
        self.journal = self.private / "journal.json"
        self.run = ""

    def key(self, step: str) -> str:
        """The key of a step's debit in the ledger."""
        return f"{self.run}/{step}"

    @classmethod
    @contextmanager
    def opened(cls, path: Path, study: Study) -> Iterator[Folder]:
        """Begin a run, or go on with one; refused if the folder is somebody else's or another process is at work."""
        folder = cls(path, simulated=study.seed is not None)
        folder._require(path.is_dir() or not path.exists(), "a folder")
        is_ours = folder.journal.exists() or not path.exists() or not any(path.iterdir())
        folder._require(is_ours, "a new or empty folder, or one that an earlier run of this study began")
        is_linked = folder.private.is_symlink() or folder.public.is_symlink()
        folder._require(not is_linked, "a folder whose public and private parts are not links")
        folder.private.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.private.chmod(0o700)
        lock_file = folder.private / "lock"
        lock_file.touch(mode=0o600)
        with lock_file.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PeerveilError(f"{path}: another process is running this study; nothing was done") from None
            folder._begin(study)
            yield folder

    def _require(self, condition: bool, want: str) -> None:
        require(condition, "out", got=str(self.path), want=want)

    def _begin(self, study: Study) -> None:
        own = sha256(study.text.encode()).hexdigest()
        if self.journal.exists():
            journal = self._read_journal()
            if journal["study"] != own:
                changes = self._changes(study)
                want = f"the study that this folder was begun with ({changes}), or another folder for the new one"
                self._require(False, want)
            self.run = journal["run"]
            return
        self.run = secrets.token_hex(8)
        write_text(self.private / "study.toml", study.text, private=True)
        _save(self.journal, {"format": _FORMAT, "run": self.run, "study": own, "data": {}})

    def _changes(self, study: Study) -> str:
        """What changed in the study since this folder was begun, in words."""
        try:
            text, _ = read_toml(self.private / "study.toml", "study")
        except BadInput:
            return "it has changed since"
        changes = changed_settings(text, study.text)
        more = f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
        return f"since then changed: {', '.join(changes[:_MOST_CHANGES]) or 'comments or spaces'}{more}"

    def _read_journal(self) -> dict[str, Any]:
        journal = _load(self.journal, dict, "journal")
        want = "a folder that this version of peerveil began; start again in a new one"
        self._require(journal.get("format") == _FORMAT, want)
        return journal

    def pin_data(self, digests: Mapping[str, str]) -> None:
        """Remember which data the run is about; other data under the same names are refused from now on."""
        journal = self._read_journal()
        want = "the same data, or another --out: a run is about one set of data"
        for name, digest in digests.items():
            if journal["data"].setdefault(name, digest) != digest:
                raise BadInput(f"data.{name}", got="another file than when this run began", want=want)
        _save(self.journal, journal)

    # ---- outcomes ---------------------------------------------------------------------------------------------

    def outcome(self, step: str) -> Outcome | None:
        """What an earlier run kept of a step."""
        where = self.private / step / "outcome.json"
        return _load(where, Outcome.from_dict, "outcome") if where.exists() else None

    def keep(self, step: str, outcome: Outcome) -> None:
        """Save an outcome for good, then write its files."""
        _save(self.private / step / "outcome.json", outcome.to_dict(), indent=None)
        self.make_files(step, outcome)

    def make_files(self, step: str, outcome: Outcome) -> None:
        """Everything of a step but its outcome; the same files however often it is called."""
        outcome.write(self.public / step, self.private / step, simulated=self.simulated)


def _save(where: Path, data: dict[str, Any], indent: int | None = 2) -> None:
    write_text(where, json.dumps(data, indent=indent, allow_nan=False) + "\n", private=True)


def _load(where: Path, make: Callable[[Any], Loaded], what: str) -> Loaded:
    try:
        return make(json.loads(where.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise BadInput("out", got=str(where), want=f"the {what} that an earlier run wrote") from None
