"""Creating, reading, changing and deleting memories (Memories, sections 2 and 3)."""

import hashlib
from typing import Final

import msgspec

from memory_service.domain import errors
from memory_service.domain.describe import Describer
from memory_service.domain.keyed import Keyed
from memory_service.domain.model import (
    Capabilities,
    Changed,
    Description,
    Memory,
    MemoryPage,
    Node,
    Page,
    Privilege,
)
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from service_kit.clock import Clock
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency
from service_kit.ids import new_id

MAX_NAME: Final = 200
"""Longest name, in characters."""
MAX_DESCRIPTION: Final = 4_000
"""Longest description, in characters."""

_CREATE: Final = "create_memory"

_encoder: Final = msgspec.json.Encoder()
_answers: Final = msgspec.json.Decoder(Memory)


class Memories:
    """The use cases of a memory as an object in the tree."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        clock: Clock,
        default_provider: str,
    ) -> None:
        self._access = access
        self._descriptions = descriptions
        self._provider = provider
        self._clock = clock
        self._default_provider = default_provider
        self._describer = Describer(access, descriptions, provider)

    async def create(
        self, stated: Description, parent_id: str, *, restricted: bool, idempotency: Idempotency
    ) -> Memory:
        """Creates a memory below ``parent_id`` ("": a root); ``stated`` carries name, description and provider.

        The description is written first and the node, which is what makes a memory be there, in one step after
        it: a crash between the two leaves a description that nobody can reach, which the reconciler removes,
        and never a memory half there. With a key the id is derived from it, so a repeat after such a crash
        finishes the same memory.
        """
        _check_name(stated.name)
        _check_description(stated.description)
        key = Keyed.of(_CREATE, idempotency)
        done = await self._descriptions.answered(key)
        if done is not None:
            return await self._again(done)
        provider = await self._provider_for(stated.provider, parent_id)
        memory_id = _derived_id(key) if key else new_id("hmem")
        now = self._clock.now()
        description = Description(memory_id, stated.name, stated.description, provider, now, now)
        async with self._descriptions.begin() as tx:
            done = await tx.claim(key)
            if done is None:
                await tx.add(description)
        if done is not None:
            return await self._again(done)
        node = await self._plant(description, parent_id, restricted=restricted, key=key)
        return await self._settled(key, Memory(node, description, 0))

    async def _again(self, answer: bytes) -> Memory:
        """What a repeat is answered, as long as its caller still sees the memory."""
        memory = _answers.decode(answer)
        await self._access.check(memory.node.id, None)
        return memory

    async def _settled(self, key: Keyed, memory: Memory) -> Memory:
        """Keeps the answer of a key, and answers what is kept."""
        if not key:
            return memory
        async with self._descriptions.begin() as tx:
            return _answers.decode(await tx.settle(key, _encoder.encode(memory), memory.node.id))

    async def _plant(self, description: Description, parent_id: str, *, restricted: bool, key: Keyed) -> Node:
        """Makes the node. Refused, its description goes too; that of a keyed one is left to the reconciler,
        for it may be shared with a repeat that is under way.
        """
        try:
            return await self._access.create(description.id, parent_id, restricted=restricted)
        except GroveError as error:
            if not error.retryable:
                async with self._descriptions.begin() as tx:
                    if key:
                        await tx.release(key)
                    else:
                        await tx.remove([description.id])
            raise

    async def get(self, memory_id: str) -> Memory:
        """A memory on which the caller holds any privilege."""
        return await self._describer.one(memory_id, None)

    async def children(self, parent_id: str, page: Page) -> MemoryPage:
        """The direct children the caller may see."""
        nodes = await self._access.children(parent_id, page, None)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def entry_points(self, page: Page) -> MemoryPage:
        """Where the caller enters the tree."""
        nodes = await self._access.entry_points(page)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def descendants(self, ancestor_id: str, page: Page) -> MemoryPage:
        """Everything below an ancestor that the caller may see, nearest first."""
        nodes = await self._access.descendants(ancestor_id, None, 0, page)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def update(self, memory_id: str, changed: Changed) -> Memory:
        """Renames, describes, restricts or moves. Writing the words needs ``write``, the rest is authz's to say."""
        if changed.name is not None:
            _check_name(changed.name)
        if changed.description is not None:
            _check_description(changed.description)
        if changed.provider is not None:
            current = await self._describer.one(memory_id, None)
            if changed.provider != current.description.provider:
                raise errors.provider_is_fixed()
        words = changed.name is not None or changed.description is not None
        node = await self._access.update(
            memory_id,
            parent_id=changed.parent_id,
            restricted=changed.restricted,
            other=Privilege.WRITE if words else None,
        )
        async with self._descriptions.begin() as tx:
            description = await tx.change(memory_id, changed.name, changed.description, self._clock.now())
        return await self._describer.of_node(node, description)

    async def delete(self, memory_id: str) -> Memory:
        """Deletes a memory, its records and its descendants; answers it as it was.

        From authz's answer on nobody sees any of it. Names and records go in jobs, however many they are; a
        crash before they are enqueued is mended by the reconciler. ``memory_busy`` while a consolidation
        runs in it or below it.
        """
        memory = await self._describer.one(memory_id, Privilege.DELETE)
        await self._access.delete(memory_id)
        async with self._descriptions.begin() as tx:
            await tx.enqueue_clearing()
        return memory

    async def providers(self) -> tuple[Capabilities, ...]:
        """The capability documents of the connected providers."""
        return await self._provider.describe()

    async def _provider_for(self, named: str, parent_id: str) -> str:
        """The provider named, else the parent's, else the default. Needs ``create`` on the parent."""
        if parent_id:
            with errors.naming("parent_id"):
                await self._access.check(parent_id, Privilege.CREATE)
        if named:
            if named not in {one.id for one in await self._provider.describe()}:
                raise errors.unknown_provider(named)
            return named
        if not parent_id:
            return self._default_provider
        parent = (await self._descriptions.get([parent_id])).get(parent_id)
        if parent is None:
            raise errors.memory_not_found("parent_id")
        return parent.provider


def _derived_id(key: Keyed) -> str:
    """The id a keyed create always gets; another request under the same key, once that is free again, gets
    another. Knowing it opens nothing: access never depends on an id.
    """
    text = f"{key.principal}\n{key.idempotency.key}\n{key.idempotency.request_sha256.hex()}"
    return "hmem_" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _check_name(name: str) -> None:
    if not name.strip():
        raise errors.invalid("A memory needs a name.", "name")
    if len(name) > MAX_NAME:
        raise errors.invalid(f"A memory's name has at most {MAX_NAME} characters.", "name")


def _check_description(description: str) -> None:
    if len(description) > MAX_DESCRIPTION:
        raise errors.invalid(
            f"A memory's description has at most {MAX_DESCRIPTION} characters.", "description"
        )
