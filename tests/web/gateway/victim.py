"""A process that has everything imported, and forks servers and workers to be killed: each is up in a moment."""

from __future__ import annotations

import os
import random
import sys
import time
from importlib import import_module
from pathlib import Path


def child(role: str, url: str, port: int) -> None:
    from peerveil.web.common import Journal, Vault
    from peerveil.web.common.serving import serve
    from peerveil.web.gateway import Gateway, GatewayWorker, create_app
    from peerveil.web.gateway.memory import Memory
    from peerveil.web.gateway.posts import Change

    with Path(os.devnull).open("w") as nowhere, Gateway(url, Vault.find()) as gateway:
        journal = Journal("victim", nowhere)
        gateway.compaction_seconds = 2.0
        if role == "redraws":  # broken on purpose: delays that are read from the disk are drawn again
            apply = Memory.apply

            def redraw(self: Memory, change: Change, shift: int) -> None:
                apply(self, change, shift)
                if change.post is not None:
                    change.post.due += random.randrange(-2_000_000, 2_000_000)

            Memory.apply = redraw  # type: ignore[method-assign]
            role = "both"
        if role == "worker":
            gateway.group.start()
            worker = GatewayWorker(gateway, journal)
            worker.start()
            while True:
                time.sleep(60)
        else:
            gateway.leader.may_lead = role == "both"
            serve(create_app(gateway, journal, worker=role == "both"), "127.0.0.1", port, journal)


PARTS = (
    "peerveil.web.gateway.app",
    "peerveil.web.gateway.core",
    "peerveil.web.gateway.publish",
    "peerveil.web.common.serving",
    "psycopg",
    "uvicorn",
    "uvloop",
    "httptools",
)


def main() -> None:
    for part in PARTS:
        import_module(part)
    url, port = sys.argv[1], int(sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        role = line.strip()
        pid = os.fork()
        if pid == 0:
            try:
                child(role, url, port)
            finally:
                os._exit(1)
        print(pid, flush=True)
        os.waitpid(-1, os.WNOHANG)
        while True:  # those that were killed before
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


if __name__ == "__main__":
    main()
