"""Groups an administrator keeps, and who is in them (Memories, section 3.1: a server documents its principals).

A group is a principal: it holds grants, and whoever is in it holds what it holds. It counts for a decision
from the moment it is answered. Groups that a credential names itself need not be kept here.
"""

from typing import Final

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.model import Group, Member, Page
from authz_service.domain.paging import after_id
from authz_service.domain.ports import Groups, GroupsChange
from authz_service.domain.principals import check_principal
from service_kit.clock import Clock
from service_kit.paging import clamp_limit, encode_cursor

MEMBERS: Final = ("person", "credential", "harness")
"""The kinds that may be in a group."""
MOST_KEPT: Final = 10_000
"""Most groups that are kept."""
MOST_MEMBERS: Final = 10_000
"""Most members of one group."""
MOST_MEMBERSHIPS: Final = 100
"""Most groups one principal is put in: each of its decisions looks for all of them."""
MAX_DESCRIPTION: Final = 1_000
"""Longest description, in characters."""


class ManageGroups:
    """The use cases that change something. Each is one transaction, its record in the audit included."""

    def __init__(self, groups: Groups, clock: Clock) -> None:
        self._groups: Groups = groups
        self._clock: Clock = clock

    async def create(self, name: str, description: str) -> Group:
        """A new group without members. ``grovekeeper_conflict`` when it is there, ``invalid_input``."""
        check_group(name)
        if len(description) > MAX_DESCRIPTION:
            raise errors.invalid_input(
                f"A description has at most {MAX_DESCRIPTION:,} characters.", "description"
            )
        group = Group(name, description, self._clock.now())
        async with self._groups.change() as tx:
            await tx.hold_names()
            if not await tx.add_group(group):
                raise errors.group_exists()
            if await tx.groups_count() > MOST_KEPT:
                raise errors.invalid_input(f"At most {MOST_KEPT:,} groups are kept.", "name")
            await tx.record(Act("group.create", principal=name))
        return group

    async def delete(self, name: str) -> Group:
        """The group as it was. With it go its memberships and every grant it holds: a later group of this
        name inherits nothing. ``grovekeeper_not_found``.
        """
        async with self._groups.change() as tx:
            group = await _held(tx, name)
            grants = await tx.remove_group(name)
            detail = {"members": group.members_count, "grants": grants}
            await tx.record(Act("group.delete", principal=name, detail=detail))
        return group

    async def add(self, name: str, principal: str, by: str) -> Member:
        """The membership; again is as good as once. ``grovekeeper_not_found`` for the group, ``invalid_input``
        for a group as a member and past the bounds.
        """
        if principal.startswith("group:"):
            raise errors.invalid_input("Groups do not nest: a group cannot be in a group.", "principal")
        check_principal(principal, MEMBERS, "principal")
        async with self._groups.change() as tx:
            await tx.hold_principal(principal)
            group = await _held(tx, name)
            known = await tx.member(name, principal)
            if known is not None:
                return known
            if group.members_count >= MOST_MEMBERS:
                raise errors.invalid_input(f"A group has at most {MOST_MEMBERS:,} members.", "name")
            if await tx.memberships_count(principal) >= MOST_MEMBERSHIPS:
                raise errors.invalid_input(
                    f"A principal is in at most {MOST_MEMBERSHIPS} groups.", "principal"
                )
            member = Member(name, principal, self._clock.now(), by)
            await tx.add_member(member)
            await tx.record(Act("member.add", principal=principal, detail={"group": name}))
        return member

    async def remove(self, name: str, principal: str) -> Member:
        """The membership as it was; from the answer on it counts no more. ``grovekeeper_not_found`` for the
        group and for who is not in it.
        """
        async with self._groups.change() as tx:
            await _held(tx, name)
            member = await tx.remove_member(name, principal)
            if member is None:
                raise errors.member_not_found()
            await tx.record(Act("member.remove", principal=principal, detail={"group": name}))
        return member


async def get_group(groups: Groups, name: str) -> Group:
    """One group. ``grovekeeper_not_found``."""
    group = await groups.get(name)
    if group is None:
        raise errors.group_not_found()
    return group


async def list_groups(groups: Groups, member: str, page: Page) -> tuple[list[Group], str]:
    """Groups by name, only those ``member`` was put in unless it is "", and the next cursor."""
    after, limit = after_id(page), clamp_limit(page.limit)
    if member:
        check_principal(member, MEMBERS, "member")
    found = await groups.page(member, after, limit + 1)
    return found[:limit], encode_cursor(found[limit - 1].name) if len(found) > limit else ""


async def list_members(groups: Groups, name: str, page: Page) -> tuple[list[Member], str]:
    """Who is in a group, by principal, and the next cursor. ``grovekeeper_not_found``."""
    after, limit = after_id(page), clamp_limit(page.limit)
    found = await groups.members(name, after, limit + 1)
    if found is None:
        raise errors.group_not_found()
    return found[:limit], encode_cursor(found[limit - 1].principal) if len(found) > limit else ""


def check_group(name: str) -> str:
    """The name itself, if it is one a group may have; else ``invalid_input``."""
    return check_principal(name, ("group",), "name")


async def _held(tx: GroupsChange, name: str) -> Group:
    group = await tx.hold_group(name)
    if group is None:
        raise errors.group_not_found()
    return group
