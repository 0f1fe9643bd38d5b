"""A service in a process of its own, as an operator would start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from peerveil.cli import main; main()"]


class Served:
    """A ``peerveil ... serve`` on a port of its own; whatever it writes is in a file. It answers once this is made."""

    def __init__(self, arguments: list[str], folder: Path, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log / f"journal-{time.monotonic_ns()}.log"
        self._file: IO[bytes] = self.log.open("wb")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PEERVEIL_")}
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], env={**inherited, **environment}, stdout=self._file, stderr=self._file, cwd=folder
        )
        self.port = self._listening()

    @property
    def base(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        """Everything it wrote so far."""
        return self.log.read_text(encoding="utf-8")

    def _listening(self) -> int:
        patience = time.monotonic() + 120
        while time.monotonic() < patience:
            for line in self.said().splitlines():
                if line.startswith("{") and '"listening"' in line:
                    port = int(json.loads(line)["port"])
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
                        assert answer.status == 200
                    return port
            if self.process.poll() is not None:
                raise RuntimeError(self.said())
            time.sleep(0.05)
        raise RuntimeError("the service does not listen")

    def kill(self) -> None:
        """As if the power went."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._file.close()

    def stop(self) -> None:
        """As an operator stops it."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self._file.close()
