"""What the use cases need of a store. A docstring here is the contract, errors included.

Every verb may raise ``grovekeeper_unavailable`` or ``grovekeeper_deadline`` for want of a database.
Nothing here is answered from what may be out of date: a read sees what was committed before it was asked.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol

from authz_service.domain.audit import Act, AuditQuery, AuditRecord, Refusal
from authz_service.domain.caller import Caller
from authz_service.domain.model import (
    FIRST,
    Grant,
    GrantKey,
    Group,
    Member,
    NewToken,
    Place,
    Token,
    TokensWanted,
)
from service_kit.idempotency import Idempotency


class View(Protocol):
    """The tree and its grants at one moment."""

    async def places(self, caller: Caller, ids: Sequence[str], *, count: bool = False) -> list[Place | None]:
        """Each node as the caller holds it, None for one that does not exist; in the order asked.

        Places the caller holds nothing on are answered too (``visible`` is false). ``count`` fills in
        ``children`` of the visible ones.
        """
        ...

    async def children(self, caller: Caller, parent: Place, need: int, after: str, limit: int) -> list[str]:
        """Ids of direct children of ``parent`` on which the caller holds any privilege in ``need``,
        greater than ``after``, ascending, ``limit`` at most.
        """
        ...

    async def entries(self, caller: Caller, after: str, limit: int) -> list[str]:
        """Ids greater than ``after``, ascending, ``limit`` at most, of nodes that may be where the caller
        enters the tree. All of those are among them, others too: look at each place.
        """
        ...

    async def descendants(
        self, caller: Caller, start: Place, need: int, levels: int, after: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        """(depth, id) of nodes at most ``levels`` below ``start`` on which the caller holds any privilege in
        ``need``, greater than ``after``, ascending, ``limit`` at most.

        Complete: a node is found below others that the caller cannot see. ``start`` must be visible.
        """
        ...

    async def grants_on(
        self,
        ids: Sequence[str],
        after: GrantKey = FIRST,
        limit: int | None = None,
        *,
        among: Sequence[str] | None = None,
    ) -> list[Grant]:
        """Grants that sit on these nodes, creators' implicit ones included: node by node in the order
        given, the creator's first, then oldest first. Those after a key, ``limit`` at most (None: all),
        to principals ``among`` these (None: to any).
        """
        ...

    async def groups_of(self, principal: str) -> list[str]:
        """The groups an administrator put a principal in, by name."""
        ...


class Change(View, Protocol):
    """One transaction. What it wrote is visible to all from its end on, or nothing of it ever."""

    async def hold_shape(self, *, alone: bool) -> None:
        """Keep the tree's shape as it is until the end: nothing moves or is deleted meanwhile.

        ``alone`` also keeps nodes from being added; whoever moves or deletes holds it so. Take it
        before looking at what the change depends on.
        """
        ...

    async def creator_of(self, node: str) -> str | None:
        """The principal that created a node, None for one that does not exist."""
        ...

    async def add_node(
        self, node: str, parent: str, *, restricted: bool, creator: str, now: datetime
    ) -> bool:
        """Add a node below ``parent`` ("": a root). False, and nothing done, when the id is there already."""
        ...

    async def move(self, node: str, parent: str) -> None:
        """Put a node, with everything below it, under ``parent`` ("": a root). One row changes."""
        ...

    async def restrict(self, node: str, *, restricted: bool) -> bool:
        """Set or lift the cutoff; whether that changed anything. One row changes."""
        ...

    async def height(self, node: str, most: int) -> int:
        """Levels of the subtree at ``node``, itself the first; looks no deeper than ``most``."""
        ...

    async def delete(self, node: str) -> None:
        """Make a node and everything below it be gone for everybody. One row changes; the rest goes later."""
        ...

    async def purge(self, ids: Sequence[str]) -> None:
        """Remove the rows of deleted nodes. What lay directly below becomes a deleted node of its own."""
        ...

    async def discard(self, ids: Sequence[str]) -> list[str]:
        """Remove those of these nodes that have nothing below them but others of these; answers which."""
        ...

    async def exists(self, node: str) -> bool:
        """Whether there is such a node, for anybody."""
        ...

    async def hold(self, node: str, holder: str, ttl: timedelta) -> None:
        """Mark a node as worked upon by ``holder`` from now for ``ttl``, which a repetition begins anew."""
        ...

    async def release(self, node: str, holder: str) -> None:
        """Take a mark off, if it is there."""
        ...

    async def held_within(self, node: str) -> bool:
        """Whether work is under way in a node or anywhere below it."""
        ...

    async def hold_line(self, nodes: Sequence[str]) -> None:
        """Keep the grants on these nodes, and all that reach them, as they are until the end, whatever others
        do: no grant there is given or revoked, nothing is moved, deleted or cut off. Whoever changes who may
        do what decides only after this, or a right that was taken meanwhile would have been used.
        """
        ...

    async def held_grants(self, node: str, principal: str) -> tuple[int, int]:
        """How many grants sit on a node, the creator's implicit one aside, and the mask of the principal's."""
        ...

    async def grant(self, node: str, principal: str, mask: int, now: datetime) -> Grant:
        """Unite ``mask`` with what the principal holds on the node by the one grant it may have there.

        ``memory_not_found`` when the node was deleted meanwhile.
        """
        ...

    async def revoke(self, node: str, grant_id: str) -> Grant | None:
        """Remove a grant that sits on ``node``, its creator's implicit one included; None when none is it."""
        ...

    async def claim(self, principal: str, operation: str, idempotency: Idempotency) -> bytes | None:
        """What the first request under a key answered; None when this is the first, or has no key. Waits for one
        under way. ``grovekeeper_idempotency_mismatch``; ``memory_not_found`` when its memory is gone.
        """
        ...

    async def settle(
        self,
        principal: str,
        operation: str,
        idempotency: Idempotency,
        answer: bytes,
        *,
        memory_id: str | None = None,
    ) -> None:
        """Keep what a claimed key answers; it goes with ``memory_id``, if any."""
        ...

    async def record(self, act: Act) -> None:
        """Add a change of access to the audit, as the act of the current passport's bearer."""
        ...


