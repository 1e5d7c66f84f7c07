"""What a principal may not see takes as long to be refused as what does not exist.

2,000 calls of each kind in random order over one connection; a simple observer must not tell the kinds apart.
"""

import http.client
import json
import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.e2e.caller import Json
from tests.e2e.hidden import unknown
from tests.e2e.people import Person
from tests.e2e.routes import Names, memory_with_everything

CALLS: Final = 2_000
WARM_UP: Final = 100
ATTEMPTS: Final = 4
"""Runs at most: on a machine that does something else none says much."""
APART: Final = 2
"""Runs in which they are told apart and that are no accident."""
SOAK: Final = "GROVE_SOAK_STEPS" in os.environ
"""Whether time is no matter: one request stands for all that take the same path otherwise."""
BLOCK: Final = 20
PLANTED: Final = 1.05

Times = NDArray[np.float64]
Kinds = NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """How well two kinds of calls can be told apart: 0.5 is not at all.

    ``auc``: how often a call of one kind takes longer than one of the other (Mann-Whitney). ``threshold``: the share
    of right guesses of the best single threshold, chosen afterwards.
    """

    auc: float
    threshold: float

    @property
    def apart(self) -> bool:
        return abs(self.auc - 0.5) > 0.05 or self.threshold > 0.55

    def __str__(self) -> str:
        return f"AUC {self.auc:.3f}, best threshold {self.threshold:.3f}"


def middle(kinds: Kinds, times: Times) -> tuple[Times, Times]:
    """The times of each kind, relative to those around them, where the machine was quiet.

    Chosen without a look at the kinds: the half of the blocks that spread least, without their slowest tenth.
    """
    count = len(times) // BLOCK
    blocks, of = times[: count * BLOCK].reshape(count, BLOCK), kinds[: count * BLOCK].reshape(count, BLOCK)
    relative = blocks / np.median(blocks, axis=1, keepdims=True)
    spread = np.subtract(*np.quantile(relative, [0.75, 0.25], axis=1))
    quiet = spread <= np.median(spread)
    values, names = relative[quiet].ravel(), of[quiet].ravel()
    kept = values <= np.quantile(values, 0.9)
    return values[kept & (names == 0)], values[kept & (names == 1)]


def observe(one: Times, other: Times) -> Seen:
    """What a simple observer makes of two samples."""
    both = np.concatenate([one, other])
    below = np.searchsorted(np.sort(one), both, side="right") / len(one)
    under = np.searchsorted(np.sort(other), both, side="right") / len(other)
    ranks = np.empty(len(both))
    ranks[both.argsort(kind="stable")] = np.arange(1, len(both) + 1)
    larger = float(ranks[: len(one)].sum()) - len(one) * (len(one) + 1) / 2
    return Seen(larger / (len(one) * len(other)), 0.5 + float(np.abs(below - under).max()) / 2)


def planted(times: Times) -> Seen:
    """What it makes of two halves of one sample, one of them slower by the planted difference."""
    return observe(times[::2] * PLANTED, times[1::2])


Worlds = Callable[[Person, Person], tuple[Names, Names]]


@dataclass(frozen=True)
class Case:
    """A request about one of two things, which both get the same answer; ``world`` makes their names."""

    method: str
    path: str
    world: Worlds
    body: Json | None = None
    status: int = 404

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def measure(caller: Person, case: Case, names: tuple[Names, Names]) -> tuple[Kinds, Times]:
    """Which of the two was asked about, and how long it took in ms."""
    paths = [case.path.format(**one) for one in names]
    body = None if case.body is None else json.dumps(case.body)
    headers = {"Authorization": f"Bearer {caller.token}"}
    order = [0, 1] * CALLS
    random.shuffle(order)
    took: list[float] = []
    connection = http.client.HTTPConnection(urlsplit(caller.url).netloc, timeout=30)
    try:
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for kind in [*order[:WARM_UP], *order]:
            began = time.perf_counter_ns()
            connection.request(case.method, paths[kind], body, headers)
            answer = connection.getresponse()
            answer.read()
            took.append((time.perf_counter_ns() - began) / 1e6)
            assert answer.status == case.status
    finally:
        connection.close()
    return np.array(order), np.array(took[WARM_UP:])


