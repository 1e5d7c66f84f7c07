"""The programs a worker starts beside the threads of gRPC."""

import subprocess
import sys
from typing import Final

_STARTS: Final = """
import asyncio, sys
import provider_workers.main
import grpc, uvloop

async def calls(channel):
    while True:
        try:
            await channel.unary_unary("/a.Service/Method")(b"", timeout=5)
        except grpc.aio.AioRpcError:
            pass

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    busy = [asyncio.create_task(calls(channel)) for _ in range(8)]
    for _ in range(10):
        child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "")
        assert await child.wait() == 0
    for one in busy:
        one.cancel()
    await asyncio.gather(*busy, return_exceptions=True)
    await channel.close()
    await server.stop(None)

uvloop.run(main())
"""


def test_grpc_does_nothing_in_a_child_before_it_is_the_program_it_is_to_be():
    # Without what the tests say to gRPC for themselves.
    done = subprocess.run(
        [sys.executable, "-c", _STARTS], capture_output=True, text=True, timeout=60, check=False, env={}
    )
    assert done.returncode == 0, done.stderr
    assert "fork" not in done.stderr
