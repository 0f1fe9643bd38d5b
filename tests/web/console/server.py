"""The console in a process of its own, as a chair would start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.web.common.process import Served

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ConsoleServer(Served):
    """``peerveil console serve`` in a folder. If it is killed, its workers end by themselves after the job they are at."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        command = ["console", "serve", "--port", "0", "--folder", str(folder), *arguments]
        super().__init__(command, folder, folder.parent, env or {})
