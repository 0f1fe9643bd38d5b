"""A campaign: what is asked, under which terms, how often one person may answer, and when.

A campaign is public from the first to the last letter: the file that an operator writes, the description that clients read, and
the guarantee. Everything here is a pure function of it.

The keys of a campaign's file::

    id = "birds-2026"
    title = "Birds of the lake"
    question = "Is there a bird in the picture?"
    kind = "labels"                # or "rankings"
    classes = ["no", "yes"]        # labels: the answers that can be given
    tasks = "tasks.csv"            # labels: a table with columns task and text, or a list of { id, text }
    items = ["tea", "milk"]        # rankings: what is ranked
    method = "pairs"               # rankings: "pairs" or "items" (peerveil.rankings.LocalProtocol)
    questions = 3                  # rankings: how many questions all people share
    seed = 7                       # rankings: fixes the shared questions
    epsilon = "1"
    unit = "answer"                # what epsilon is for: "answer" or "person"
    answers = 20                   # how many answers one person may give
    opens = 2026-11-16T08:00:00Z   # at once if left out
    closes = 2026-12-01T00:00:00Z  # when the operator says so if left out
    publish = true                 # whether results are public once the campaign is closed
    accuracy = 0.9                 # labels: the target share of correct labels
    embed = ["https://example.org"]  # sites that may show the page inside their own
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from peerveil.core.errors import BadInput, Verbatim, one_of
from peerveil.core.exact import whole
from peerveil.core.files import read_toml, regular_file, words
from peerveil.core.guarantee import Guarantee, read_epsilon
from peerveil.core.randomness import Response
from peerveil.rankings import LocalProtocol
from peerveil.study.spelling import only
from peerveil.truth.client import FORMAT as LABELS_FORMAT
from peerveil.truth.guarantee import PERSON
from peerveil.web.common.values import read_flag, read_time

RANKINGS_FORMAT: Final = "peerveil-rankings/1"
KINDS: Final = ("labels", "rankings")
TASK_SUFFIXES: Final = (".csv", ".jsonl", ".parquet", ".txt")
"""How the name of a file of tasks may end."""
_MOST_TASKS: Final = 100_000
_MOST_CLASSES: Final = 100
_MOST_ITEMS: Final = 10_000
_ID: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
_PLAIN: Final = ("id", "title", "question", "kind", "unit", "answers", "publish")
_COMMON: Final = (*_PLAIN, "epsilon", "opens", "closes", "embed")
_OWN: Final = {"labels": ("classes", "tasks", "accuracy"), "rankings": ("items", "method", "questions", "seed")}


@dataclass(frozen=True)
class Campaign:
    """What is asked, and under which terms. Make one with :meth:`read` or :meth:`from_dict`.

    Attributes
    ----------
    tasks : tuple of (str, str)
        Ids and texts (labels).
    classes : tuple of str
        The answers that can be given (labels).
    items : tuple of str
        What is ranked (rankings).
    unit : str
        What ``exact_epsilon`` is for: ``"answer"`` or ``"person"``.
    answers : int
        How many answers one person may give.
    """

    id: str
    title: str
    question: str
    kind: str
    exact_epsilon: Fraction
    unit: str
    answers: int
    tasks: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    classes: tuple[str, ...] = ()
    items: tuple[str, ...] = field(default=(), repr=False)
    method: str = "pairs"
    questions: int = 0
    seed: int = 0
    opens: datetime | None = None
    closes: datetime | None = None
    publish: bool = True
    accuracy: float = 0.9
    embed: tuple[str, ...] = ()

    # ---- what follows from it -----------------------------------------------------------------------------------

    @property
    def each(self) -> Fraction:
        """The epsilon of one answer: all of it, or a person's budget split evenly over the answers they may give."""
        return self.exact_epsilon if self.unit == "answer" else self.exact_epsilon / self.answers

    @property
    def response(self) -> Response:
        """The randomized response that every answer passes on the person's device."""
        return Response(self.each, self.classes if self.kind == "labels" else 2)

    @property
    def protocol(self) -> LocalProtocol:
        """The protocol of the rankings module that answers follow."""
        if self.kind != "rankings":
            raise BadInput("campaign", got=self.id, want="a campaign of rankings")
        return LocalProtocol(
            len(self.items), epsilon=self.each, ask=self.method, questions=self.questions, seed=self.seed
        )

    @property
    def size(self) -> int:
        """How many tasks or questions there are."""
        return len(self.tasks) if self.kind == "labels" else self.questions

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for one answer, or for a person if the budget is a person's.

        **Proof.** One answer: the response loses at most ``each`` (:class:`peerveil.Response`), on the device; all that follows
        is post-processing. A person: the service takes at most ``answers`` answers of one token, and one per question; the
        client never randomizes an answer twice. Which question is answered is drawn without looking at answers, or chosen by the
        person and not hidden. Likelihood ratios of independent answers multiply: e^(answers * each) at most. ∎
        """
        if self.kind == "labels" and self.unit == "answer":
            return Guarantee.local_attribute_dp(self.each)
        return self.person_guarantee

    @property
    def person_guarantee(self) -> Guarantee:
        """The guarantee for everything that one person may send."""
        if self.kind == "rankings":
            single = self.protocol.guarantee
            return single.group(self.answers, unit=single.unit, neighbors=single.neighbors)
        return Guarantee.local_dp(self.each * self.answers, **PERSON)

    def state(self, now: datetime, *, closed: bool = False) -> str:
        """``"not open yet"``, ``"open"`` or ``"closed"`` at a time; ``closed`` says that an operator closed it."""
        if closed or (self.closes is not None and now >= self.closes):
            return "closed"
        return "not open yet" if self.opens is not None and now < self.opens else "open"

    def described(self) -> dict[str, Any]:
        """The public description: what a client needs, in the wire format of its module.

        Whole numbers that may exceed 2^53 stand as text, since JavaScript would round them.
        """
        response = self.response
        terms: dict[str, Any] = {
            **{name: getattr(self, name) for name in _PLAIN if name != "id"},
            "format": LABELS_FORMAT if self.kind == "labels" else RANKINGS_FORMAT,
            "campaign": self.id,
            "epsilon": str(self.each),
            "opens": _time_text(self.opens),
            "closes": _time_text(self.closes),
            "response": {"bits": response.bits, "keep_below": str(response.keep_below), "share": str(response.share)},
            "promise": str(self.guarantee),
            "person_promise": str(self.person_guarantee),
        }
        if self.kind == "labels":
            return {**terms, "classes": list(self.classes), "tasks": self._task_list()}
        protocol = self.protocol
        return {
            **terms,
            "protocol": protocol.fingerprint,
            "items": len(self.items),
            "names": list(self.items),
            "method": protocol.ask,
            "questions": protocol.questions,
            "seed": protocol.seed,
            "asked": self.asked(),
        }

    def asked(self) -> list[Any]:
        """For each shared question the item that it is about, or the two items."""
        order = self.protocol.order().tolist()
        if self.method == "items":
            return list(order[: self.questions])
        return [order[2 * q : 2 * q + 2] for q in range(self.questions)]

    # ---- reading and writing ------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a campaign's file (TOML); every problem is named with its key."""
        _, content = read_toml(path, "campaign")
        if isinstance(content.get("tasks"), str):
            content["tasks"] = read_tasks(Path(path).parent / content["tasks"])
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """A campaign from the keys of its file.

        Examples
        --------
        >>> terms = {"id": "lake", "title": "Lake", "question": "A bird?", "kind": "labels", "classes": ["no", "yes"]}
        >>> campaign = Campaign.from_dict(
        ...     {**terms, "tasks": [{"id": "1"}, {"id": "2"}], "epsilon": 2, "unit": "person"}
        ... )
        >>> campaign.answers, campaign.each, round(campaign.response.keep, 3)
        (2, Fraction(1, 1), 0.731)
        """
        kind = one_of(content.get("kind", "labels"), "kind", KINDS)
        only(content, (*_COMMON, *_OWN[kind]), f"a campaign of {kind}")
        name = content.get("id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise BadInput("id", got=name, want="small letters, digits and -, 40 at most")
        times = {key: content.get(key) for key in ("opens", "closes")}
        opens, closes = (None if value is None else read_time(value, key) for key, value in times.items())
        if opens is not None and closes is not None and closes <= opens:
            raise BadInput("closes", got=_time_text(closes), want="a time after opens")
        own = _labels(content) if kind == "labels" else _rankings(content)
        size = len(own["tasks"]) if kind == "labels" else own["questions"]
        most = 1 if own.get("method") == "items" else size
        campaign = cls(
            id=name,
            title=words(content.get("title"), "title"),
            question=words(content.get("question", content.get("title")), "question", 1000),
            kind=kind,
            exact_epsilon=read_epsilon(content.get("epsilon", 0)),
            unit=one_of(content.get("unit", "answer"), "unit", ("answer", "person")),
            answers=whole(content.get("answers", most), "answers", 1, most),
            opens=opens,
            closes=closes,
            publish=read_flag(content.get("publish", True), "publish"),
            embed=_origins(content.get("embed", ())),
            **own,
        )
        _ = campaign.response  # refuses an epsilon with which nothing would be left of an answer
        return campaign

    def to_dict(self) -> dict[str, Any]:
        """The keys of the file, as JSON values; :meth:`from_dict` reads them again."""
        shared: dict[str, Any] = {
            **{name: getattr(self, name) for name in _PLAIN},
            "epsilon": str(self.exact_epsilon),
            "opens": _time_text(self.opens),
            "closes": _time_text(self.closes),
            "embed": list(self.embed),
        }
        if self.kind == "labels":
            own = {"classes": list(self.classes), "tasks": self._task_list(), "accuracy": self.accuracy}
            return {**shared, **own}
        return {**shared, "items": list(self.items), **{k: getattr(self, k) for k in ("method", "questions", "seed")}}

    def _task_list(self) -> list[dict[str, str]]:
        return [{"id": task, "text": text} for task, text in self.tasks]


def _labels(content: Mapping[str, Any]) -> dict[str, Any]:
    classes = _texts(content.get("classes"), "classes", _MOST_CLASSES, 100)
    tasks = content.get("tasks")
    if not isinstance(tasks, list | tuple) or not 1 <= len(tasks) <= _MOST_TASKS:
        got = Verbatim(f"{len(tasks):,} tasks" if isinstance(tasks, list | tuple) else "no list")
        raise BadInput("tasks", got=got, want=f"1 to {_MOST_TASKS:,} tasks")
    named: dict[str, str] = {}
    for number, task in enumerate(tasks, 1):
        name, text = _task(task, number)
        if name in named:
            raise BadInput(f"tasks[{number}]", got=name, want="an id that no other task has")
        named[name] = text
    accuracy = content.get("accuracy", 0.9)
    number_like = isinstance(accuracy, int | float) and not isinstance(accuracy, bool)
    if not number_like or not 1 / len(classes) < accuracy < 1:
        raise BadInput("accuracy", got=accuracy, want=f"a share between chance (1/{len(classes)}) and 1")
    return {"classes": classes, "tasks": tuple(named.items()), "accuracy": float(accuracy)}


def _task(task: Any, number: int) -> tuple[str, str]:
    place = f"tasks[{number}]"
    if isinstance(task, str | int) and not isinstance(task, bool):
        task = {"id": task}
    if not isinstance(task, dict):
        raise BadInput(place, got=task, want="an id, or a table with id and text")
    only(task, ("id", "text"), place)
    name = task.get("id")
    name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
    text = task.get("text") or name
    return words(name, f"{place}.id", 100), words(text, f"{place}.text", 2000)


def _rankings(content: Mapping[str, Any]) -> dict[str, Any]:
    items = _texts(content.get("items"), "items", _MOST_ITEMS)
    method = one_of(content.get("method", "pairs"), "method", ("pairs", "items"))
    most = len(items) // 2 if method == "pairs" else len(items)
    questions = whole(content.get("questions", min(3, most)), "questions", 1, most)
    seed = content.get("seed", 0)
    protocol = LocalProtocol(len(items), epsilon=1, ask=method, questions=questions, seed=seed)  # checks the seed
    return {"items": items, "method": method, "questions": questions, "seed": protocol.seed}


def _texts(value: Any, key: str, most: int, longest: int = 200) -> tuple[str, ...]:
    want = f"a list of 2 to {most:,} different texts"
    if not isinstance(value, list | tuple) or not 2 <= len(value) <= most:
        raise BadInput(key, got=value, want=want)
    texts = tuple(words(text, f"{key}[{i}]", longest) for i, text in enumerate(value, 1))
    if len(set(texts)) < len(texts):
        raise BadInput(key, got=value, want=want)
    return texts


def _time_text(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


def _origins(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) and _ORIGIN.fullmatch(v) for v in value):
        raise BadInput("embed", got=value, want='a list of sites such as "https://example.org"')
    return tuple(value)


# ---- tasks as people write them down: one per line, or a table with columns task and text ----------------------------


def tasks_of_lines(text: str) -> list[dict[str, str]]:
    r"""One task per line: its text, or its id, a tab and its text (as spreadsheets copy two columns). Empty lines are skipped.

    >>> tasks_of_lines("Picture 1\n\n2\tPicture 2")
    [{'id': 'Picture 1'}, {'id': '2', 'text': 'Picture 2'}]
    """
    parts = [line.strip().partition("\t") for line in text.splitlines()]
    return [
        {"id": name.strip(), "text": shown.strip()} if tab else {"id": name.strip()}
        for name, tab, shown in parts
        if name.strip()
    ]


def lines_of_tasks(tasks: Iterable[tuple[str, str]]) -> str:
    r"""Ids and texts as lines that :func:`tasks_of_lines` reads back.

    >>> lines_of_tasks([("Picture 1", "Picture 1"), ("2", "Picture 2")])
    'Picture 1\n2\tPicture 2'
    """
    return "\n".join(name if name == shown else f"{name}\t{shown}" for name, shown in tasks)


def read_tasks(path: Path) -> list[dict[str, str]]:
    """Tasks from a table with columns task and text (CSV, JSON lines or Parquet), or from lines of text."""
    import polars as pl

    place = regular_file(path, "tasks")
    one_of(place.suffix, "tasks", TASK_SUFFIXES)
    try:
        if place.suffix == ".txt":
            return tasks_of_lines(place.read_text(encoding="utf-8-sig"))
        csv = partial(pl.read_csv, infer_schema=False)
        readers: dict[str, Any] = {".csv": csv, ".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet}
        frame = readers[place.suffix](place)
    except UnicodeDecodeError:
        raise BadInput("tasks", got=place.name, want="a text file in UTF-8") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = " ".join(str(error).split())
        raise BadInput("tasks", got=place.name, want=f"a table with columns task and text ({reason})") from None
    if "task" not in frame.columns:
        raise BadInput("tasks", got=Verbatim(f"columns {', '.join(frame.columns)}"), want="columns task and text")
    texts = frame["text"] if "text" in frame.columns else frame["task"]
    rows = zip(frame["task"].cast(pl.String).to_list(), texts.cast(pl.String).to_list(), strict=True)
    return [{"id": task, "text": text} for task, text in rows]
