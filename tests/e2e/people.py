"""Persons of their own for each test, and what an answer says apart from which request it was."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import httpx

from tests.e2e.caller import Caller, Json
from tests.fixtures.stack import Stack

__all__ = ["Person", "envelope", "person", "said"]


@dataclass
class Person(Caller):
    """A caller whom grants can name."""

    principal: str = ""

    def give(self, memory: str, whom: "Person", *privileges: str) -> str:
        """A grant; its id."""
        return str(self.grant(memory, whom.principal, *privileges)["id"])

    def fact(self, memory: str, content: str = "Penguins swim.", **more: object) -> str:
        """A fact; its id."""
        body = {"type": "fact", "content": content, **more}
        return str(self.post(f"/v1/memories/{memory}/records", body)["id"])


@contextmanager
def person(stack: Stack, name: str, groups: tuple[str, ...] = ()) -> Generator[Person]:
    """Somebody new of that name, whom no other test meets."""
    known = f"{name}-{uuid.uuid4().hex[:12]}"
    token = stack.token(person=known, groups=groups)
    with Person(stack.url, token, principal=f"person:{known}") as made:
        yield made


def envelope(answer: httpx.Response) -> Json:
    """The error of an answer that must be one, trace id and all."""
    body = answer.json()
    assert list(body) == ["error"], answer.text
    error = cast("Json", body["error"])
    assert list(error) == ["type", "code", "message", "param", "detail"], answer.text
    assert error["detail"]["trace_id"] == answer.headers["traceparent"].split("-")[1]
    assert answer.headers["uhp-version"] == "2026-10-04"
    return error


def said(answer: httpx.Response) -> tuple[int, Json, set[str]]:
    """Everything an answer says but which request it was: status, body without trace id, names of headers."""
    error = envelope(answer)
    del error["detail"]["trace_id"]
    return answer.status_code, error, set(answer.headers)
