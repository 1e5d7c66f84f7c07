"""The OpenAPI document, from the same schemas that read and write the wire.

A route says by :func:`describe` what it answers and takes, and what it refuses that others do not. What
follows from an operation's path, body and headers is added here once for all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.openapi_errors import codes_of, error_responses
from gateway.openapi_headers import (
    IF_MATCH,
    IF_NONE_MATCH,
    KEY,
    LAST_EVENT_ID,
    answered_headers,
    asked_headers,
)
from gateway.schemas.base import Answer, Ask
from gateway.schemas.examples import EXAMPLES

__all__ = ["ERRORS", "IF_MATCH", "KEY", "LAST_EVENT_ID", "binary", "describe", "document", "form"]

Json: TypeAlias = dict[str, Any]

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_FORM: Final = "multipart/form-data"
_ERRORS: Final = "x-errors"
_HEADERS: Final = "x-headers"
_SHOWN: Final = {kind.__name__: example for kind, example in EXAMPLES.items()}
ERRORS: Final[dict[int | str, Json]] = {"default": {"description": "The error envelope."}}
"""Keeps the framework from describing its own; the document has each status instead."""


def describe(
    answer: type[Answer] | None,
    *,
    body: type[Ask] | Json | None = None,
    query: type[Ask] | None = None,
    also: str | int | None = None,
    headers: tuple[str, ...] = (),
    errors: tuple[str, ...] = (),
) -> Json:
    """``openapi_extra`` of a route: its answer, its body, its query. A body that is free-form is an example of one.

    ``also``: another media type or another status of the answer; ``headers``: ``KEY``, ``IF_MATCH``,
    ``LAST_EVENT_ID``; ``errors``: codes that do not follow from the path, the body and the headers
    (:func:`gateway.openapi_errors.codes_of`). Answers and bodies need an example in ``gateway.schemas.examples``.
    """
    content = {} if answer is None else {_JSON: _shown(answer)}
    if isinstance(also, str):
        content[also] = {"schema": {"type": "string"}}
    given = {"description": "The answer.", "content": content}
    extra: Json = {"responses": {"200": given}, _ERRORS: list(errors), _HEADERS: list(headers)}
    if isinstance(also, int):
        extra["responses"][str(also)] = given
    if isinstance(body, dict):
        free = {"schema": {"type": "object"}, "example": body}
        extra["requestBody"] = {"required": False, "content": {_JSON: free}}
    elif body is not None:
        extra["requestBody"] = {"required": True, "content": {_JSON: _shown(body)}}
    if query is not None:
        extra["parameters"] = _parameters(query)
    return extra


def form(answer: type[Answer], body: type[Ask], *, headers: tuple[str, ...], errors: tuple[str, ...]) -> Json:
    """``openapi_extra`` of a route that takes a form with a file."""
    extra = describe(answer, headers=headers, errors=errors)
    extra["requestBody"] = {"required": True, "content": {_FORM: _shown(body)}}
    return extra


def binary(query: type[Ask], *, headers: tuple[str, ...], errors: tuple[str, ...]) -> Json:
    """``openapi_extra`` of a route that answers bytes, all or some of them."""
    content = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "parameters": _parameters(query),
        "responses": {
            "200": {"description": "The bytes.", "content": content},
            "206": {"description": "Those of the range.", "content": content},
            "304": {"description": "The client has them.", "content": {}},
        },
        _ERRORS: list(errors),
        _HEADERS: list(headers),
    }


def _parameters(query: type[Ask]) -> list[Json]:
    return [
        {"name": field.encode_name, "in": "query", "required": field.required, "schema": _plain(field.type)}
        for field in msgspec.structs.fields(query)
    ]


def _shown(kind: type[msgspec.Struct]) -> Json:
    return {"schema": {"$ref": _REF.format(name=kind.__name__)}}


def _plain(kind: Any) -> Json:
    """The schema of a query's field; an empty value counts as absent, so null need not be said."""
    made = msgspec.json.schema(kind)
    forms = [one for one in cast("list[Json]", made.get("anyOf", [])) if one != {"type": "null"}]
    return forms[0] if len(forms) == 1 else made


def document(app: FastAPI, title: str, version: str) -> Json:
    """The whole document."""
    made = get_openapi(title=title, version=version, routes=app.routes)
    responses: dict[str, Json] = {}
    for path, operations in cast("dict[str, dict[str, Json]]", made["paths"]).items():
        for operation in operations.values():
            responses |= _complete(path, operation)
    made["components"] = {
        "responses": responses,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    kinds = _kinds()
    used = [kinds[name] for name in sorted({*_referenced(made)})]
    _, made["components"]["schemas"] = msgspec.json.schema_components(used, ref_template=_REF)
    made["security"] = [{"bearer": []}]
    return made


def _complete(path: str, operation: Json) -> dict[str, Json]:
    """Add to an operation what follows from what it says of itself; answers the error responses it refers to."""
    headers = cast("list[str]", operation.pop(_HEADERS, []))
    codes = codes_of(path, operation, [*headers, *cast("list[str]", operation.pop(_ERRORS, []))])
    operation["tags"] = [path.split("/")[2]]
    operation["responses"].pop("default", None)
    _exemplify(operation.get("requestBody", {}))
    for answer in cast("dict[str, Json]", operation["responses"]).values():
        _exemplify(answer)
        answer["headers"] = answered_headers(path, tagged=IF_MATCH in headers or IF_NONE_MATCH in headers)
    operation["parameters"] = [*operation.get("parameters", ()), *asked_headers(path, headers)]
    found = error_responses(codes)
    for status, (name, _) in found.items():
        operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    return dict(found.values())


def _exemplify(body: Json) -> None:
    """Put the example of a schema beside it. Not said by the route: the framework would leave out its nulls."""
    for media in cast("dict[str, Json]", body.get("content", {})).values():
        name = str(media["schema"].get("$ref", "")).rpartition("/")[2]
        if name in _SHOWN:
            media["example"] = _SHOWN[name]


def _referenced(part: object) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, Mapping):
        for key, value in cast("Mapping[str, object]", part).items():
            if key == "$ref" and str(value).startswith("#/components/schemas/"):
                yield str(value).rpartition("/")[2]
            else:
                yield from _referenced(value)
    elif isinstance(part, list):
        for one in cast("list[object]", part):
            yield from _referenced(one)


def _kinds() -> dict[str, type[msgspec.Struct]]:
    """Every schema by its name, but for those whose name is not theirs alone."""
    found: dict[str, list[type[msgspec.Struct]]] = {}
    waiting: list[type[msgspec.Struct]] = [Ask, Answer]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.__name__, []).append(kind)
        waiting.extend(kind.__subclasses__())
    return {name: ones[0] for name, ones in found.items() if len(ones) == 1}
