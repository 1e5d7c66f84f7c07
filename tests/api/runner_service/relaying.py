"""How tests speak to the relay."""

from contextlib import AbstractAsyncContextManager

import httpx

from runner_service.domain.model import RelayAccess
from runner_service.domain.ports import Relay
from runner_service.relay.apis import APIS
from runner_service.relay.upstream import Upstream
from tests.fixtures.model_stub import ModelStub

KEY = "sk-secret-of-the-server"
KINDS = ("anthropic", "responses", "chat")
PATHS = {kind: APIS[kind].generate.removeprefix(APIS[kind].prefix) for kind in KINDS}


def upstreams(stub: ModelStub, *models: str) -> list[Upstream]:
    urls = {"anthropic": stub.root, "responses": stub.url, "chat": stub.url}
    return [Upstream(APIS[kind], urls[kind], KEY, models) for kind in KINDS]


def asking(*, stream: bool = True, model: str = "stub-1") -> bytes:
    """A body that is the same byte for byte only if nobody wrote it anew."""
    return b'{ "model":"%b" ,"stream":%b, "messages": [ ],"\xc3\xa9":1.10 }' % (
        model.encode(),
        b"true" if stream else b"false",
    )


async def post(
    http: httpx.AsyncClient, access: RelayAccess, kind: str, body: bytes, path: str = ""
) -> httpx.Response:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {access.token}"}
    return await http.post(access.url(kind) + (path or PATHS[kind]), content=body, headers=headers)


def opened(relay: Relay, response_id: str = "resp_1") -> AbstractAsyncContextManager[RelayAccess]:
    return relay.open("hsess_1", response_id, "stub-1")
