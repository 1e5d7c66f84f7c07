"""Tasks, of runner_service."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, cast

import grpc

from gateway.clients.convert import idempotency
from gateway.http import Idempotency
from gateway.schemas import responses as schema
from protos.runner.v1 import runner_pb2, runner_pb2_grpc
from service_kit.errors import GroveError
from service_kit.rpc.client import streaming

__all__ = ["PAUSE_S", "SAFE", "Patience", "Renew", "ResponsesClient", "Trouble"]

SAFE = tuple(
    f"grovekeeper.runner.v1.Responses/{method}"
    for method in ("GetResponse", "GetInputItems", "CancelResponse", "CancelSession")
)
"""Methods that may be sent twice."""

PAUSE_S: Final = 0.2
"""Between two tries to follow what broke off."""
_LONG_ENOUGH: Final = "grovekeeper_deadline"
_PASSING: Final = frozenset({"grovekeeper_unavailable", _LONG_ENOUGH})

Renew = Callable[[], Awaitable[None]]
"""Makes the current passport a fresh one, or raises what the credential is now refused with."""


@dataclass(frozen=True, slots=True)
class Patience:
    """``call_s``: how long one call follows; ``broken_s``: how long a broken follow is retried."""

    call_s: float
    broken_s: float


class ResponsesClient:
    """Responses, their events, and cancelling."""

    def __init__(self, channel: grpc.aio.Channel, patience: Patience) -> None:
        self._responses = runner_pb2_grpc.ResponsesStub(channel)
        self._patience: Patience = patience

    async def create(
        self, asked: schema.CreateResponse, ignored: list[str], key: Idempotency
    ) -> schema.Response:
        """Accept a task: it is durable when this answers."""
        metadata = asked.metadata or schema.TaskMetadata()
        request = runner_pb2.CreateResponseRequest(
            input=bytes(asked.input),
            model=asked.model or "",
            harness_id=metadata.harness_id or "",
            memory_id=metadata.memory or "",
            previous_response_id=asked.previous_response_id or "",
            instructions=asked.instructions or "",
            store=True if asked.store is None else asked.store,
            max_output_tokens=asked.max_output_tokens or 0,
            max_step=asked.max_step or 0,
            timeout_seconds=asked.timeout_seconds or 0,
            background=asked.background or False,
            ignored_fields=ignored,
            idempotency=idempotency(key),
        )
        return _response(await self._responses.CreateResponse(request))

    async def get(self, response_id: str) -> schema.Response:
        """A response as it stands."""
        return _response(await self._responses.GetResponse(runner_pb2.GetResponseRequest(id=response_id)))

    async def input_items(self, response_id: str) -> bytes:
        """What a task was asked, as JSON."""
        request = runner_pb2.GetInputItemsRequest(id=response_id)
        return schema.input_items((await self._responses.GetInputItems(request)).json)

    async def delete(self, response_id: str) -> schema.DeletedResponse:
        """Delete a response that has ended."""
        answer = await self._responses.DeleteResponse(runner_pb2.DeleteResponseRequest(id=response_id))
        return schema.DeletedResponse(id=answer.id)

    async def cancel(self, response_id: str) -> schema.Response:
        """Stop a task; a terminal one is answered unchanged."""
        request = runner_pb2.CancelResponseRequest(id=response_id)
        return _response(await self._responses.CancelResponse(request))

    async def cancel_session(self, session_id: str) -> schema.CancelledSession:
        """Stop what runs in a session."""
        answer = await self._responses.CancelSession(runner_pb2.CancelSessionRequest(id=session_id))
        return schema.CancelledSession(id=answer.id or session_id, status=answer.status)

    async def follow(self, response_id: str, after: int, renew: Renew) -> AsyncGenerator[list[schema.Event]]:
        """The events after a number, in batches as they come, up to the terminal one.

        A follow that breaks is taken up again where it was, on whichever runner answers, for as long as
        ``patience.broken_s``; ``renew`` is called before, because a passport lives a minute and a task may
        live longer.
        """
        seen, ended, again = after, False, False
        trouble = Trouble(self._patience.broken_s)
        while True:
            trouble.tries()
            try:
                if again:
                    await renew()
                async with aclosing(self._once(response_id, seen)) as batches:
                    async for batch in batches:
                        seen, ended = batch[-1].sequence_number, batch[-1].terminal
                        trouble.ends()
                        yield batch
                if ended or await self._is_all_seen(response_id, seen == after, renew):
                    return
                trouble.met(GroveError("grovekeeper_unavailable", "The events of this response broke off."))
            except GroveError as error:
                trouble.met(error)
            again = True
            await asyncio.sleep(PAUSE_S)

    async def _is_all_seen(self, response_id: str, nothing_came: bool, renew: Renew) -> bool:
        """Whether a follow that ended without the terminal event began after it; else the runner drains."""
        await renew()
        try:
            return nothing_came and (await self.get(response_id)).terminal
        except GroveError as error:
            if error.code != "response_not_found":
                raise
            # It is not stored, and can be followed but no longer read: it has ended.
            return True

    async def _once(self, response_id: str, after: int) -> AsyncGenerator[list[schema.Event]]:
        request = runner_pb2.FollowResponseRequest(id=response_id, after=after)
        call = cast(
            "AsyncIterator[runner_pb2.EventBatch]",
            self._responses.FollowResponse(request, timeout=self._patience.call_s),
        )
        ended = False
        try:
            async with streaming(call) as batches:
                # To the very end: a call that is left after the terminal event would count as cancelled.
                async for batch in batches:
                    events = [
                        schema.Event(
                            sequence_number=one.sequence_number, json=one.json, terminal=one.terminal
                        )
                        for one in batch.events
                        if one.sequence_number > after
                    ]
                    if events:
                        ended = events[-1].terminal
                        yield events
        except GroveError:
            if not ended:
                raise


class Trouble:
    """How long a follow has been broken. An event ends it, and so does a call that held for long."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s: float = patience_s
        self._tried: float = 0.0
        self._since: float | None = None

    def tries(self) -> None:
        """A call begins."""
        self._tried = time.monotonic()

    def ends(self) -> None:
        """It works again."""
        self._since = None

    def met(self, error: GroveError) -> None:
        """A call broke. Raises ``error`` when it will not pass, or has not for too long."""
        now = time.monotonic()
        # A deadline only means that this call followed long enough.
        if self._since is None or error.code == _LONG_ENOUGH or now - self._tried > self._patience_s:
            self._since = now
        if error.code not in _PASSING or now - self._since > self._patience_s:
            raise error


def _response(message: runner_pb2.Response) -> schema.Response:
    return schema.Response(id=message.id, status=message.status, json=message.json)
