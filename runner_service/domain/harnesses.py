"""Configured harnesses (Architecture §1), and the memories they work with (Memories §9)."""

from collections.abc import Sequence
from typing import Final

from runner_service.domain import errors
from runner_service.domain.model import (
    Attached,
    Attachment,
    Backend,
    Configuration,
    Harness,
    Idempotency,
    Model,
    Notice,
)
from runner_service.domain.ports import Access, Base, Bases, HarnessStore, ToolMemory
from service_kit.clock import Clock
from service_kit.identity import current_passport
from service_kit.ids import new_id

__all__ = ["Harnesses", "preferred_base"]

_NO_KEY: Final = Idempotency("", b"")
_OUTSIDE: Final = "memory_outside"
MAX_NAME: Final = 200
MAX_PROMPT: Final = 256 * 1024
MAX_TOOLS: Final = 200
MAX_ATTACHED: Final = 64
"""They travel with every call an agent makes."""


def _outside(provider: str) -> str:
    return f"This memory is kept by {provider}, which is outside this server: every turn will be sent to it."


def preferred_base(bases: Bases) -> Base:
    """What tasks without a harness run on: the one with a model, where there is one."""
    return bases.get("loop") or bases["scripted"]


class Harnesses:
    """The use cases of the Harnesses service. Every harness belongs to the principal that made it."""

    def __init__(
        self, store: HarnessStore, access: Access, memory: ToolMemory, bases: Bases, clock: Clock
    ) -> None:
        self._store: HarnessStore = store
        self._access: Access = access
        self._memory: ToolMemory = memory
        self._bases: Bases = bases
        self._clock: Clock = clock

    async def create(self, base: str, configuration: Configuration, idempotency: Idempotency) -> Harness:
        """A new harness. ``unsupported_base``, ``invalid_input``."""
        if base not in self._bases:
            raise errors.unsupported_base(base, sorted(self._bases))
        harness = Harness(
            new_id("chrn"), current_passport().principal, base, _checked(configuration), self._clock.now()
        )
        return await self._store.add_harness(harness, idempotency)

    async def get(self, harness_id: str, param: str | None = None) -> Harness:
        """One harness. ``harness_not_found``, also for somebody else's; ``param`` is the field that named it."""
        harness = await self._store.harness(current_passport().principal, harness_id)
        if harness is None:
            raise errors.harness_not_found(param)
        return harness

    async def list(self) -> tuple[Harness, ...]:
        """All of the caller's, oldest first. Never empty: the default one is made by its first use, and
        to look for it is a use.
        """
        owner = current_passport().principal
        await self.default()
        return await self._store.harnesses(owner)

    async def default(self) -> Harness:
        """The caller's default harness, made if need be: on the preferred base, one for each base."""
        owner, base = current_passport().principal, preferred_base(self._bases).name
        known = await self._store.default_harness(owner, base)
        if known is not None:
            return known
        configuration = Configuration("Default", "", "", (), 0, 0)
        harness = Harness(new_id("chrn"), owner, base, configuration, self._clock.now(), is_default=True)
        return await self._store.add_harness(harness, _NO_KEY)

    async def update(self, harness_id: str, configuration: Configuration) -> Harness:
        """Replaces what may change. ``harness_not_found``, ``invalid_input``."""
        owner = current_passport().principal
        changed = await self._store.change_harness(owner, harness_id, _checked(configuration))
        if changed is None:
            raise errors.harness_not_found()
        return changed

    async def delete(self, harness_id: str) -> None:
        """Deletes it; sessions and responses stay. ``harness_not_found``."""
        if not await self._store.delete_harness(current_passport().principal, harness_id):
            raise errors.harness_not_found()

    # -- memories ------------------------------------------------------------------------------------------

    async def attach(
        self, harness_id: str, attachments: Sequence[Attachment], idempotency: Idempotency
    ) -> Attached:
        """Replaces the attached memories; attaching is granting (§9). Grants first, all or nothing and by
        the caller's own right, then the list: whatever breaks in between, the same call again mends it. A repeat
        under the same key grants and attaches nothing again, whatever was revoked and replaced since.
        ``harness_not_found``, ``memory_invalid``, ``memory_not_found``, ``memory_forbidden``,
        ``memory_unavailable`` when nobody can say what has to be told.
        """
        owner = (await self.get(harness_id)).owner
        _consistent(attachments)
        repeated = await self._store.attached_before(owner, idempotency)
        if attachments and not repeated:
            await self._access.attach(harness_id, attachments)
        answer = await self._told(harness_id, attachments)
        if not repeated:
            await self._store.attach(owner, harness_id, attachments, idempotency)
        return answer

    async def _told(self, harness_id: str, attachments: Sequence[Attachment]) -> Attached:
        """With what has to be told (§9): asked as the harness, which may read what its owner perhaps may not."""
        if not attachments:
            return Attached(())
        # A harness's passport is for a session; this look belongs to none, and is called by the harness itself.
        async with self._access.as_harness(harness_id, harness_id, attachments):
            abilities = await self._memory.abilities([one.memory_id for one in attachments])
        return Attached(
            tuple(attachments),
            tuple(
                Notice(_OUTSIDE, one.memory_id, _outside(one.provider)) for one in abilities.of if one.outside
            ),
        )

    async def attached(self, harness_id: str) -> Attached:
        """The attached memories. ``harness_not_found``, ``memories_not_attached``."""
        await self.get(harness_id)
        found = await self._store.attachments(harness_id)
        if not found:
            raise errors.memories_not_attached()
        return await self._told(harness_id, found)

    # -- models --------------------------------------------------------------------------------------------

    async def models(self, harness_id: str) -> tuple[Backend, ...]:
        """The models of one harness's base, its own default marked; of every base without a harness."""
        if not harness_id:
            return tuple([await _backend(base) for base in self._bases.values()])
        harness = await self.get(harness_id)
        base = self._bases.get(harness.base)
        if base is None:
            return (Backend(harness.base, harness.configuration.default_model, ()),)
        return (await _backend(base, harness.configuration.default_model),)

    def base_label(self, base: str) -> str:
        """What a person reads of a base; the bare name of one that is not offered any more."""
        known = self._bases.get(base)
        return base if known is None else known.label


