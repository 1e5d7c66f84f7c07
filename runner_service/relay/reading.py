"""What an answer says of itself while it passes: what was counted, which model answered, why it stopped or failed."""

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from runner_service.domain.model import Usage
from runner_service.relay.apis import Api
from runner_service.relay.skim import Place, Skim
from runner_service.relay.sse import Events

__all__ = ["Reading"]


class Reading:
    """Reads one answer, streamed or whole, and holds nothing of it but what is asked for below."""

    def __init__(self, api: Api, *, streamed: bool) -> None:
        self._api: Api = api
        self._skim: Skim = Skim(api.places)
        self._events: Events | None = Events(self._skim, self._learn) if streamed else None
        self._numbers: dict[str, int] = {}
        self._counted: bool = False
        self.model: str = ""
        self.finish: str = ""
        self.error: str = ""

    def feed(self, data: bytes) -> None:
        """The next bytes of the answer."""
        if self._events is None:
            self._skim.feed(data)
        else:
            self._events.feed(data)

    def end(self) -> None:
        """The answer is whole."""
        if self._events is None:
            self._learn(self._skim.found)

    def usage(self) -> Usage | None:
        """What was counted; None when the answer does not say, or ended before it did."""
        inputs = self._sum(self._api.inputs)
        outputs = self._sum(self._api.outputs)
        if not self._counted or inputs is None or outputs is None:
            return None
        return Usage(inputs, outputs)

    def _sum(self, names: Iterable[str]) -> int | None:
        known = [self._numbers[name] for name in names if name in self._numbers]
        return sum(known) if known else None

    def _learn(self, found: Mapping[Place, bytes]) -> None:
        for place in (*self._api.partial, *self._api.usage):
            numbers = _numbers(found.get(place, b""))
            self._numbers |= numbers
            self._counted |= bool(numbers) and place in self._api.usage
        self.model = _first(found, self._api.model) or self.model
        self.finish = _first(found, self._api.finish) or self.finish
        self.error = _first(found, self._api.error) or self.error


def _numbers(spelled: bytes) -> dict[str, int]:
    read = _read(spelled)
    if not isinstance(read, dict):
        return {}
    items = cast("dict[str, object]", read).items()
    return {name: value for name, value in items if type(value) is int and value >= 0}


def _first(found: Mapping[Place, bytes], places: Iterable[Place]) -> str:
    """The first text at one of these places; empty when there is none."""
    read = (_read(found[place]) for place in places if place in found)
    return next((text for text in read if isinstance(text, str) and text), "")


def _read(spelled: bytes) -> object:
    try:
        return msgspec.json.decode(spelled) if spelled else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
