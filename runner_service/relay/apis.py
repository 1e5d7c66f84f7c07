"""The three APIs agents speak to models, as data: their paths, how they say no, and where they say what they counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from runner_service.relay.skim import EACH, Place

__all__ = ["APIS", "Api"]


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Paths are as its clients ask for them, below ``prefix`` of the base URL they are given.

    ``generate`` is the path whose calls cost tokens and are counted; ``beside`` are POSTs that cost none. ``partial`` is where
    a count stands before it is whole, ``usage`` where it is whole. ``inputs`` and ``outputs`` name the numbers to
    add up. ``refusal`` writes an error as this API does, from a status, a code and a sentence.
    """

    kind: str
    provider: str
    prefix: str
    generate: str
    key: Callable[[str], tuple[str, str]]
    refusal: Callable[[int, str, str], bytes]
    listing: Callable[[Sequence[str]], bytes]
    usage: tuple[Place, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    model: tuple[Place, ...]
    finish: tuple[Place, ...]
    error: tuple[Place, ...]
    beside: tuple[str, ...] = ()
    partial: tuple[Place, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Everything to look for in an answer."""
        return (*self.usage, *self.partial, *self.model, *self.finish, *self.error)


_ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    504: "timeout_error",
}


def _anthropic_refusal(status: int, code: str, message: str) -> bytes:
    del code
    error = {"type": _ANTHROPIC_TYPES.get(status, "api_error"), "message": message}
    return msgspec.json.encode({"type": "error", "error": error})


def _openai_refusal(status: int, code: str, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _anthropic_listing(models: Sequence[str]) -> bytes:
    # The API's own word for a time that nobody knows is the epoch.
    data = [
        {"type": "model", "id": one, "display_name": one, "created_at": "1970-01-01T00:00:00Z"}
        for one in models
    ]
    return msgspec.json.encode(
        {"data": data, "has_more": False, "first_id": models[0], "last_id": models[-1]}
    )


def _openai_listing(models: Sequence[str]) -> bytes:
    data = [{"id": one, "object": "model", "created": 0, "owned_by": "grovekeeper"} for one in models]
    return msgspec.json.encode({"object": "list", "data": data})


def _bearer(key: str) -> tuple[str, str]:
    return "authorization", f"Bearer {key}"


APIS: Final[Mapping[str, Api]] = {
    one.kind: one
    for one in (
        Api(
            kind="anthropic",
            provider="anthropic",
            prefix="",
            generate="/v1/messages",
            beside=("/v1/messages/count_tokens",),
            key=lambda key: ("x-api-key", key),
            refusal=_anthropic_refusal,
            listing=_anthropic_listing,
            usage=((b"usage",),),
            partial=((b"message", b"usage"),),
            # What was read from or written to a cache is counted apart here, and within the input elsewhere.
            inputs=("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            outputs=("output_tokens",),
            model=((b"message", b"model"), (b"model",)),
            finish=((b"delta", b"stop_reason"), (b"stop_reason",)),
            error=((b"error", b"type"),),
        ),
        Api(
            kind="responses",
            provider="openai",
            prefix="/v1",
            generate="/v1/responses",
            key=_bearer,
            refusal=_openai_refusal,
            listing=_openai_listing,
            usage=((b"response", b"usage"), (b"usage",)),
            inputs=("input_tokens",),
            outputs=("output_tokens",),
            model=((b"response", b"model"), (b"model",)),
            finish=((b"response", b"status"), (b"status",)),
            error=((b"response", b"error", b"code"), (b"error", b"code"), (b"error", b"type"), (b"code",)),
        ),
        Api(
            kind="chat",
            provider="openai",
            prefix="/v1",
            generate="/v1/chat/completions",
            key=_bearer,
            refusal=_openai_refusal,
            listing=_openai_listing,
            usage=((b"usage",),),
            inputs=("prompt_tokens",),
            outputs=("completion_tokens",),
            model=((b"model",),),
            finish=((b"choices", EACH, b"finish_reason"),),
            error=((b"error", b"code"), (b"error", b"type")),
        ),
    )
}
"""By kind, as ``domain.ports.Relay.kinds`` names them."""
