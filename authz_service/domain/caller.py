"""Who asks, as access sees it: the principals to look for, and what a narrowed passport leaves of them.

A harness at work carries a passport narrowed to what it is attached to (Memories, section 9). Access
narrows and never widens, so a narrowing is a cap on every mask. The rule, in one place:

- On a node, the nearest entry among the node itself and its ancestors decides: ``read`` leaves ``read``,
  ``write`` leaves ``read`` and ``write``. The look upward does not stop at a cutoff: an entry says where
  an agent starts and covers "whatever it walks to from it", while a cutoff is about grants.
- A node under no entry gets the weakest access among all entries: ``read``, unless all are ``write``.
  An entry whose memory is gone covers nothing but still counts here, so that a deletion widens nothing.
- ``create`` and ``delete`` never pass: shaping the tree and erasing are not an agent's acts (section 13).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from authz_service.domain.model import ALL, Above, Lineage, Place, Privilege
from service_kit.identity import Narrowing, Passport

READ: Final = int(Privilege.READ)
WRITE: Final = Privilege.READ | Privilege.WRITE
"""What each access leaves of a mask."""


def cap_of(access: str) -> int:
    """The mask that ``read`` or ``write`` leaves."""
    return WRITE if access == "write" else READ


@dataclass(frozen=True, slots=True)
class Caller:
    """The principals of one passport, itself first, and its narrowing: cap by memory id, and the floor."""

    principals: tuple[str, ...]
    caps: Mapping[str, int]
    floor: int = ALL

    @classmethod
    def of(cls, passport: Passport) -> "Caller":
        """The caller a passport names."""
        principals = tuple(dict.fromkeys((passport.principal, *passport.groups)))
        return cls(principals, *_narrowing(passport.narrowing))

    @classmethod
    def whole(cls, principal: str) -> "Caller":
        """A principal by itself, without groups and not narrowed."""
        return cls((principal,), {})

    @property
    def principal(self) -> str:
        """Who it is, groups aside."""
        return self.principals[0]

    @property
    def narrowed(self) -> bool:
        """Whether a narrowing caps what it holds."""
        return self.floor != ALL


def _narrowing(entries: Iterable[Narrowing]) -> tuple[dict[str, int], int]:
    caps: dict[str, int] = {}
    for entry in entries:
        caps[entry.memory_id] = min(cap_of(entry.access), caps.get(entry.memory_id, WRITE))
    return caps, min(caps.values(), default=ALL)


def flow(held: int, own: int, *, restricted: bool) -> int:
    """What is held on a node: its own grants and, unless it is restricted, what is held on its parent."""
    return own if restricted else held | own


def place(caller: Caller, lineage: Lineage) -> Place:
    """What a lineage means for a caller (Memories, sections 3.1 and 3.2), from the root down."""
    held, cap = 0, caller.floor
    masks: list[int] = []
    for step in reversed(lineage):
        held = flow(held, step.own, restricted=step.restricted)
        cap = caller.caps.get(step.id, cap)
        masks.append(held & cap)
    above: list[Above] = []
    reaches = not lineage[0].restricted
    for step, mask in zip(lineage[1:], masks[-2::-1], strict=True):
        above.append(Above(step.id, mask, reaches))
        reaches = reaches and not step.restricted
    return Place(lineage[0].id, lineage[0].restricted, held, cap, tuple(above))
