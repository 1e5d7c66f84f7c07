"""Why a principal holds what it holds on a memory (Memories, sections 3.1 and 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.decide import demand
from authz_service.domain.model import Grant, Place, Privilege
from authz_service.domain.ports import Store
from authz_service.domain.principals import GRANTABLE, MOST_GROUPS, check_principal
from service_kit.identity import Passport


@dataclass(frozen=True, slots=True)
class Reason:
    """A grant that concerns the principal: held through ``via_group`` ("": by itself), and stopped at a
    restricted memory ("": it reaches the one asked about).
    """

    grant: Grant
    via_group: str
    stopped_at: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """``mask`` is what the reasons that were not stopped amount to; see :func:`explain` for what is told."""

    node: str
    principal: str
    mask: int
    reasons: tuple[Reason, ...]
    groups: tuple[str, ...]
    complete: bool


async def explain(
    store: Store, passport: Passport, node: str, principal: str, groups: Sequence[str]
) -> Explanation:
    """Every grant to the principal, or to a group it is in, on the memory and above it: nearest first, those
    that were stopped last.

    ``groups`` are those its credential is taken to name, beside those it was put in. The scope ``admin`` is
    told everything of any memory; ``memory_not_found`` for one that does not exist. A holder of ``delete``
    is told of grants on memories in its own sight, and of no group but those it named and those that hold
    such a grant; whether that is all, it is never told. Others are refused as in :func:`decide.demand`.
    ``invalid_input`` for what is no principal.
    """
    named = _checked(principal, groups)
    admin = "admin" in passport.scopes
    async with store.view(grants=True) as view:
        place = (await view.places(Caller.of(passport), [node]))[0]
        if place is None or not admin:
            place = demand(place, Privilege.DELETE)
        among = tuple(dict.fromkeys((principal, *named, *await view.groups_of(principal))))
        grants = await view.grants_on(_sight(place, everything=admin), among=among)
    reasons = _reasons(place, principal, grants)
    via = {one.via_group for one in reasons}
    return Explanation(
        node,
        principal,
        reduce(int.__or__, (one.grant.mask for one in reasons if not one.stopped_at), 0),
        reasons,
        tuple(sorted(one for one in among[1:] if admin or one in named or one in via)),
        complete=admin,
    )


def _checked(principal: str, groups: Sequence[str]) -> set[str]:
    check_principal(principal, GRANTABLE, "principal")
    named = {check_principal(one, ("group",), "groups") for one in groups}
    if len(named) > MOST_GROUPS:
        raise errors.invalid_input(f"At most {MOST_GROUPS} groups are named.", "groups")
    return named


def _sight(place: Place, *, everything: bool) -> list[str]:
    """The memory and what is above it, nearest first; else only as far as the caller sees it unbroken."""
    above = [one.id for one in place.above] if everything else reversed(place.ancestors)
    return [place.id, *above]


def _reasons(place: Place, principal: str, grants: Sequence[Grant]) -> tuple[Reason, ...]:
    reaching = [place.id, *(one.id for one in place.above if one.reaches)]
    reasons = [
        Reason(
            one,
            "" if one.principal == principal else one.principal,
            "" if one.node in reaching else reaching[-1],
        )
        for one in grants
    ]
    return tuple(sorted(reasons, key=lambda one: bool(one.stopped_at)))
