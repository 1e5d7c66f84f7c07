"""Somebody with a token: one method is one request, and a refusal is an exception with its envelope."""

import json
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar, cast

import httpx

__all__ = ["Caller", "Json", "Refused", "Streamed", "text_of"]

Json = dict[str, Any]
_Seen = TypeVar("_Seen")

_JOB_S: Final = 60.0
_TIMEOUT_S: Final = 60.0
_TLS: Final = ssl.create_default_context()  # made for each client, it would cost more than most tests


class Refused(Exception):  # noqa: N818 - reads well in `pytest.raises(Refused)`
    """An answer that is not 2xx."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status: int = answer.status_code
        self.headers: httpx.Headers = answer.headers
        self.error: Json = cast("Json", answer.json()["error"])
        self.code: str = str(self.error["code"])
        super().__init__(f"{self.status} {self.error}")


@dataclass
class Streamed:
    """A streamed response: its headers, and the events once the stream has ended."""

    headers: httpx.Headers
    events: list[Json] = field(default_factory=list[Json])

    @property
    def response(self) -> Json:
        """The response of the terminal event."""
        return cast("Json", self.events[-1]["response"])

    def of(self, kind: str) -> list[Json]:
        """Events of one type."""
        return [event for event in self.events if event["type"] == kind]


@dataclass
class Caller:
    """A principal at the door of a product; its connection is opened at the first request."""

    url: str
    token: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=_TIMEOUT_S,
            verify=_TLS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def send(
        self, method: str, path: str, body: Json | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The answer, whatever it is."""
        return self.http.request(method, path, json=body, headers=dict(headers or {}))

    def call(self, method: str, path: str, body: Json | None = None, key: str | None = None) -> Json:
        """The body of a 2xx answer; :class:`Refused` for any other. ``key`` is an Idempotency-Key."""
        answer = self.send(method, path, body, {} if key is None else {"Idempotency-Key": key})
        if not answer.is_success:
            raise Refused(answer)
        return cast("Json", answer.json())

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def post(self, path: str, body: Json, key: str | None = None) -> Json:
        return self.call("POST", path, body, key)

    def put(self, path: str, body: Json) -> Json:
        return self.call("PUT", path, body)

    def delete(self, path: str) -> Json:
        return self.call("DELETE", path)

    # -- memories --------------------------------------------------------------------------------------------

    def plant(self, name: str, parent: str | None = None, **more: object) -> str:
        """A new memory's id."""
        body = {"name": name, "description": f"{name}.", "parent_id": parent, **more}
        return str(self.post("/v1/memories", body)["id"])

    def grant(self, memory: str, principal: str, *privileges: str) -> Json:
        return self.post(
            f"/v1/memories/{memory}/grants", {"principal": principal, "privileges": list(privileges)}
        )

    def listing(self, query: str = "") -> list[Json]:
        """One listing of memories; a page is enough here."""
        page = self.get(f"/v1/memories?{query}")
        assert page["next_cursor"] is None
        return cast("list[Json]", page["data"])

    def remember(self, memory: str, content: str, key: str | None = None, **more: object) -> Json:
        return self.post(f"/v1/memories/{memory}/records", {"type": "fact", "content": content, **more}, key)

    def recall(self, memory: str, query: str, **more: object) -> Json:
        return self.post(f"/v1/memories/{memory}/recall", {"query": query, **more})

    def found(self, memory: str, query: str, **more: object) -> list[str]:
        """The contents a recall finds, best first."""
        return [result["record"]["content"] for result in self.recall(memory, query, **more)["results"]]

    def records(self, memory: str, query: str = "") -> list[Json]:
        return cast("list[Json]", self.get(f"/v1/memories/{memory}/records?limit=200&{query}")["data"])

    def finished(self, memory: str, job: str) -> Json:
        """The job of an observe, once it is no longer pending."""
        return self.until(
            lambda: self.get(f"/v1/memories/{memory}/jobs/{job}"), lambda one: one["status"] != "pending"
        )

    # -- tasks -----------------------------------------------------------------------------------------------

    def harness(self, name: str, *memories: Json, **more: object) -> str:
        """A new harness on the scripted base, attached; its id."""
        made = str(self.post("/v1/harnesses", {"name": name, "base": "scripted", **more})["id"])
        if memories:
            self.put(f"/v1/harnesses/{made}/memories", {"memories": list(memories)})
        return made

    def run(self, text: str, harness: str, previous: str | None = None, **more: object) -> Json:
        """A task's response, once it has ended."""
        return self.post("/v1/responses", _task(text, harness, previous) | more)

    @contextmanager
    def streaming(
        self,
        text: str,
        harness: str,
        previous: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Generator[tuple[Streamed, Generator[Json]]]:
        """A task under way: what was streamed so far, and the events as they come."""
        body = _task(text, harness, previous) | {"stream": True}
        with self.http.stream("POST", "/v1/responses", json=body, headers=dict(headers or {})) as answer:
            if not answer.is_success:
                answer.read()
                raise Refused(answer)
            streamed = Streamed(answer.headers)
            yield streamed, _events(answer, streamed)

    def stream(
        self,
        text: str,
        harness: str,
        previous: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Streamed:
        """A task's events, once it has ended."""
        with self.streaming(text, harness, previous, headers) as (streamed, events):
            for _ in events:
                pass
        return streamed

    @contextmanager
    def following(self, response: str, after: int) -> Generator[tuple[Streamed, Generator[Json]]]:
        """The events of a task after a number, as they come."""
        path = f"/v1/responses/{response}?stream=true"
        with self.http.stream("GET", path, headers={"Last-Event-ID": str(after)}) as answer:
            if not answer.is_success:
                answer.read()
                raise Refused(answer)
            streamed = Streamed(answer.headers)
            yield streamed, _events(answer, streamed)

    # -- waiting ---------------------------------------------------------------------------------------------

    def until(
        self, look: Callable[[], _Seen], enough: Callable[[_Seen], bool], timeout_s: float = _JOB_S
    ) -> _Seen:
        """What ``look`` answers, as soon as it is ``enough``. Told to come again (503), it does."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                seen = look()
                if enough(seen):
                    return seen
                last = str(seen)
            except Refused as refused:
                if refused.status != 503:
                    raise
                last = str(refused)
            assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain; last seen: {last}"
            time.sleep(0.1)


def text_of(response: Json) -> str:
    """What the agent said."""
    messages = [item for item in response["output"] if item["type"] == "message"]
    return "\n".join(part["text"] for item in messages for part in item["content"])


def _task(text: str, harness: str, previous: str | None) -> Json:
    body: Json = {"input": text, "metadata": {"harness_id": harness}}
    return body if previous is None else body | {"previous_response_id": previous}


def _events(answer: httpx.Response, streamed: Streamed) -> Generator[Json]:
    for line in answer.iter_lines():
        if line.startswith("data:"):
            event = cast("Json", json.loads(line.removeprefix("data:")))
            streamed.events.append(event)
            yield event
