"""Who there is: the caller itself, and the groups an administrator keeps."""

from typing import Any

from grpc.aio import ServicerContext

from authz_service.api import convert
from authz_service.domain.groups import ManageGroups, get_group, list_groups, list_members
from authz_service.domain.ports import Groups
from authz_service.domain.who_am_i import who_am_i
from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1.authz_pb2_grpc import PrincipalsServicer as PrincipalsBase
from service_kit.identity import current_passport

Context = ServicerContext[Any, Any]


class PrincipalsServicer(PrincipalsBase):
    """Everybody may ask who it is; the rest is for administrators."""

    def __init__(self, groups: Groups, manage: ManageGroups) -> None:
        self._groups: Groups = groups
        self._manage: ManageGroups = manage

    async def WhoAmI(self, request: wire.WhoAmIRequest, context: Context) -> wire.WhoAmIResponse:
        passport = current_passport()
        known = await who_am_i(self._groups, passport)
        return wire.WhoAmIResponse(
            principal=passport.principal,
            groups=known.groups,
            scopes=sorted(passport.scopes),
            token_id=passport.token_id or "",
            managed_groups=known.managed,
        )

    async def CreateGroup(self, request: wire.CreateGroupRequest, context: Context) -> wire.Group:
        current_passport().require_scope("admin")
        return convert.group(await self._manage.create(request.name, request.description))

    async def ListGroups(self, request: wire.ListGroupsRequest, context: Context) -> wire.GroupPage:
        current_passport().require_scope("admin")
        groups, cursor = await list_groups(self._groups, request.member, convert.page(request.page))
        return wire.GroupPage(groups=map(convert.group, groups), next_cursor=cursor)

    async def GetGroup(self, request: wire.GetGroupRequest, context: Context) -> wire.Group:
        current_passport().require_scope("admin")
        return convert.group(await get_group(self._groups, request.name))

    async def DeleteGroup(self, request: wire.DeleteGroupRequest, context: Context) -> wire.Group:
        current_passport().require_scope("admin")
        return convert.group(await self._manage.delete(request.name))

    async def AddMember(self, request: wire.AddMemberRequest, context: Context) -> wire.Member:
        passport = current_passport()
        passport.require_scope("admin")
        added = await self._manage.add(request.group, request.principal, passport.principal)
        return convert.member(added)

    async def RemoveMember(self, request: wire.RemoveMemberRequest, context: Context) -> wire.Member:
        current_passport().require_scope("admin")
        return convert.member(await self._manage.remove(request.group, request.principal))

    async def ListMembers(self, request: wire.ListMembersRequest, context: Context) -> wire.MemberPage:
        current_passport().require_scope("admin")
        members, cursor = await list_members(self._groups, request.group, convert.page(request.page))
        return wire.MemberPage(members=map(convert.member, members), next_cursor=cursor)
