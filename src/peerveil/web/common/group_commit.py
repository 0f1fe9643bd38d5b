"""Group commit: requests that come together are written in one transaction, and answered when it is on the disk.

One thread writes. While it waits for the disk, the next requests gather; it takes them all at once. So the number of
syncs does not grow with the number of requests, and nobody gets the answer "taken" before it is true.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection

from peerveil.core.errors import PeerveilError
from peerveil.web.common.database import ServiceDatabase
from peerveil.web.common.errors import Clash, Unavailable

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_LARGEST_GROUP: Final = 400  # requests in one transaction
_MOST_WAITING: Final = 20_000  # more are refused at once, and lose nothing
_ATTEMPTS: Final = 5  # for a request that clashes with another process
_STOPPING: Final = "the service is stopping; nothing was taken"


class GroupCommit(threading.Thread, Generic[Request, Answer]):
    """A writer thread. ``work`` gets the open transaction and the requests, and returns an answer or a refusal for each.

    A refusal is an exception *in the list*, which concerns its own request alone. An exception that ``work`` raises rolls
    everything back; unless it is the database's, the requests are then tried one by one, so that one cannot harm another.
    """

    def __init__(
        self,
        database: ServiceDatabase,
        work: Callable[[Connection, Sequence[Request]], Sequence[Answer | PeerveilError]],
        *,
        waiting: int = _MOST_WAITING,
    ) -> None:
        super().__init__(name="group-commit", daemon=True)
        self._database = database
        self._work = work
        self._queue: queue.Queue[tuple[Request, Future[Answer]] | None] = queue.Queue(waiting)
        self._stopping = False

    def stop(self) -> None:
        """Write what has come, then end. Later requests are refused."""
        self._stopping = True
        while self.is_alive():
            with suppress(queue.Full):
                self._queue.put(None, timeout=1.0)
                self.join()
        with suppress(queue.Empty):  # the writer died before: nobody is left waiting
            while True:
                unwritten = self._queue.get_nowait()
                if unwritten is not None:
                    _settle([unwritten[1]], [Unavailable(_STOPPING)])

    def put(self, request: Request) -> Future[Answer]:
        """Hand in a request; the future is done when it is on the disk, or refused."""
        if self._stopping or self.ident is None:
            raise Unavailable(_STOPPING)
        if not self.is_alive():
            raise Unavailable("the writer has died, the service must be restarted; nothing was taken")
        future: Future[Answer] = Future()
        try:
            self._queue.put_nowait((request, future))
        except queue.Full:
            raise Unavailable("too many requests at once; nothing was taken") from None
        return future

    async def submit(self, request: Request) -> Answer:
        """Hand in a request and wait for its answer."""
        return await asyncio.wrap_future(self.put(request))

    def run(self) -> None:
        """Called by :meth:`start`."""
        last = False
        while not last:
            group = [self._queue.get()]
            with suppress(queue.Empty):
                while len(group) < _LARGEST_GROUP and group[-1] is not None:
                    group.append(self._queue.get_nowait())
            last = group[-1] is None
            requests = [pair for pair in group if pair is not None]
            try:
                self._write(requests)
            except BaseException as error:  # a fault of ours: nobody waits forever
                unanswered = [future for _, future in requests if not future.done()]
                _settle(unanswered, [error] * len(unanswered))
                if not isinstance(error, Exception):
                    raise

    def _write(self, group: list[tuple[Request, Future[Answer]]], attempt: int = 1) -> None:
        if not group:
            return
        futures = [future for _, future in group]
        try:
            with self._database.writing("take") as connection:
                answers = self._work(connection, [request for request, _ in group])
        except Exception as error:
            clash = isinstance(error, Clash)  # another process was quicker with a key: look again, one by one
            fault = clash or not isinstance(error, self._database.error)
            if fault and len(group) > 1:
                for pair in group:
                    self._write([pair])
            elif clash and attempt < _ATTEMPTS:
                self._write(group, attempt + 1)
            else:
                _settle(futures, [error] * len(futures))
        else:
            _settle(futures, answers)


def _settle(futures: Sequence[Future[Answer]], answers: Sequence[Answer | BaseException]) -> None:
    for future, answer in zip(futures, answers, strict=True):
        if not future.set_running_or_notify_cancel():
            continue  # the client went away
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
