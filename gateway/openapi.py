"""The OpenAPI document, from the same schemas that read and write the wire."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.schemas.base import Answer, Ask

__all__ = ["ERRORS", "describe", "document"]

_REF: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "The error envelope.",
        "content": {_JSON: {"schema": {"$ref": _REF.format(name="Envelope")}}},
    }
}
"""What every operation may answer instead."""


def describe(
    answer: type[Answer] | None,
    *,
    body: type[Ask] | None = None,
    query: type[Ask] | None = None,
    status: int = 200,
    also: str | None = None,
) -> dict[str, Any]:
    """``openapi_extra`` of a route: its body, its query, its answer and another media type it may answer."""
    content: dict[str, Any] = {_JSON: {"schema": _schema(answer)}}
    if also is not None:
        content[also] = {"schema": {"type": "string"}}
    extra: dict[str, Any] = {
        "responses": {str(status): {"description": "The answer.", "content": content}},
    }
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {_JSON: {"schema": _schema(body)}}}
    if query is not None:
        extra["parameters"] = [
            {"name": field.encode_name, "in": "query", "schema": msgspec.json.schema(field.type)}
            for field in msgspec.structs.fields(query)
        ]
    return extra


def _schema(kind: type[msgspec.Struct] | None) -> dict[str, Any]:
    return {"type": "object"} if kind is None else {"$ref": _REF.format(name=kind.__name__)}


def document(app: FastAPI, title: str, version: str) -> dict[str, Any]:
    """The whole document."""
    made = get_openapi(title=title, version=version, routes=app.routes)
    used = [_kinds()[name] for name in sorted({*_referenced(made)})]
    _, components = msgspec.json.schema_components(used, ref_template=_REF)
    made["components"] = {
        "schemas": components,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    made["security"] = [{"bearer": []}]
    for path, operations in cast("dict[str, dict[str, dict[str, Any]]]", made["paths"]).items():
        for operation in operations.values():
            operation["tags"] = [path.split("/")[2]]
    return made


def _referenced(part: object) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, Mapping):
        for key, value in cast("Mapping[str, object]", part).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _referenced(value)
    elif isinstance(part, list):
        for one in cast("list[object]", part):
            yield from _referenced(one)


def _kinds() -> dict[str, type[msgspec.Struct]]:
    """Every schema by its name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting: list[type[msgspec.Struct]] = [Ask, Answer]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting.extend(kind.__subclasses__())
    return found
