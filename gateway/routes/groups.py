"""``/v1/grovekeeper/groups``: groups and who is in them, for administrators."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from gateway.clients.groups import GroupsClient
from gateway.http import answer, body, query, segment
from gateway.openapi import describe
from gateway.schemas import groups as schema

__all__ = ["members", "routes"]

_GROUPS = "/v1/grovekeeper/groups"
_GROUP = f"{_GROUPS}/{{name}}"
_MEMBER = f"{_GROUP}/members/{{principal}}"


def routes(on: FastAPI, groups: GroupsClient) -> None:
    """Groups, by name with or without ``group:``."""

    @on.post(
        _GROUPS,
        openapi_extra=describe(schema.Group, body=schema.CreateGroup, errors=("grovekeeper_conflict",)),
    )
    async def create_group(request: Request) -> Response:
        """Create a group."""
        asked, _ = await body(request, schema.CreateGroup)
        return answer(await groups.create(asked))

    @on.get(_GROUPS, openapi_extra=describe(schema.Groups, query=schema.ListGroups))
    async def list_groups(request: Request) -> Response:
        """Every group, or those a principal was put in."""
        return answer(await groups.list(query(request, schema.ListGroups)))

    @on.get(_GROUP, openapi_extra=describe(schema.Group))
    async def get_group(name: str) -> Response:
        """One group."""
        return answer(await groups.get(segment(name)))

    @on.delete(_GROUP, openapi_extra=describe(schema.Group))
    async def delete_group(name: str) -> Response:
        """Delete a group, its memberships and every grant it holds."""
        return answer(await groups.delete(segment(name)))


def members(on: FastAPI, groups: GroupsClient) -> None:
    """Who is in a group."""

    @on.get(f"{_GROUP}/members", openapi_extra=describe(schema.Members, query=schema.ListMembers))
    async def list_members(request: Request, name: str) -> Response:
        """Who is in a group."""
        return answer(await groups.members(segment(name), query(request, schema.ListMembers)))

    @on.put(_MEMBER, openapi_extra=describe(schema.Member))
    async def add_member(name: str, principal: str) -> Response:
        """Put a person, a program or a harness in a group."""
        return answer(await groups.add(segment(name), segment(principal)))

    @on.delete(_MEMBER, openapi_extra=describe(schema.Member))
    async def remove_member(name: str, principal: str) -> Response:
        """Take somebody out of a group."""
        return answer(await groups.remove(segment(name), segment(principal)))
