"""What the example needs of the wire: one small client per person, a loader, a reader of streamed turns."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

CONVERSATIONS = Path(__file__).with_name("conversations.jsonl")
JOB_DEADLINE_S = 120.0
Json = dict[str, Any]


class RefusedError(Exception):
    """The server answered an error envelope: `status` and UHP `code`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Turn:
    """One line of conversations.jsonl."""

    conversation: str
    memory: str
    speaker: str
    role: str
    at: str
    text: str

    def episode(self) -> Json:
        """The turn as an episode of `observe`: what was said, by whom, and when it was said."""
        return {
            "content": self.text,
            "role": self.role,
            "attributes": {"speaker": self.speaker, "conversation": self.conversation},
            "time": {"valid_from": self.at},
        }


def conversations() -> dict[str, list[Turn]]:
    """Every conversation in the order it was held, by its id."""
    found: dict[str, list[Turn]] = {}
    for line in CONVERSATIONS.read_text(encoding="utf-8").splitlines():
        turn = Turn(**json.loads(line))
        found.setdefault(turn.conversation, []).append(turn)
    return found


@dataclass
class Caller:
    """Somebody with a token. Every method is one request; an error envelope raises `RefusedError`."""

    url: str
    token: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60.0
        )

    def call(self, method: str, path: str, body: Json | None = None, key: str | None = None) -> Json:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = self.http.request(method, path, json=body, headers=headers)
        return _checked(answer)

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def post(self, path: str, body: Json, key: str | None = None) -> Json:
        return self.call("POST", path, body, key)

    def listing(self, query: str = "") -> list[Json]:
        """One listing of memories, all its pages."""
        found: list[Json] = []
        cursor = ""
        while True:
            joined = "&".join(part for part in (query, cursor and f"cursor={cursor}") if part)
            page = self.get(f"/v1/memories?{joined}")
            found.extend(page["data"])
            if page["next_cursor"] is None:
                return found
            cursor = page["next_cursor"]

    def walk(self, parent: str | None = None) -> Iterator[tuple[int, Json]]:
        """The part of the tree this caller sees, as (depth, memory), from its entry points down."""
        for memory in self.listing("" if parent is None else f"parent={parent}"):
            yield 0, memory
            if memory["children"]["count"]:
                yield from ((depth + 1, below) for depth, below in self.walk(memory["id"]))

    def recall(self, memory: str, query: str, **more: object) -> Json:
        return self.post(f"/v1/memories/{memory}/recall", {"query": query, **more})

    def observe(self, memory: str, turns: list[Turn], key: str) -> Json:
        """Hand over one conversation; answers the job that derives from it."""
        body = {"episodes": [turn.episode() for turn in turns]}
        return cast("Json", self.post(f"/v1/memories/{memory}/observe", body, key)["job"])

    def wait_for(self, memory: str, job: str) -> Json:
        """The job once it is no longer pending."""
        deadline = time.monotonic() + JOB_DEADLINE_S
        while (state := self.get(f"/v1/memories/{memory}/jobs/{job}"))["status"] == "pending":
            if time.monotonic() > deadline:
                raise SystemExit(f"the job {job} is still pending after {JOB_DEADLINE_S:.0f} s")
            time.sleep(0.2)
        return state

    def turn(self, harness: str, text: str, previous: str | None = None) -> Iterator[Json]:
        """The events of one streamed turn, as they arrive."""
        body: Json = {"input": text, "stream": True, "metadata": {"harness_id": harness}}
        if previous is not None:
            body["previous_response_id"] = previous
        with self.http.stream("POST", "/v1/responses", json=body) as answer:
            if answer.is_error:
                answer.read()
                _checked(answer)
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))


def _checked(answer: httpx.Response) -> Json:
    body = cast("Json", answer.json())
    if answer.is_error:
        raise RefusedError(answer.status_code, body["error"]["code"], body["error"]["message"])
    return body