async def _backend(base: Base, default: str = "") -> Backend:
    default = default or base.default_model
    models = tuple(
        Model(one.id, one.label, one.backend, one.available, one.id == default) for one in await base.models()
    )
    return Backend(base.name, default, models)


def _checked(configuration: Configuration) -> Configuration:
    if not configuration.name.strip():
        raise errors.invalid("A harness needs a name.", "name")
    for value, limit, field in (
        (configuration.name, MAX_NAME, "name"),
        (configuration.default_model, MAX_NAME, "default_model"),
        (configuration.system_prompt, MAX_PROMPT, "system_prompt"),
    ):
        if len(value) > limit:
            raise errors.invalid(f"{field} is longer than {limit} characters.", field)
    tools = configuration.disabled_tools
    if len(tools) > MAX_TOOLS or any(not one or len(one) > MAX_NAME for one in tools):
        raise errors.invalid(f"disabled_tools holds at most {MAX_TOOLS} names.", "disabled_tools")
    if configuration.max_step < 0 or configuration.timeout_seconds < 0:
        field = "max_step" if configuration.max_step < 0 else "timeout_seconds"
        raise errors.invalid(f"{field} cannot be negative.", field)
    return configuration


def _consistent(attachments: Sequence[Attachment]) -> None:
    if len(attachments) > MAX_ATTACHED:
        raise errors.memory_invalid(f"At most {MAX_ATTACHED} memories are attached to a harness.")
    if len({one.memory_id for one in attachments}) < len(attachments):
        raise errors.memory_invalid("A memory is attached twice.")
    defaults = [one for one in attachments if one.is_default]
    if len(defaults) > 1:
        raise errors.memory_invalid("Only one attached memory can be the default.")
    if any(one.access != "write" for one in defaults):
        raise errors.memory_invalid("The default memory is written to: attach it with access write.")
