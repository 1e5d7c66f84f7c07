"""Creating, reading, changing and deleting memories (Memories, sections 2 and 3)."""

import hashlib
from dataclasses import replace
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
    Shape,
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
_UPDATE: Final = "update_memory"
_DELETE: Final = "delete_memory"

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
        key = Keyed.of(_CREATE, idempotency)
        done = await self._descriptions.answered(key)
        if done is not None:
            return await self._again(done)
        _check_words(Changed(stated.name, stated.description))
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

    async def _answered(self, key: Keyed, memory_id: str) -> bytes | None:
        """What a key answered, if anything; to whom the memory is hidden it says nothing of another request."""
        try:
            return await self._descriptions.answered(key)
        except GroveError:
            await self._access.check(memory_id, None)
            raise

    async def _again(self, answer: bytes) -> Memory:
        """What a repeat is answered, as long as its caller still sees the memory; of where it lay only what the
        caller still sees.
        """
        memory = _answers.decode(answer)
        now = await self._access.check(memory.node.id, None)
        line = list[str]()
        for one in reversed(memory.node.ancestors):
            if one not in now.ancestors and not await self._sees(one):
                break
            line.append(one)
        node = replace(memory.node, ancestors=tuple(reversed(line)), parent_id=line[0] if line else "")
        return replace(memory, node=node)

    async def _sees(self, memory_id: str) -> bool:
        try:
            await self._access.check(memory_id, None)
        except GroveError as error:
            if error.code != "memory_not_found":
                raise
            return False
        return True

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

    async def get(self, memory_id: str, required: Privilege | None = None) -> Memory:
        """A memory on which the caller holds ``required`` (None: anything)."""
        return await self._describer.one(memory_id, required)

    async def children(self, parent_id: str, page: Page, required: Privilege | None) -> MemoryPage:
        """The direct children on which the caller holds ``required`` (None: anything)."""
        nodes = await self._access.children(parent_id, page, required)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def entry_points(self, page: Page) -> MemoryPage:
        """Where the caller enters the tree."""
        nodes = await self._access.entry_points(page)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def descendants(self, ancestor_id: str, page: Page) -> MemoryPage:
        """Everything below an ancestor that the caller may see, nearest first."""
        nodes = await self._access.descendants(ancestor_id, page)
        return MemoryPage(await self._describer.many(nodes.nodes), nodes.next_cursor)

    async def update(self, memory_id: str, changed: Changed, idempotency: Idempotency) -> Memory:
        """Renames, describes, restricts or moves. Writing the words needs ``write``, the rest is authz's to say.

        Authz changes the shape under the same key, so a repeat after a crash between the two changes nothing
        of it again.
        """
        key = Keyed.of(_UPDATE, idempotency)
        done = await self._answered(key, memory_id)
        if done is not None:
            return await self._again(done)
        _check_words(changed)
        if changed.provider is not None:
            current = await self._describer.one(memory_id, None)
            if changed.provider != current.description.provider:
                raise errors.provider_is_fixed()
        words = changed.name is not None or changed.description is not None
        shape = Shape(changed.parent_id, changed.restricted)
        node = await self._access.update(memory_id, shape, Privilege.WRITE if words else None, idempotency)
        found = await self._descriptions.get([memory_id])
        memory = await self._describer.of_node(node, found.get(memory_id))
        async with self._descriptions.begin() as tx:
            done = await tx.claim(key)
            if done is None:
                written = await tx.change(memory_id, changed.name, changed.description, self._clock.now())
                if written is None:
                    raise errors.memory_not_found()
                memory = replace(memory, description=written)
                done = await tx.settle(key, _encoder.encode(memory), memory_id)
        return _answers.decode(done)

    async def delete(self, memory_id: str, idempotency: Idempotency) -> Memory:
        """Deletes a memory, its records and its descendants; answers it as it was.

        From authz's answer on nobody sees any of it. Names and records go in jobs, however many they are; a
        crash before they are enqueued is mended by the reconciler. ``memory_busy`` while a consolidation
        runs in it or below it.

        The answer of a key is kept before authz is asked, for afterwards nobody could read it; authz, asked on
        each repeat, says whether the memory went under this key.
        """
        key = Keyed.of(_DELETE, idempotency)
        answer = await self._to_be_deleted(memory_id, key)
        try:
            await self._access.delete(memory_id, idempotency)
        except GroveError as error:
            if key and not error.retryable:
                async with self._descriptions.begin() as tx:
                    await tx.withdraw(key)
            raise
        async with self._descriptions.begin() as tx:
            if await tx.claim(key) is None:
                await tx.settle(key, answer, None)
            await tx.enqueue_clearing()
        return _answers.decode(answer)

    async def _to_be_deleted(self, memory_id: str, key: Keyed) -> bytes:
        """The memory as it is before it is deleted, or was when a request under this key looked at it."""
        done = await self._answered(key, memory_id)
        if done is not None:
            return done
        try:
            memory = await self._describer.one(memory_id, Privilege.DELETE)
        except GroveError:
            # A request under the same key may have been faster.
            done = await self._descriptions.answered(key)
            if done is None:
                raise
            return done
        answer = _encoder.encode(memory)
        async with self._descriptions.begin() as tx:
            done = await tx.claim(key)
            return await tx.settle(key, answer, None) if done is None else done

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


def _check_words(changed: Changed) -> None:
    if changed.name is not None and not changed.name.strip():
        raise errors.invalid("A memory needs a name.", "name")
    if len(changed.name or "") > MAX_NAME:
        raise errors.invalid(f"A memory's name has at most {MAX_NAME} characters.", "name")
    if len(changed.description or "") > MAX_DESCRIPTION:
        raise errors.invalid(
            f"A memory's description has at most {MAX_DESCRIPTION} characters.", "description"
        )
