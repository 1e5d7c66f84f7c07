"""What an agent can be offered on some memories, asked of memory_service over gRPC."""

from collections.abc import Sequence

import grpc

from protos.memory.v1 import operating_pb2 as wire
from protos.memory.v1.operating_pb2_grpc import AbilitiesStub
from runner_service.domain.abilities import Abilities, Ability, NamedQuery, Operation

__all__ = ["GrpcAbilities"]


class GrpcAbilities:
    """Of the memories the current passport may read or write."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = AbilitiesStub(channel)

    async def of(self, memory_ids: Sequence[str]) -> Abilities:
        """Theirs, and the operations of the types they can hold."""
        answer = await self._stub.ListAbilities(wire.ListAbilitiesRequest(memory_ids=list(memory_ids)))
        operations = tuple(
            Operation(kind.type, one.name, one.description, one.input, one.requires == "write")
            for kind in answer.types
            for one in kind.operations
        )
        return Abilities(tuple(_ability(one) for one in answer.abilities), operations)


def _ability(message: wire.Ability) -> Ability:
    return Ability(
        memory_id=message.memory_id,
        provider=message.provider,
        queries=tuple(
            NamedQuery(one.name, one.description, one.params, one.requires == "write")
            for one in message.queries
        ),
        free_query_languages=tuple(message.free_query_languages),
        query_schema=message.query_schema,
        types=message.types,
        outside=message.outside,
    )
