"""What every figure is measured with: the floors, the product, and a caller of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from tests.bench.figure import Figure
from tests.bench.floors import Floors
from tests.bench.http1 import Http

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