class Store(Protocol):
    """Where the tree, its grants and nothing else is kept."""

    async def place(self, caller: Caller, node: str, *, count: bool = False) -> Place | None:
        """One node as :meth:`View.places` answers it, decided in one statement that began after this call."""
        ...

    async def places(self, caller: Caller, ids: Sequence[str]) -> list[Place | None]:
        """Many nodes, decided in one statement."""
        ...

    def view(self, *, grants: bool = False) -> AbstractAsyncContextManager[View]:
        """Several questions about one moment; :meth:`View.grants_on` is one of them only with ``grants``."""
        ...

    def change(self) -> AbstractAsyncContextManager[Change]:
        """Several questions and changes as one."""
        ...

    async def existing(self, ids: Sequence[str]) -> list[str]:
        """Those of these ids that name a node that was not deleted."""
        ...

    async def deleted(self, limit: int) -> list[str]:
        """Nodes that were deleted and whose rows are still there, longest ago first; not what lies below them."""
        ...

    async def created_before(self, moment: datetime, after: str, limit: int) -> list[str]:
        """Ids greater than ``after`` of nodes created before ``moment``, ascending, ``limit`` at most."""
        ...


class TokensChange(Protocol):
    """One transaction on the tokens."""

    async def live(self, principal: str, now: datetime) -> int:
        """How many tokens of a principal open something at ``now``; others add none to it until the end."""
        ...

    async def add(self, token: NewToken) -> Token:
        """Keep a new token. Answers the token there is with its hash: this one, or one known already."""
        ...

    async def revoke(
        self, *, token_id: str = "", sha256: bytes = b"", now: datetime
    ) -> tuple[Token, bool] | None:
        """Revoke by id or by hash. The token, and whether this is what ended it; None when there is none."""
        ...

    async def revoke_jwt(self, sha256: bytes, *, expires_at: datetime, now: datetime) -> bool:
        """Keep in mind that a JWT was taken back, until after ``expires_at``; whether it was not before."""
        ...

    async def end_bootstrap(self, others_than: Sequence[bytes], now: datetime) -> list[Token]:
        """Revoke those a bootstrap brought in whose hash is not among these; answers what this ended."""
        ...

    async def record(self, act: Act) -> None:
        """As :meth:`Change.record`."""
        ...