def hidden_and_unknown(alice: Person, bob: Person) -> tuple[Names, Names]:
    """A memory six levels down in a tree of alice's with a grant on each, of which bob sees nothing; and none."""
    bob.plant("Bob's own")
    above = alice.plant("Top")
    for level in range(4):
        above = alice.plant(f"Level {level}", above)
        alice.grant(above, f"group:level-{level}", "read")
    names = memory_with_everything(alice, above)
    return names, unknown(names)


def closed_to_bob(alice: Person, bob: Person) -> tuple[Names, Names]:
    """A record and none, in a memory that bob sees and may not read."""
    names, _ = hidden_and_unknown(alice, bob)
    alice.give(names["memory_id"], bob, "create")
    return names, unknown(names) | {"memory_id": names["memory_id"]}


_M: Final = "/v1/memories/{memory_id}"
_R: Final = _M + "/records/{record_id}"
FIRST: Final = (
    Case("GET", _M, hidden_and_unknown),
    Case("POST", f"{_M}/records", hidden_and_unknown, {"type": "fact", "content": "Owls fly."}),
    Case("PATCH", _R, closed_to_bob, {"content": "Penguins swim well."}, 403),
)
FURTHER: Final = (
    Case("GET", _R, hidden_and_unknown),
    Case("POST", f"{_M}/recall", hidden_and_unknown, {"query": "What do penguins do?"}),
    Case("GET", f"{_M}/grants", hidden_and_unknown),
    Case("GET", "/v1/memories?parent={memory_id}", hidden_and_unknown),
    Case("GET", "/v1/grovekeeper/memories/{memory_id}/access?principal=person:somebody", hidden_and_unknown),
)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", (*FIRST, *FURTHER) if SOAK else FIRST, ids=str)
def test_time_does_not_tell_what_is_hidden_from_what_is_not_there(
    alice: Person, bob: Person, tell: Callable[[str], None], case: Case
):
    names = case.world(alice, bob)
    told: list[str] = []
    apart = 0
    for _ in range(ATTEMPTS):
        one, other = middle(*measure(bob, case, names))
        seen, check = observe(one, other), planted(other)
        told.append(f"{seen}; a planted {PLANTED - 1:.0%}: {check}")
        if check.apart and not seen.apart:
            tell(" | ".join(told))
            return
        apart += seen.apart
        if apart == APART:
            pytest.fail(f"told apart {APART} times: {' | '.join(told)}")
    pytest.fail(f"too noisy to see a planted difference: {' | '.join(told)}")


def _made(seed: int, factor: float) -> tuple[Kinds, Times]:
    """Times as a busy machine makes them: a long tail, drift and pauses; those of kind 0 take ``factor`` times as long."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.repeat([0, 1], CALLS))
    drift = 1 + 0.5 * np.sin(np.arange(2 * CALLS) / 300)
    pauses = np.where(rng.random(2 * CALLS) < 0.05, rng.exponential(20, 2 * CALLS), 0)
    return kinds, np.where(kinds == 0, factor, 1.0) * drift * rng.lognormal(1, 0.12, 2 * CALLS) + pauses


@pytest.mark.parametrize("seed", range(5))
def test_the_observer_tells_a_planted_difference_of_five_percent(seed: int):
    assert observe(*middle(*_made(seed, PLANTED))).apart
    assert observe(*middle(*_made(seed, 1 / PLANTED))).apart


@pytest.mark.parametrize("seed", range(20))
def test_the_observer_tells_no_difference_where_there_is_none(seed: int):
    assert not observe(*middle(*_made(seed, 1.0))).apart
