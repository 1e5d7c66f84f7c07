"""People who call the product over HTTP, and small worlds they make for themselves."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.fixtures.stack import Stack

__all__ = ["Caller", "Json", "envelope", "fresh", "person", "said"]

Json = dict[str, Any]


@dataclass
class Caller:
    """Somebody with a token. ``principal`` is what grants name."""

    principal: str
    http: httpx.Client = field(repr=False)

    def __call__(self, method: str, path: str, body: object = None, **more: Any) -> httpx.Response:
        """One request, whatever it answers."""
        if body is not None:
            more["json"] = body
        return self.http.request(method, path, **more)

    def ok(self, method: str, path: str, body: object = None, **more: Any) -> Json:
        """One request that must succeed."""
        answer = self(method, path, body, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def memory(self, name: str = "m", **more: Any) -> str:
        """A new memory; its id."""
        return str(self.ok("POST", "/v1/memories", {"name": name, **more})["id"])

    def grant(self, memory: str, whom: "Caller", *privileges: str) -> str:
        """A grant; its id."""
        body = {"principal": whom.principal, "privileges": list(privileges)}
        return str(self.ok("POST", f"/v1/memories/{memory}/grants", body)["id"])

    def fact(self, memory: str, content: str = "Penguins swim.", **more: Any) -> str:
        """A fact in a memory; its id."""
        body = {"type": "fact", "content": content, **more}
        return str(self.ok("POST", f"/v1/memories/{memory}/records", body)["id"])


def fresh(name: str) -> str:
    """A name nobody else uses, so that tests on one product do not meet."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


@contextmanager
def person(stack: Stack, name: str, groups: tuple[str, ...] = ()) -> Generator[Caller]:
    """A new person of that name."""
    known = fresh(name)
    headers = {"Authorization": f"Bearer {stack.token(person=known, groups=groups)}"}
    with httpx.Client(base_url=stack.url, headers=headers, timeout=60) as http:
        yield Caller(f"person:{known}", http)


def envelope(answer: httpx.Response) -> Json:
    """The error of an answer that must be one, trace id and all."""
    body = answer.json()
    assert list(body) == ["error"], answer.text
    error: Json = body["error"]
    assert list(error) == ["type", "code", "message", "param", "detail"], answer.text
    assert error["detail"]["trace_id"] == answer.headers["traceparent"].split("-")[1]
    assert answer.headers["uhp-version"] == "2026-10-04"
    return error


def said(answer: httpx.Response) -> tuple[int, Json, set[str]]:
    """Everything an answer says but which request it was: status, body without trace id, names of headers."""
    error = envelope(answer)
    del error["detail"]["trace_id"]
    return answer.status_code, error, set(answer.headers)
