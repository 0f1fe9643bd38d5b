"""A real console in a process of its own, as a chair would start it."""

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


class ConsoleServer:
    """``peerveil serve`` on a port of its own; its journal, and what it says to whoever started it, are one file."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder.parent / f"journal-{time.monotonic_ns()}.log"
        self._file: IO[bytes] = self.log.open("wb")
        command = [*COMMAND, "serve", "--port", "0", "--folder", str(folder), *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PEERVEIL_")}
        self.process = subprocess.Popen(
            command, env={**environment, **(env or {})}, stdout=self._file, stderr=self._file, cwd=folder
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
                if '"listening"' in line and line.startswith("{"):
                    return self._answering(int(json.loads(line)["port"]))
            if self.process.poll() is not None:
                raise RuntimeError(self.said())
            time.sleep(0.05)
        raise RuntimeError("the console does not listen")

    def _answering(self, port: int) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
            assert answer.status == 200
        return port

    def kill(self) -> None:
        """As if the machine's power went; its workers end by themselves after the job they are at."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._file.close()

    def stop(self) -> None:
        """As an operator stops it."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self._file.close()
