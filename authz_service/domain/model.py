"""The words of access: privileges, callers, places in the tree, grants, tokens. No wire, no store."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Final, NamedTuple


class Privilege(IntEnum):
    """The four privileges of Memories, section 3.1, each a bit of a mask."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8


ALL: Final = 15
"""The mask of all four; also what "any privilege will do" asks for."""

MAX_DEPTH: Final = 64
"""Most nodes between a root and a leaf, both counted."""


def privileges(mask: int) -> Iterator[Privilege]:
    """The privileges in a mask, always in the same order."""
    return (one for one in Privilege if mask & one)


def names(mask: int) -> list[str]:
    """The same, as people call them."""
    return [one.name.lower() for one in privileges(mask)]


class Step(NamedTuple):
    """One node of the walk from a place to its root, with what the store knows of it.

    ``own`` is the mask of what a caller's principals hold by grants on this very node, being its
    creator included.
    """

    id: str
    restricted: bool
    own: int


Lineage = tuple[Step, ...]
"""A node and its ancestors, the node first, the root last."""


class Above(NamedTuple):
    """An ancestor: the caller's mask on it, and whether grants on it reach the node the walk began at."""

    id: str
    mask: int
    reaches: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A node with all that one caller's rights on it and above it amount to.

    It names ancestors the caller may not see; only ``parent_id`` and ``ancestors`` are for showing.
    ``held`` is the mask its grants give, ``cap`` what a narrowed passport leaves of any mask here,
    ``children`` counts the direct children the caller sees (0 where nobody asked for it).
    """

    id: str
    restricted: bool
    held: int
    cap: int
    above: tuple[Above, ...]
    children: int = 0

    @property
    def mask(self) -> int:
        """What the caller may do here."""
        return self.held & self.cap

    @property
    def visible(self) -> bool:
        """Whether the caller may know that this exists."""
        return self.mask != 0

    @property
    def parent_id(self) -> str:
        """The parent, if there is one and the caller sees it."""
        return self.above[0].id if self.above and self.above[0].mask else ""

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The unbroken line of visible ancestors, topmost first, the parent last."""
        line: list[str] = []
        for one in self.above:
            if not one.mask:
                break
            line.append(one.id)
        return tuple(reversed(line))

    @property
    def depth(self) -> int:
        """Nodes from the root to this one, both counted."""
        return len(self.above) + 1

    @property
    def is_entry_point(self) -> bool:
        """Whether the caller enters the tree here: it sees this and not the parent."""
        return self.visible and not self.parent_id


@dataclass(frozen=True, slots=True)
class Found:
    """A place in a listing; ``depth`` counts levels below the node a descendants listing began at."""

    place: Place
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Which page is asked for; ``limit`` 0 is the operation's default, ``cursor`` empty the first page."""

    limit: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One page; ``next_cursor`` is empty on the last."""

    nodes: tuple[Found, ...]
    next_cursor: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges of one principal on one node. ``creator`` marks the implicit one of who made the node."""

    id: str
    node: str
    principal: str
    mask: int
    created_at: datetime
    creator: bool = False


@dataclass(frozen=True, slots=True)
class GrantKey:
    """Where a listing of grants stands: the node's place in the line (1 the first), whether the grant is an
    explicit one (a creator's implicit one comes first), and its id.
    """

    place: int
    explicit: bool
    id: str


FIRST: Final = GrantKey(0, explicit=False, id="")
"""Before every grant."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory attached to a harness, with the access it is attached for: ``read`` or ``write``."""

    memory_id: str
    access: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group an administrator keeps: ``group:…``, and how many are in it."""

    name: str
    description: str
    created_at: datetime
    members_count: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """Who is in a group, since when, and which principal put it there."""

    group: str
    principal: str
    added_at: datetime
    added_by: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as it is kept: never the token itself.

    ``created_by`` is the principal that issued it, ``bootstrap`` what an operator's bootstrap file calls
    it; each is empty where the other tells where it came from. ``last_used_at`` is to the minute.
    """

    id: str
    principal: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    created_by: str = ""
    bootstrap: str = ""

    def valid_at(self, now: datetime) -> bool:
        """Whether it opens anything at this moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class TokensWanted:
    """Which tokens a listing is of: one principal's ("": everybody's); with ``ended`` also those that open
    nothing at ``now`` any more.
    """

    principal: str
    ended: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whom a credential speaks for, until when (None: no end), and by which of our tokens ("": a JWT).

    ``key`` tells credentials apart: the token's id, or what is made from a JWT's hash.
    """

    key: str
    principal: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
    ends_at: datetime | None
    token_id: str = ""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to keep: what is known of it, and the SHA-256 it is found by."""

    token: Token
    sha256: bytes


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token just issued, with its secret, which is told once."""

    token: Token
    secret: str
