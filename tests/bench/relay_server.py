"""The relay by itself, in front of a stand-in model: ``python -m tests.bench.relay_server PORT``, the model's.

The first line of standard output is the relay's address for Chat Completions, and the token of a turn that does not end.
"""

import asyncio
import sys

import uvloop

from runner_service.loopback.server import listening
from runner_service.relay.apis import APIS
from runner_service.relay.server import RelayServer
from runner_service.relay.upstream import Upstream
from tests.bench.timed import MODEL


async def _relay(port: str) -> None:
    relay = RelayServer([Upstream(APIS["chat"], f"http://127.0.0.1:{port}/v1", "sk-bench")], idle_s=60)
    async with (
        listening("127.0.0.1:0") as loopback,
        relay.serving(loopback),
        relay.open("hsess_bench", "resp_bench", MODEL) as access,
    ):
        sys.stdout.write(f"{access.url('chat')} {access.token}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Serve until ended."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_relay(sys.argv[1]))


if __name__ == "__main__":
    main()
