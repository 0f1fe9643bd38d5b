"""A demonstration: the gateway with seconds for minutes, so that a post can be watched on its way. Nobody is protected.

It has a database and a key of its own, which are removed at the end: no gateway in use can become a demonstration, and
what was posted into a demonstration is never taken for a protected post. Answers, feeds, page and log say what it is.
"""

import os
import tempfile
import tomllib
from collections.abc import Callable
from typing import Any

from peerveil.core.files import table
from peerveil.web.common import Journal, Vault
from peerveil.web.gateway.app import create_app
from peerveil.web.gateway.core import Gateway
from peerveil.web.gateway.pace import serve_paced
from peerveil.web.gateway.settings import GatewaySettings, example
from peerveil.web.gateway.space import NOT_PRIVATE, Space


def demo_settings(path: str | os.PathLike[str] | None) -> GatewaySettings:
    """The settings of a demonstration: those of a file, or of the example, with other durations."""
    if path is not None:
        return GatewaySettings.read(path, demo=True)
    forum = table(tomllib.loads(example())["spaces"], "forum")
    return GatewaySettings(spaces=(Space.read("forum", forum, demo=True),))


def serve_demo(
    path: str | os.PathLike[str] | None, host: str | None, port: int | None, say: Callable[[str], Any]
) -> None:
    """Serve until stopped; ``say`` gets the requests to try."""
    settings, journal = demo_settings(path), Journal("gateway")
    space, address = settings.spaces[0], host or settings.host
    with tempfile.TemporaryDirectory(prefix="peerveil-demo-") as folder:
        vault = Vault.read(Vault.new_key())
        with Gateway(f"{folder}/gateway.db", vault, create=True, watch=settings.watch()) as gateway:
            settings.configure(gateway)
            author = gateway.issue_token(role="author", space=space.name, actor="you")
            operator = gateway.issue_token(role="operator", space="*")

            def explain(bound: int) -> None:
                url = f"http://{address}:{bound}"
                say(
                    f"{NOT_PRIVATE} In another terminal:\n\n"
                    f"  curl -X POST {url}/v1/spaces/{space.name}/posts -H 'Authorization: Bearer {author}' \\\n"
                    "    -H \"Idempotency-Key: $(date +%s%N)\" -H 'Content-Type: application/json' \\\n"
                    '    -d \'{"thread": "paper 12", "content": "I agree."}\'\n\n'
                    f"  curl {url}/v1/spaces/{space.name}/feed\n\n"
                    f"The post appears within {space.longest_delay('paper 12')} seconds. "
                    f"Operator's page: {url}/operator, password {operator}\n"
                )

            number = settings.port if port is None else port
            serve_paced(create_app(gateway, journal), address, number, journal, is_private=False, ready=explain)
