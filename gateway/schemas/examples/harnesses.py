"""Harnesses, the tasks they are given, and the sessions of these."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.schemas import harnesses, responses, sessions, shares
from gateway.schemas.examples.shared import MEMORY_ID, Json

__all__ = ["EXAMPLES"]

_HARNESS: Final[Json] = {
    "id": "chrn_41c0",
    "object": "harness",
    "name": "Desk",
    "base": "scripted",
    "baseLabel": "Scripted (no model)",
    "systemPrompt": "",
    "mcpServers": [],
    "skills": [],
    "plugins": [],
    "disabledTools": [],
    "maxStep": None,
    "timeoutSeconds": None,
    "createdAt": 1790560000000,
}
_MODEL: Final[Json] = {
    "id": "scripted",
    "label": "Scripted",
    "backend": "scripted",
    "available": True,
    "default": True,
}
_RESPONSE: Final[Json] = {
    "id": "resp_9f0a",
    "object": "response",
    "created_at": 1790560000,
    "status": "completed",
    "background": False,
    "error": None,
    "incomplete_details": None,
    "previous_response_id": None,
    "model": "scripted",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
        }
    ],
    "store": True,
    "usage": None,
    "metadata": {"session_id": "hsess_5d2e", "harness_id": "chrn_41c0"},
}

_SESSION: Final[Json] = {
    "id": "hsess_5d2e",
    "object": "session",
    "harness_id": "chrn_41c0",
    "title": "When does Acme renew?",
    "status": "completed",
    "created_at": 1790560000,
    "updated_at": 1790560240,
}
_TURN: Final[Json] = {
    "id": "resp_9f0a",
    "status": "completed",
    "created_at": 1790560000,
    "completed_at": 1790560004,
    "user": "When does Acme renew?",
    "assistant": "In March.",
    "tools": [
        {"call_id": "call_1", "name": "memory_recall", "arguments": '{"query":"Acme"}', "output": "…"},
    ],
    "files": [],
}
_ITEM: Final[Json] = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "When does Acme renew?"}],
}

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    harnesses.PutHarness: {"name": "Desk", "base": "scripted"},
    harnesses.Harness: _HARNESS,
    harnesses.Harnesses: {"harnesses": [_HARNESS]},
    harnesses.DeletedHarness: {"id": "chrn_41c0", "object": "harness", "deleted": True},
    harnesses.PutMemories: {"memories": [{"memory_id": MEMORY_ID, "access": "write", "default": True}]},
    harnesses.Attachments: {"memories": [{"memory_id": MEMORY_ID, "access": "write", "default": True}]},
    harnesses.Backends: {"backends": {"scripted": {"default": "scripted", "models": [_MODEL]}}},
    harnesses.HarnessModels: {"harness_id": "chrn_41c0", "backend": "scripted", "models": [_MODEL]},
    responses.CreateResponse: {"input": "Reply with exactly: ok", "metadata": {"harness_id": "chrn_41c0"}},
    responses.ResponseObject: _RESPONSE,
    responses.CancelledSession: {"id": "hsess_5d2e", "object": "session", "status": "cancelled"},
    responses.InputItems: {"object": "list", "data": [_ITEM], "has_more": False},
    responses.DeletedResponse: {"id": "resp_9f0a", "object": "response", "deleted": True},
    sessions.Session: _SESSION,
    sessions.DeletedSession: {"id": "hsess_5d2e", "object": "session", "deleted": True},
    sessions.Sessions: {"sessions": [_SESSION], "next_cursor": None},
    sessions.Turns: {"turns": [_TURN], "next_cursor": None},
    shares.Share: {
        "id": "hshare_9d1f",
        "object": "session.share",
        "session_id": "hsess_5d2e",
        "url": "/v1/shared/hshare_9d1f",
    },
    shares.DeletedShare: {"object": "session.share", "session_id": "hsess_5d2e", "deleted": True},
    shares.SharedView: {
        "object": "session.view",
        "title": "When does Acme renew?",
        "created_at": 1790560000,
        "updated_at": 1790560240,
        "turns": [
            {name: value for name, value in _TURN.items() if name != "id"}
            | {"tools": [{"name": "memory_recall"}]},
        ],
        "next_cursor": None,
    },
}
"""By what each is an example of."""
