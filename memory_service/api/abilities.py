"""The RPC of ``Abilities`` in protos/memory/v1/operating.proto: convert, call the use case, convert."""

from typing import Any, cast

from grpc.aio import ServicerContext

from memory_service.api.queries import named_query
from memory_service.api.types import registered
from memory_service.domain.abilities import Abilities, Ability
from memory_service.domain.queries import NamedQuery
from memory_service.domain.record_types import RecordType
from protos.memory.v1 import operating_pb2 as wire
from protos.memory.v1.operating_pb2_grpc import AbilitiesServicer as Base

Context = ServicerContext[Any, Any]


class AbilitiesServicer(Base):
    """What an agent's tools need to know."""

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities

    async def ListAbilities(
        self, request: wire.ListAbilitiesRequest, context: Context
    ) -> wire.ListAbilitiesResponse:
        listing = await self._abilities.list(request.memory_ids)
        return wire.ListAbilitiesResponse(
            abilities=[_ability(one) for one in listing.abilities],
            types=[registered(cast(RecordType, one)).type for one in listing.types],
        )


def _ability(one: Ability) -> wire.Ability:
    return wire.Ability(
        memory_id=one.memory_id,
        provider=one.provider,
        queries=[named_query(cast(NamedQuery, query)) for query in one.queries],
        free_query_languages=one.free_query_languages,
        query_schema=one.query_schema,
        types=one.types,
        outside=one.outside,
    )