class Tokens(Protocol):
    """Where bearer tokens are kept, by their SHA-256 only."""

    async def find(self, sha256: bytes) -> Token | None:
        """The token with this hash, whatever became of it; strict as :meth:`Store.place` is."""
        ...

    async def jwt_revoked(self, sha256: bytes) -> bool:
        """Whether the JWT with this hash was taken back; as strict."""
        ...

    async def page(
        self, wanted: TokensWanted, before: tuple[datetime, str] | None, limit: int
    ) -> list[Token]:
        """Tokens made before (moment, id), newest first, ``limit`` at most; None: from the newest."""
        ...

    async def used(self, times: Mapping[str, datetime]) -> None:
        """Note when tokens were used last, by id. An earlier time than the one noted changes nothing."""
        ...

    async def forget_jwts(self, before: datetime) -> None:
        """Drop what is kept of JWTs that expired before a moment."""
        ...

    def change(self) -> AbstractAsyncContextManager[TokensChange]:
        """Several questions and changes as one."""
        ...


class GroupsChange(Protocol):
    """One transaction on the groups, seen whole or not at all.

    What is held is held until its end. Whoever holds a principal and a group takes the principal first.
    """

    async def hold_names(self) -> None:
        """Keep others from adding groups."""
        ...

    async def hold_principal(self, principal: str) -> None:
        """Keep others from putting this principal in a group."""
        ...

    async def hold_group(self, name: str) -> Group | None:
        """Keep others from changing this group and who is in it; None when there is none."""
        ...

    async def groups_count(self) -> int:
        """How many groups there are."""
        ...

    async def memberships_count(self, principal: str) -> int:
        """How many groups a principal was put in."""
        ...

    async def member(self, group: str, principal: str) -> Member | None:
        """Who is in the group by this name, if it is."""
        ...

    async def add_group(self, group: Group) -> bool:
        """Add it. False, and nothing done, when there is one of this name."""
        ...

    async def add_member(self, member: Member) -> None:
        """Add who is not in the group yet."""
        ...

    async def remove_member(self, group: str, principal: str) -> Member | None:
        """Remove, and answer what was removed."""
        ...

    async def remove_group(self, name: str) -> int:
        """Remove a group with its memberships and every grant it holds; answers how many grants those were."""
        ...

    async def record(self, act: Act) -> None:
        """As :meth:`Change.record`."""
        ...


class Groups(Protocol):
    """Where the groups that administrators keep are kept."""

    def change(self) -> AbstractAsyncContextManager[GroupsChange]:
        """Several questions and changes as one."""
        ...

    async def get(self, name: str) -> Group | None:
        """One group."""
        ...

    async def page(self, member: str, after: str, limit: int) -> list[Group]:
        """Groups that ``member`` was put in ("": all), with names greater than ``after``, ascending."""
        ...

    async def members(self, group: str, after: str, limit: int) -> list[Member] | None:
        """Members with principals greater than ``after``, ascending; None when there is no such group."""
        ...

    async def groups_of(self, principal: str) -> Sequence[str]:
        """The names of the groups a principal was put in, ascending."""
        ...


class Audit(Protocol):
    """What was changed in who may reach what, and what was refused; only ever added to."""

    async def refused(self, refusal: Refusal) -> None:
        """Add an attempt that was refused. Answers once it is kept."""
        ...

    async def page(self, query: AuditQuery, after: tuple[int, ...], limit: int) -> list[AuditRecord]:
        """Records after the one with this key (none: from the start), ``limit`` and 201 at most.

        Newest first by number. Oldest first by transaction, and only of those that lie before every one
        still under way: nothing committed later will lie before a record that was answered.
        """
        ...
