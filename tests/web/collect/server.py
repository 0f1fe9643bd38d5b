"""The collection in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.web.common.process import Served

if TYPE_CHECKING:
    from pathlib import Path


class Server(Served):
    """``peerveil collect serve``."""

    def __init__(self, url: str, folder: Path, port: int = 0) -> None:
        self.url = url
        super().__init__(["collect", "serve", "--port", str(port)], folder, folder, {"PEERVEIL_COLLECT_DB": url})
