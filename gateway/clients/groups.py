"""Groups an administrator keeps, of authz_service."""

from typing import Final

import grpc

from gateway.clients.convert import cursor, moment, page
from gateway.schemas import groups as schema
from gateway.schemas.base import Count
from gateway.schemas.tokens import group_of
from protos.authz.v1 import authz_pb2, authz_pb2_grpc

__all__ = ["SAFE", "GroupsClient"]

_SERVICE: Final = "grovekeeper.authz.v1.Principals"
SAFE: Final = (
    f"{_SERVICE}/ListGroups",
    f"{_SERVICE}/GetGroup",
    f"{_SERVICE}/ListMembers",
    f"{_SERVICE}/AddMember",
)
"""Methods that may be sent twice: reads, and writes whose repetition changes nothing."""


class GroupsClient:
    """Groups by name, with or without ``group:``, and their members by principal."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._principals = authz_pb2_grpc.PrincipalsStub(channel)

    async def create(self, asked: schema.CreateGroup) -> schema.Group:
        """A new group."""
        request = authz_pb2.CreateGroupRequest(name=group_of(asked.name), description=asked.description)
        return _group(await self._principals.CreateGroup(request))

    async def list(self, asked: schema.ListGroups) -> schema.Groups:
        """Groups by name."""
        request = authz_pb2.ListGroupsRequest(member=asked.member, page=page(asked.limit, asked.cursor))
        answer = await self._principals.ListGroups(request)
        return schema.Groups(
            data=[_group(one) for one in answer.groups], next_cursor=cursor(answer.next_cursor)
        )

    async def get(self, name: str) -> schema.Group:
        """One group."""
        return _group(await self._principals.GetGroup(authz_pb2.GetGroupRequest(name=group_of(name))))

    async def delete(self, name: str) -> schema.Group:
        """Remove a group with its memberships and its grants."""
        return _group(await self._principals.DeleteGroup(authz_pb2.DeleteGroupRequest(name=group_of(name))))

    async def members(self, name: str, asked: schema.ListMembers) -> schema.Members:
        """Who is in a group."""
        request = authz_pb2.ListMembersRequest(group=group_of(name), page=page(asked.limit, asked.cursor))
        answer = await self._principals.ListMembers(request)
        return schema.Members(
            data=[_member(one) for one in answer.members], next_cursor=cursor(answer.next_cursor)
        )

    async def add(self, name: str, principal: str) -> schema.Member:
        """Put a principal in a group; again is as good as once."""
        request = authz_pb2.AddMemberRequest(group=group_of(name), principal=principal)
        return _member(await self._principals.AddMember(request))

    async def remove(self, name: str, principal: str) -> schema.Member:
        """Take a principal out of a group; it holds for the next request."""
        request = authz_pb2.RemoveMemberRequest(group=group_of(name), principal=principal)
        return _member(await self._principals.RemoveMember(request))


def _group(message: authz_pb2.Group) -> schema.Group:
    return schema.Group(
        name=message.name,
        description=message.description,
        members=Count(count=message.members_count),
        created_at=moment(message.created_at),
    )


def _member(message: authz_pb2.Member) -> schema.Member:
    return schema.Member(
        group=message.group,
        principal=message.principal,
        added_at=moment(message.added_at),
        added_by=message.added_by,
    )
