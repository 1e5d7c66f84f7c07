"""The live feeds of harnesses, of runner_service."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final, cast

import grpc
import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from gateway.clients.responses import PAUSE_S, Patience, Renew, Trouble
from gateway.schemas import responses as schema
from protos.runner.v1 import sessions_pb2, sessions_pb2_grpc
from service_kit.errors import GroveError
from service_kit.rpc.client import streaming

__all__ = ["FeedsClient"]

_CALL_S: Final = 60.0
"""A feed has no end: this often its credential is looked at again, as it would be for another request."""
_REMEMBERED: Final = 1000
"""Responses of which the last number is kept: more than run on a harness at a time, or ended since the last look."""


class _Place:
    """Where a feed is, so that it can be taken up again."""

    def __init__(self, harness_id: str) -> None:
        self._harness_id: str = harness_id
        self._began: Timestamp | None = None
        self._at: Timestamp | None = None
        self._positions: dict[str, int] = {}

    @property
    def request(self) -> sessions_pb2.FollowHarnessRequest:
        return sessions_pb2.FollowHarnessRequest(
            harness_id=self._harness_id, began=self._began, since=self._at, positions=self._positions
        )

    def move(self, fed: sessions_pb2.Fed) -> list[schema.Event]:
        """The events that are new."""
        self._began, self._at = self._began or fed.at, fed.at
        last = self._positions.pop(fed.response_id, -1)
        fresh = [one for one in fed.events if one.sequence_number > last]
        if fed.response_id:
            self._positions[fed.response_id] = fresh[-1].sequence_number if fresh else last
        while len(self._positions) > _REMEMBERED:
            del self._positions[next(iter(self._positions))]
        head = b'{"response_id":%b,"session_id":%b,' % (
            msgspec.json.encode(fed.response_id),
            msgspec.json.encode(fed.session_id),
        )
        return [
            # Never the last one: a feed goes on.
            schema.Event(
                sequence_number=one.sequence_number,
                json=head + one.json.lstrip()[1:],
                terminal=False,
            )
            for one in fresh
        ]


class FeedsClient:
    """What happens on a harness, as it happens."""

    def __init__(self, channel: grpc.aio.Channel, patience: Patience) -> None:
        self._feeds = sessions_pb2_grpc.FeedsStub(channel)
        self._patience: Patience = patience

    async def follow(self, harness_id: str, renew: Renew) -> AsyncGenerator[list[schema.Event]]:
        """The events of every response of the caller's on a harness, each with its ``response_id`` and ``session_id``;
        a feed that breaks is taken up again where it was.
        """
        place, trouble, again = _Place(harness_id), Trouble(self._patience.broken_s), False
        while True:
            trouble.tries()
            try:
                if again:
                    await renew()
                async with aclosing(self._once(place)) as batches:
                    async for batch in batches:
                        trouble.ends()
                        if batch:
                            yield batch
                trouble.met(GroveError("grovekeeper_unavailable", "The events of this harness broke off."))
            except GroveError as error:
                trouble.met(error)
            again = True
            await asyncio.sleep(PAUSE_S)

    async def _once(self, place: _Place) -> AsyncGenerator[list[schema.Event]]:
        call = cast(
            "AsyncIterator[sessions_pb2.Fed]",
            self._feeds.FollowHarness(place.request, timeout=min(_CALL_S, self._patience.call_s)),
        )
        async with streaming(call) as batches:
            async for fed in batches:
                yield place.move(fed)
