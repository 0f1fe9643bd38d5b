"""Inference beside the service: a process of its own for each campaign that is over, so that the service's memory stays small."""

from __future__ import annotations

import subprocess
import threading

from peerveil.services.serving import this_command


class Inferrer:
    """Starts ``peerveil collect infer`` for a campaign. The database's address comes from the environment.

    Several servers may start one for the same campaign: the first to claim it works, the others end at once.
    """

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def __call__(self, campaign: str) -> bool:
        """Start it, unless it runs already; whether it was started."""
        with self._lock:
            before = self._running.get(campaign)
            if before is not None and before.poll() is None:
                return False
            command = [*this_command(), "collect", "infer", "--campaign", campaign]
            quiet = subprocess.DEVNULL
            self._running[campaign] = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603
            return True
