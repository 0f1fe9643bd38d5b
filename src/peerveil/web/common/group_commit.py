"""Group commit: requests that come together are written in one transaction, and answered when it is on the disk.

One thread writes. While it waits for the disk, the next requests gather; it takes them all at once. So the number of
syncs does not grow with the number of requests, and nobody is told "taken" before it is true.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from peerveil.web.common.errors import Clash, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from peerveil.core.errors import PeerveilError
    from peerveil.web.common.store import ServiceDatabase

Job = TypeVar("Job")
Answer = TypeVar("Answer")
Waiting: TypeAlias = Future[Answer] | asyncio.Future[Answer]

MOST: Final = 400
"""Requests in one transaction."""

ATTEMPTS: Final = 5
"""How often a job that clashes with another process is tried."""

WAITING: Final = 20_000
"""Requests that may wait; more are refused at once, and lose nothing."""


class GroupCommit(Generic[Job, Answer]):
    """A writer thread. ``work`` gets the open transaction and the jobs, and returns an answer or a refusal for each.

    A refusal is an exception *in the list*, which concerns its own job alone. An exception that ``work`` raises rolls
    everything back; unless it is the database's, the jobs are then tried one by one, so that one cannot harm another.
    """

    def __init__(
        self,
        database: ServiceDatabase,
        work: Callable[[Connection, Sequence[Job]], Sequence[Answer | PeerveilError]],
        *,
        action: str = "take",
        most: int = MOST,
        waiting: int = WAITING,
    ) -> None:
        self._database = database
        self._work = work
        self._action = action
        self._most = most
        self._queue: queue.Queue[tuple[Job, Waiting[Answer]] | None] = queue.Queue(waiting)
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether somebody writes."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Write what has come, then end. Later requests are refused."""
        self._stopping = True
        while self.is_alive():
            assert self._thread is not None
            with suppress(queue.Full):
                self._queue.put(None, timeout=1.0)
                self._thread.join()
        self._thread = None
        with suppress(queue.Empty):  # the writer died before: nobody is left waiting
            while True:
                left = self._queue.get_nowait()
                if left is not None:
                    _settle([left[1]], [Unavailable("the service is stopping; nothing was taken")])

    def put(self, job: Job) -> Future[Answer]:
        """Hand in a job; the future is done when it is on the disk, or refused."""
        future: Future[Answer] = Future()
        self._put(job, future)
        return future

    async def submit(self, job: Job) -> Answer:
        """Hand in a job and wait for its answer."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._put(job, waiting)
        return await waiting

    def _put(self, job: Job, future: Waiting[Answer]) -> None:
        if self._stopping or self._thread is None:
            raise Unavailable("the service is stopping; nothing was taken")
        if not self._thread.is_alive():
            raise Unavailable("the writer has died, the service must be restarted; nothing was taken")
        try:
            self._queue.put_nowait((job, future))
        except queue.Full:
            raise Unavailable("too many requests at once; nothing was taken") from None

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            jobs, last = [first], False
            while len(jobs) < self._most and not last:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                else:
                    jobs.append(more)
            try:
                self._write(jobs)
            except BaseException as error:  # a fault of ours: nobody waits for ever
                unanswered = [future for _, future in jobs if not future.done()]
                _settle(unanswered, [error] * len(unanswered))
                if not isinstance(error, Exception):
                    raise
            if last:
                return

    def _write(self, jobs: list[tuple[Job, Waiting[Answer]]], attempt: int = 1) -> None:
        futures = [future for _, future in jobs]
        try:
            with self._database.writing(self._action) as connection:
                answers = self._work(connection, [job for job, _ in jobs])
        except Clash as error:  # another process was quicker with a key: look again, one by one
            if len(jobs) == 1 and attempt == ATTEMPTS:
                _settle(futures, [error])
            else:
                for one in jobs:
                    self._write([one], attempt + 1 if len(jobs) == 1 else 1)
        except self._database.error as error:
            _settle(futures, [error] * len(futures))
        except Exception as error:
            if len(jobs) == 1:
                _settle(futures, [error])
            else:
                for one in jobs:
                    self._write([one])
        else:
            _settle(futures, answers)


def _settle(futures: Sequence[Waiting[Answer]], answers: Sequence[Answer | BaseException]) -> None:
    """Answer everybody; the event loop is woken once, however many wait in it."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Answer], Answer | BaseException]]] = {}
    for future, answer in zip(futures, answers, strict=True):
        if isinstance(future, asyncio.Future):
            loops.setdefault(future.get_loop(), []).append((future, answer))
        elif future.set_running_or_notify_cancel():
            _answer(future, answer)
    for loop, pairs in loops.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_answer_all, pairs)


def _answer_all(pairs: Sequence[tuple[asyncio.Future[Answer], Answer | BaseException]]) -> None:
    for future, answer in pairs:
        if not future.done():  # the client went away
            _answer(future, answer)


def _answer(future: Waiting[Answer], answer: Answer | BaseException) -> None:
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)
