"""The server itself, who may use it, and what it keeps of its work."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.schemas import access, audit, discovery, groups, jobs, tokens
from gateway.schemas.examples.shared import GRANT, MEMORY_ID, NONE_MORE, TIME, Json

__all__ = ["EXAMPLES"]

_TOKEN: Final[Json] = {
    "id": "tok_1",
    "object": "grovekeeper.token",
    "principal": "person:tom",
    "groups": ["group:support"],
    "scopes": ["user"],
    "created_at": TIME,
}
_GROUP: Final[Json] = {
    "name": "group:support",
    "object": "grovekeeper.group",
    "description": "Answers customers.",
    "members": {"count": 1},
    "created_at": TIME,
}
_MEMBER: Final[Json] = {
    "group": "group:support",
    "object": "grovekeeper.member",
    "principal": "person:tom",
    "added_at": TIME,
    "added_by": "person:ruth",
}
_JOB: Final[Json] = {
    "id": "hjob_1",
    "object": "grovekeeper.job",
    "kind": "derivation",
    "memory_id": MEMORY_ID,
    "status": "failed",
    "created_at": TIME,
    "pending_since": None,
    "finished_at": TIME,
    "runs": 3,
    "quarantined_episodes": 0,
    "reason": "The model did not answer.",
}
_BACKLOG: Final[Json] = {
    "object": "grovekeeper.derivation",
    "memory_id": MEMORY_ID,
    "pending_jobs": 2,
    "pending_since": TIME,
    "reason": "The memory's tokens of the day are spent.",
    "quarantined_episodes": 0,
    "tokens_today": 200_000,
}
_DISCOVERY: Final[Json] = msgspec.to_builtins(discovery.discovery())

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    discovery.Discovery: _DISCOVERY,
    tokens.CreateToken: {"person": "tom", "groups": ["support"], "ttl_seconds": 86400},
    tokens.IssuedToken: {**_TOKEN, "token": "gk_…"},
    tokens.Tokens: {"data": [_TOKEN], **NONE_MORE},
    tokens.RevokeToken: {"id": "tok_1"},
    tokens.RevokedToken: {"id": "tok_1", "object": "grovekeeper.token", "revoked": True},
    groups.CreateGroup: {"name": "support", "description": "Answers customers."},
    groups.Group: _GROUP,
    groups.Groups: {"data": [_GROUP], **NONE_MORE},
    groups.Member: _MEMBER,
    groups.Members: {"data": [_MEMBER], **NONE_MORE},
    jobs.BackgroundJob: _JOB,
    jobs.Backlog: _BACKLOG,
    jobs.Jobs: {"data": [_JOB], **NONE_MORE},
    access.WhoAmI: {
        "object": "grovekeeper.principal",
        "principal": "person:tom",
        "groups": ["group:support"],
        "managed_groups": ["group:support"],
        "scopes": ["user"],
        "token_id": "tok_1",
    },
    access.Explanation: {
        "object": "grovekeeper.access",
        "memory_id": MEMORY_ID,
        "principal": "person:tom",
        "privileges": ["read", "write"],
        "reasons": [{"grant": GRANT, "via_group": "group:support", "stopped_at": None}],
        "groups": ["group:support"],
        "complete": True,
    },
    audit.Audit: {
        "data": [
            {
                "id": "aud_1",
                "object": "grovekeeper.audit_record",
                "at": TIME,
                "actor": "person:ruth",
                "token_id": "tok_1",
                "action": "grant.create",
                "outcome": "allowed",
                "code": None,
                "memory_id": MEMORY_ID,
                "principal": "group:support",
                "source": "203.0.113.7",
                "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
                "detail": {},
            }
        ],
        **NONE_MORE,
    },
}
"""By what each is an example of."""
