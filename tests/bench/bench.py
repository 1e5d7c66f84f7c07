"""What every figure is measured with: the floors, the product, and a caller of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import msgspec

from tests.bench.figure import Figure, Window
from tests.bench.floors import Floors
from tests.bench.http1 import Http
from tests.bench.measure import Call, Plan, compare, cost
from tests.bench.processes import descendants

__all__ = ["Bench", "Measure", "Product"]


@dataclass(frozen=True, slots=True)
class Product:
    """A whole running product on this machine."""

    host: str
    port: int
    admin_token: str
    authz: str
    database_url: str
    pid: int


class _Named(msgspec.Struct):
    id: str


class _Token(msgspec.Struct):
    token: str


@dataclass(frozen=True, slots=True)
class Bench:
    """Handed to every figure."""

    floors: Floors
    product: Product
    token: str

    @asynccontextmanager
    async def http(self) -> AsyncGenerator[Http]:
        """A connection to the product as the benchmark's person."""
        async with Http(self.product.host, self.product.port, self.token) as http:
            yield http

    @asynccontextmanager
    async def floor_http(self) -> AsyncGenerator[Http]:
        """A connection to the bare HTTP floor, which sends as many request headers."""
        async with Http("127.0.0.1", self.floors.http_port, self.token) as http:
            yield http

    async def cpu(self, plan: Plan, floor: Call, subject: Call, count: int = 150) -> Figure:
        """Processor time a call takes in all processes that serve it, against the floor's."""
        whole = descendants(self.product.pid)
        shares: dict[str, float] = {}

        async def below() -> Window:
            return (await cost(floor, count, self.floors.pids))[0]

        async def above() -> Window:
            window, by_process = await cost(subject, count, whole)
            shares.update(by_process)
            return window

        figure = await compare(plan, below, above)
        note = ", ".join(f"{name} {ms:.2f}" for name, ms in sorted(shares.items(), key=lambda one: -one[1]))
        return replace(figure, note=note)

    @staticmethod
    async def person(product: Product, name: str) -> str:
        """A token for ``person:name``."""
        async with Http(product.host, product.port, product.admin_token) as http:
            made = await http.post("/v1/grovekeeper/tokens", {"person": name, "ttl_seconds": 3600})
        return msgspec.json.decode(made.ok(), type=_Token).token

    @staticmethod
    async def memory(http: Http, name: str, parent: str | None = None) -> str:
        """A new memory's id."""
        body = {"name": name} | ({"parent": parent} if parent else {})
        return msgspec.json.decode((await http.post("/v1/memories", body)).ok(), type=_Named).id


Measure = Callable[[Bench], AsyncIterator[Figure]]
"""Yields figures as they are measured."""
