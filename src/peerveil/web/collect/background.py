"""Inference beside the service: a process of its own for each campaign that is over, so that the service's memory stays small."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import Final

from peerveil.web.common.serving import this_command

VARIABLE: Final = "PEERVEIL_COLLECT_DB"
"""Where processes find the database's address: not among their arguments, since it may hold a password."""


class Inferrer:
    """Starts ``peerveil collect infer`` for a campaign, on the database at ``url`` or else at the environment's address.

    Several servers may start one for the same campaign: the first to claim it works, the others end at once.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def __call__(self, campaign: str, *, so_far: bool = False) -> bool:
        """Start it, unless it runs already; whether it was started."""
        with self._lock:
            before = self._running.get(campaign)
            if before is not None and before.poll() is None:
                return False
            command = [*this_command(), "collect", "infer", "--campaign", campaign, *(["--so-far"] if so_far else [])]
            environment = os.environ if self._url is None else {**os.environ, VARIABLE: self._url}
            quiet = subprocess.DEVNULL
            self._running[campaign] = subprocess.Popen(  # noqa: S603
                command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet
            )
            return True

    def state(self, campaign: str) -> str:
        """What became of the last process that was started here: ``"none"``, ``"running"``, ``"done"`` or ``"failed"``."""
        with self._lock:
            last = self._running.get(campaign)
            code = None if last is None else last.poll()
        return "none" if last is None else "running" if code is None else "failed" if code else "done"
