"""A real server in a process of its own, as an operator would start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

COMMAND = [sys.executable, "-c", "from peerveil.cli import main; main()"]


class Server:
    """``peerveil collect serve`` on a port of its own; its journal is a file."""

    def __init__(self, url: str, folder: Path, port: int = 0) -> None:
        self.url, self.log = url, folder / f"journal-{time.monotonic_ns()}.log"
        self._file: IO[bytes] = self.log.open("wb")
        arguments = ["collect", "serve", "--port", str(port)]
        environment = {**os.environ, "PEERVEIL_COLLECT_DB": url}
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], env=environment, stdout=self._file, stderr=self._file, cwd=folder
        )
        self.port = self._listening()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _listening(self) -> int:
        patience = time.monotonic() + 120
        while time.monotonic() < patience:
            for line in self.log.read_text(encoding="utf-8").splitlines():
                if '"listening"' in line:
                    return int(json.loads(line)["port"])
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        raise RuntimeError("the server does not listen")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._file.close()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        self._file.close()
