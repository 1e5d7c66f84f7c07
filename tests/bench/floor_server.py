"""The floors, each a process like the service it is a floor of: ``python -m tests.bench.floor_server KIND``.

``rpc`` answers gRPC calls with a constant; ``http`` is a bare FastAPI that makes one gRPC call and
writes JSON, or passes a gRPC stream on as server-sent events. Neither has identity, deadlines, traces
or a database. ``http`` is also the stand-in chat model (OpenAI's chat completions, streamed): its words
say when they were written. The first line of standard output is the port.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter_ns

import grpc
import msgspec
import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from protos.authz.v1 import authz_pb2
from protos.memory.v1 import memory_pb2, memory_pb2_grpc
from protos.runner.v1 import runner_pb2, runner_pb2_grpc
from tests.bench.timed import EVENT, EVENTS, MODEL, PERIOD_S, QUICK, stamp

_NODE = authz_pb2.Node(
    id="hmem_" + "0" * 32,
    privileges=[
        authz_pb2.PRIVILEGE_READ,
        authz_pb2.PRIVILEGE_WRITE,
        authz_pb2.PRIVILEGE_CREATE,
        authz_pb2.PRIVILEGE_DELETE,
    ],
)
_MEMORY = memory_pb2.Memory(
    id=_NODE.id,
    name="Floor",
    description="What the floor answers.",
    provider="native",
    privileges=_NODE.privileges,
)


async def _check(_request: authz_pb2.CheckRequest, _context: object) -> authz_pb2.Node:
    return _NODE


async def _memory(_request: memory_pb2.GetMemoryRequest, _context: object) -> memory_pb2.Memory:
    return _MEMORY


async def _follow(
    _request: runner_pb2.FollowResponseRequest, _context: object
) -> AsyncIterator[runner_pb2.EventBatch]:
    for number in range(EVENTS):
        await asyncio.sleep(PERIOD_S)
        event = {"type": EVENT, "sequence_number": number, "delta": stamp(perf_counter_ns())}
        yield runner_pb2.EventBatch(
            events=[runner_pb2.Event(sequence_number=number, json=msgspec.json.encode(event))]
        )


def _handlers() -> list[grpc.GenericRpcHandler]:
    """The handlers under the product's own method names, so that its stubs reach them."""
    return [
        grpc.method_handlers_generic_handler(
            "grovekeeper.authz.v1.Access",
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    _check, authz_pb2.CheckRequest.FromString, authz_pb2.Node.SerializeToString
                )
            },
        ),
        grpc.method_handlers_generic_handler(
            "grovekeeper.memory.v1.Memories",
            {
                "GetMemory": grpc.unary_unary_rpc_method_handler(
                    _memory, memory_pb2.GetMemoryRequest.FromString, memory_pb2.Memory.SerializeToString
                )
            },
        ),
        grpc.method_handlers_generic_handler(
            "grovekeeper.runner.v1.Responses",
            {
                "FollowResponse": grpc.unary_stream_rpc_method_handler(
                    _follow,
                    runner_pb2.FollowResponseRequest.FromString,
                    runner_pb2.EventBatch.SerializeToString,
                )
            },
        ),
    ]


async def _rpc() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(_handlers())
    _say(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await server.wait_for_termination()


def _app(rpc: str) -> FastAPI:
    @asynccontextmanager
    async def connected(app: FastAPI) -> AsyncGenerator[None]:
        async with grpc.aio.insecure_channel(rpc) as channel:
            app.state.memories = memory_pb2_grpc.MemoriesStub(channel)
            app.state.responses = runner_pb2_grpc.ResponsesStub(channel)
            yield

    app = FastAPI(lifespan=connected)

    @app.get("/v1/memories/{memory_id}")
    async def memory(memory_id: str) -> Response:
        stub: memory_pb2_grpc.MemoriesAsyncStub = app.state.memories
        found = await stub.GetMemory(memory_pb2.GetMemoryRequest(id=memory_id))
        body = {
            "id": found.id,
            "object": "memory",
            "name": found.name,
            "description": found.description,
            "restricted": found.restricted,
            "provider": found.provider,
            "privileges": list(found.privileges),
            "records": {"count": found.records_count},
            "children": {"count": found.children_count},
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> StreamingResponse:
        quick = QUICK.encode() in await request.body()
        return StreamingResponse(_completion(1 if quick else EVENTS), media_type="text/event-stream")

    @app.get("/v1/models")
    async def models() -> Response:
        body = {
            "object": "list",
            "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "bench"}],
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    @app.get("/v1/events")
    async def events() -> StreamingResponse:
        stub: runner_pb2_grpc.ResponsesAsyncStub = app.state.responses

        async def lines() -> AsyncGenerator[bytes]:
            async for batch in stub.FollowResponse(runner_pb2.FollowResponseRequest(id="x", after=-1)):
                for event in batch.events:
                    yield b"data: " + event.json + b"\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return app


async def _completion(words: int) -> AsyncGenerator[bytes]:
    """Stamped words at an even pace, as an OpenAI-compatible endpoint streams them."""

    def chunk(**fields: object) -> bytes:
        body = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": MODEL, **fields}
        return b"data: " + msgspec.json.encode(body) + b"\n\n"

    def choice(delta: dict[str, str], reason: str | None = None) -> list[dict[str, object]]:
        return [{"index": 0, "delta": delta, "finish_reason": reason}]

    yield chunk(choices=choice({"role": "assistant", "content": ""}))
    for _ in range(words):
        if words > 1:
            await asyncio.sleep(PERIOD_S)
        yield chunk(choices=choice({"content": stamp(perf_counter_ns())}))
    yield chunk(choices=choice({}, "stop"))
    yield chunk(choices=[], usage={"prompt_tokens": 1, "completion_tokens": words, "total_tokens": words + 1})
    yield b"data: [DONE]\n\n"


async def _http(rpc: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(_app(rpc), log_level="warning", access_log=False, http="httptools", ws="none")
        _say(int(listener.getsockname()[1]))
        await uvicorn.Server(config).serve(sockets=[listener])


def _say(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def main() -> None:
    """``rpc``, or ``http`` with the address of the ``rpc`` one."""
    kind, *rest = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_rpc() if kind == "rpc" else _http(rest[0]))


if __name__ == "__main__":
    main()
