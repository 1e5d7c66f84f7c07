"""Groups an administrator keeps, and who is in them (``/v1/grovekeeper/groups``)."""

from datetime import datetime
from typing import Literal

from gateway.schemas.base import Answer, Ask, Count, Text, Whole

__all__ = ["CreateGroup", "Group", "Groups", "ListGroups", "ListMembers", "Member", "Members"]


class CreateGroup(Ask, kw_only=True, frozen=True):
    """Body of ``POST /v1/grovekeeper/groups``; the name with or without ``group:``."""

    name: Text
    description: str = ""


class ListGroups(Ask, kw_only=True, frozen=True):
    """Query of ``GET /v1/grovekeeper/groups``; ``member``: only those this principal was put in."""

    member: str = ""
    limit: Whole = 0
    cursor: str = ""


class ListMembers(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/members``."""

    limit: Whole = 0
    cursor: str = ""


class Group(Answer, kw_only=True, frozen=True):
    """A group and how many are in it."""

    name: str
    object: Literal["grovekeeper.group"] = "grovekeeper.group"
    description: str
    members: Count
    created_at: datetime


class Groups(Answer, kw_only=True, frozen=True):
    """A page of groups, by name."""

    data: list[Group]
    next_cursor: str | None


class Member(Answer, kw_only=True, frozen=True):
    """Who is in a group, since when, and who put it there."""

    group: str
    object: Literal["grovekeeper.member"] = "grovekeeper.member"
    principal: str
    added_at: datetime
    added_by: str


class Members(Answer, kw_only=True, frozen=True):
    """A page of members, by principal."""

    data: list[Member]
    next_cursor: str | None
