"""From what a base says to the UHP event stream of one response (Streaming).

The rules it keeps, whatever comes in: numbers start at 0 and rise by 1; ``response.created`` first;
for an item, ``added`` precedes and ``done`` follows every event about it; one terminal event, last,
carrying the whole response. An item that was cut off is closed, and says ``incomplete``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Final, cast

import msgspec

from runner_service.domain.model import Event, Item
from runner_service.domain.response_object import encode
from runner_service.domain.turn_events import (
    CallArguments,
    CallDone,
    CallOutput,
    CallStarted,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
    TurnEvent,
)
from service_kit.ids import new_id

__all__ = ["TERMINAL", "UNKNOWN_OUTCOME", "Composer"]

TERMINAL = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.failed",
}
"""Terminal event by status; a cancelled response ends with ``response.failed`` (Streaming)."""

UNKNOWN_OUTCOME = "This call was cut off; whether it took effect is not known."

_HALF: Final = re.compile("[\ud800-\udfff]")
_decoder = msgspec.json.Decoder(dict[str, object])


@dataclass
class _Open:
    """An item under way: its text (or arguments) so far."""

    index: int
    item: Item
    text: list[str] = field(default_factory=list[str])

    @property
    def said(self) -> str:
        return "".join(self.text)


class Composer:
    """Numbers and events of one response. Feed it in order; each method answers the events it causes."""

    def __init__(self) -> None:
        self._next: int = 0
        self._items: list[Item] = []
        self._open: dict[str, _Open] = {}
        self._unanswered: dict[str, None] = {}

    @property
    def output(self) -> list[Item]:
        """Every finished item, in order."""
        open_ones = {id(one.item) for one in self._open.values()}
        return [item for item in self._items if id(item) not in open_ones]

    def lifecycle(self, event_type: str, response: Item) -> Event:
        """``response.created`` or ``response.in_progress``."""
        return self._event(event_type, {"response": response})

    def problem(self, code: str, message: str) -> Event:
        """A non-fatal ``error``."""
        return self._event("error", {"code": code, "message": message, "param": None})

    def finish(self, response: Item) -> Event:
        """The terminal event. Close what is open first."""
        return self._event(TERMINAL[str(response["status"])], {"response": response}, terminal=True)

    def feed(self, event: TurnEvent) -> list[Event]:
        """The events one turn event causes."""
        match _written(event):
            case TextDelta(text):
                events = self._text(text) if text else []
            case ReasoningDelta(text):
                events = self._reasoning(text) if text else []
            case TextDone():
                events = self._close("message")
            case ReasoningDone():
                events = self._close("reasoning")
            case CallStarted(call_id, name):
                events = self._call(call_id, name)
            case CallArguments(call_id, delta):
                events = self._arguments(call_id, delta)
            case CallDone(call_id, arguments):
                events = self._called(call_id, arguments)
            case CallOutput(call_id, output):
                events = self._answered(call_id, output)
            case _:
                events = []
        return events

    def close(self) -> list[Event]:
        """Ends whatever is open, as cut off: an item ``incomplete``, a call with an unknown outcome."""
        events: list[Event] = []
        for key in list(self._open):
            events += self._close(key, status="incomplete")
        for call_id in list(self._unanswered):
            events += self._answered(call_id, UNKNOWN_OUTCOME)
        return events

    # -- messages and reasoning ----------------------------------------------------------------------------

    def _text(self, text: str) -> list[Event]:
        events = self._close("reasoning")
        if "message" not in self._open:
            one, added = self._add(
                "message",
                {
                    "id": new_id("msg"),
                    "type": "message",
                    "role": "assistant",
                    "status": "in_progress",
                    "content": list[Item](),
                },
            )
            events.append(added)
            events.append(
                self._about(one, "response.content_part.added", content_index=0, part=_text_part(""))
            )
        one = self._open["message"]
        one.text.append(text)
        events.append(self._about(one, "response.output_text.delta", content_index=0, delta=text))
        return events

    def _reasoning(self, text: str) -> list[Event]:
        events = self._close("message")
        if "reasoning" not in self._open:
            one, added = self._add(
                "reasoning", {"id": new_id("rs"), "type": "reasoning", "summary": list[Item]()}
            )
            events.append(added)
            events.append(
                self._about(
                    one, "response.reasoning_summary_part.added", summary_index=0, part=_summary_part("")
                )
            )
        one = self._open["reasoning"]
        one.text.append(text)
        events.append(self._about(one, "response.reasoning_summary_text.delta", summary_index=0, delta=text))
        return events

    # -- calls ---------------------------------------------------------------------------------------------

    def _call(self, call_id: str, name: str) -> list[Event]:
        events = self._close("message") + self._close("reasoning")
        item: Item = {"id": new_id("fc"), "type": "function_call", "call_id": call_id, "name": name}
        _, added = self._add(call_id, item | {"arguments": "", "status": "in_progress"})
        self._unanswered[call_id] = None
        return [*events, added]

    def _arguments(self, call_id: str, delta: str) -> list[Event]:
        one = self._open.get(call_id)
        if one is None or not delta:
            return []
        one.text.append(delta)
        return [self._about(one, "response.function_call_arguments.delta", delta=delta)]

    def _called(self, call_id: str, arguments: str) -> list[Event]:
        one = self._open.get(call_id)
        if one is None:
            return []
        one.text[:] = [arguments]
        return self._close(call_id)

    def _answered(self, call_id: str, output: str) -> list[Event]:
        events = self._close(call_id)
        if call_id not in self._unanswered:
            return events
        del self._unanswered[call_id]
        item: Item = {"id": new_id("fco"), "type": "function_call_output", "call_id": call_id}
        _, added = self._add(f"{call_id} output", item | {"output": output, "status": "completed"})
        return [*events, added, *self._close(f"{call_id} output")]

    # -- items ---------------------------------------------------------------------------------------------

    def _add(self, key: str, item: Item) -> tuple[_Open, Event]:
        one = self._open[key] = _Open(len(self._items), item)
        self._items.append(item)
        return one, self._event("response.output_item.added", {"output_index": one.index, "item": dict(item)})

    def _close(self, key: str, *, status: str = "completed") -> list[Event]:
        one = self._open.get(key)
        if one is None:
            return []
        events: list[Event] = []
        match one.item["type"]:
            case "message":
                events.append(self._about(one, "response.output_text.done", content_index=0, text=one.said))
                part = _text_part(one.said)
                events.append(self._about(one, "response.content_part.done", content_index=0, part=part))
                one.item["content"] = [part]
            case "reasoning":
                part = _summary_part(one.said)
                events.append(
                    self._about(one, "response.reasoning_summary_part.done", summary_index=0, part=part)
                )
                one.item["summary"] = [part]
            case "function_call":
                events.append(self._about(one, "response.function_call_arguments.done", arguments=one.said))
                one.item["arguments"] = one.said
            case _:
                pass
        if "status" in one.item:
            one.item["status"] = status
        del self._open[key]
        done: Item = {"output_index": one.index, "item": dict(one.item)}
        return [*events, self._event("response.output_item.done", done)]

    def _about(self, one: _Open, event_type: str, **fields: object) -> Event:
        return self._event(event_type, {"item_id": one.item["id"], "output_index": one.index, **fields})

    def _event(self, event_type: str, fields: Item, *, terminal: bool = False) -> Event:
        number = self._next
        self._next += 1
        body = encode({"type": event_type, "sequence_number": number, **fields})
        return Event(number, event_type, body, terminal)

    # -- from the log --------------------------------------------------------------------------------------

    @classmethod
    def restored(cls, log: Iterable[Event]) -> "Composer":
        """The composer as whoever wrote this log left it, open items included."""
        composer = cls()
        for event in log:
            composer._replay(event)
        return composer

    def _replay(self, event: Event) -> None:
        self._next = event.sequence_number + 1
        if not event.type.startswith("response.") or event.type.count(".") < 2:
            return
        fields = _decoder.decode(event.json)
        match event.type:
            case "response.output_item.added":
                self._replay_added(cast(Item, fields["item"]))
            case "response.output_item.done":
                self._replay_done(cast(int, fields["output_index"]), cast(Item, fields["item"]))
            case _ if event.type.endswith(".delta"):
                key = self._key(cast(int, fields["output_index"]))
                self._open[key].text.append(str(fields["delta"]))
            case _:
                pass

    def _replay_added(self, item: Item) -> None:
        match item["type"]:
            case "function_call":
                key = str(item["call_id"])
                self._unanswered[key] = None
            case "function_call_output":
                key = f"{item['call_id']} output"
                self._unanswered.pop(str(item["call_id"]), None)
            case kind:
                key = str(kind)
        self._open[key] = _Open(len(self._items), item)
        self._items.append(item)

    def _replay_done(self, index: int, item: Item) -> None:
        del self._open[self._key(index)]
        self._items[index] = item

    def _key(self, index: int) -> str:
        return next(key for key, one in self._open.items() if one.index == index)


def _written(event: TurnEvent) -> TurnEvent:
    """With U+FFFD for each half of a character: UTF-8 has none, and an endpoint may cut its text within a pair."""
    halved = {
        one.name: _HALF.sub("\ufffd", text)
        for one in fields(event)
        if isinstance(text := getattr(event, one.name), str) and _HALF.search(text)
    }
    return replace(event, **halved) if halved else event


def _text_part(text: str) -> Item:
    return {"type": "output_text", "text": text, "annotations": []}


def _summary_part(text: str) -> Item:
    return {"type": "summary_text", "text": text}
