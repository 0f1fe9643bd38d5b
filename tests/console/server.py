"""A real console in a process of its own, as an operator would start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from peerveil.cli import main; main()"]


class ConsoleServer:
    """``peerveil serve`` on a port of its own; whatever it writes is in a file beside its folder."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.log = folder, folder.parent / f"console-{time.monotonic_ns()}.log"
        self._file: IO[bytes] = self.log.open("wb")
        command = [*COMMAND, "serve", "--port", "0", "--folder", str(folder), *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PEERVEIL_")}
        self.process = subprocess.Popen(
            command, env={**inherited, **(env or {})}, stdout=self._file, stderr=self._file, cwd=folder
        )
        self.base = f"http://127.0.0.1:{self._port()}"

    def _port(self) -> int:
        patience = time.monotonic() + 120
        while time.monotonic() < patience:
            for line in self.log.read_text(encoding="utf-8").splitlines():
                if line.startswith("{") and '"listening"' in line:
                    return int(json.loads(line)["port"])
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        raise RuntimeError("the console does not listen")

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
