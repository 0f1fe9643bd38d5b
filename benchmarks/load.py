"""A load on a service over real HTTP: many connections that each send the next request when the last is answered.

It is a program of its own (``python -m benchmarks.load``), so that the service has a processor to itself. Requests are made
beforehand and answers are hardly read: what is measured is the service.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Load:
    """What to send, and to whom: the same body always, or a list of bodies; request k uses token k, round and round."""

    port: int
    path: str
    tokens: list[str]
    body: dict[str, str] | list[str]
    requests: int
    connections: int


@dataclass(frozen=True)
class Answered:
    """How it went."""

    seconds: float
    accepted: int
    refused: int
    p50: float
    p99: float


async def _connection(load: Load, mine: list[bytes], waits: list[float], codes: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    for request in mine:
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        waits.append(time.perf_counter() - start)
        codes.append(int(head[9:12]))
    writer.close()


async def _run(load: Load) -> Answered:
    requests = [_request(load, k) for k in range(load.requests)]
    shares = [requests[k :: load.connections] for k in range(load.connections)]
    waits: list[float] = []
    codes: list[int] = []
    start = time.perf_counter()
    await asyncio.gather(*(_connection(load, share, waits, codes) for share in shares))
    seconds = time.perf_counter() - start
    good = sum(code == 202 for code in codes)
    waits.sort()
    return Answered(seconds, good, len(codes) - good, waits[len(waits) // 2], waits[int(0.99 * len(waits))])


def _request(load: Load, number: int) -> bytes:
    body = (load.body[number] if isinstance(load.body, list) else json.dumps(load.body)).encode()
    token = load.tokens[number % len(load.tokens)]
    head = (
        f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Idempotency-Key: load-{time.time_ns()}-{number}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    load = Load(**json.loads(sys.stdin.read()))
    try:
        import uvloop

        answered = uvloop.run(_run(load))
    except ImportError:
        answered = asyncio.run(_run(load))
    print(json.dumps(asdict(answered)))


if __name__ == "__main__":
    main()
