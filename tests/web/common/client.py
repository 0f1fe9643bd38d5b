"""Talking to an application without a network: an event loop in a thread, so that tests stay plain functions."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from starlette.applications import Starlette


class Client:
    """Start an application (unless somebody else does), send requests to it, stop it."""

    def __init__(self, app: Starlette, base: str = "http://test", *, start: bool = True) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._lifespan: Any = None
        if start:
            self._lifespan = app.router.lifespan_context(app)
            self._run(self._lifespan.__aenter__())
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url=base)

    def _run(self, task: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(60)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer: httpx.Response = self._run(self.http.request(method, path, **more))
        return answer

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def together(self, requests: list[tuple[str, str, dict[str, Any]]]) -> list[httpx.Response]:
        """Many requests at the same time."""

        async def all_of_them() -> Any:
            return await asyncio.gather(*(self.http.request(m, p, **more) for m, p, more in requests))

        answers: list[httpx.Response] = self._run(all_of_them())
        return answers

    def close(self) -> None:
        self._run(self.http.aclose())
        if self._lifespan is not None:
            self._run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
