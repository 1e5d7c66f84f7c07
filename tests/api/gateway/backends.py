"""Servicers that answer what a test tells them to, behind the real chassis: real passports, real errors."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from protos.authz.v1 import authz_pb2, authz_pb2_grpc
from protos.memory.v1 import consolidations_pb2_grpc, memory_pb2_grpc, snapshots_pb2_grpc, types_pb2_grpc
from protos.runner.v1 import runner_pb2, runner_pb2_grpc, sessions_pb2, sessions_pb2_grpc
from runner_service.api.sessions import PUBLIC as SHARES_PUBLIC
from service_kit.errors import GroveError
from service_kit.identity import Passport, PassportSigner, current_passport, generate_keys
from service_kit.rpc import server
from service_kit.settings import Settings

ALICE, BOB, ADMIN = "gk_alice", "gk_bob", "gk_admin"


@dataclass
class Call:
    """One call as a service received it."""

    method: str
    request: Any
    passport: Passport


@dataclass
class Script:
    """What the services answer, by method: a message, an error, or what a function makes of the request."""

    answers: dict[str, Message | GroveError | Exception | Callable[[Any], Message]] = field(
        default_factory=dict[str, Message | GroveError | Exception | Callable[[Any], Message]]
    )
    calls: list[Call] = field(default_factory=list[Call])
    tokens: dict[str, tuple[str, tuple[str, ...]]] = field(
        default_factory=lambda: {
            ALICE: ("person:alice", ("user",)),
            BOB: ("person:bob", ("user",)),
            ADMIN: ("credential:admin", ("user", "admin")),
        }
    )
    authentications: int = 0
    sources: list[str] = field(default_factory=list[str])
    fed: list[list[sessions_pb2.Fed] | GroveError] = field(
        default_factory=list[list[sessions_pb2.Fed] | GroveError]
    )
    events: dict[str, "Events"] = field(default_factory=dict[str, "Events"])

    def reset(self) -> None:
        """Forget what the test before said and saw."""
        fresh = Script()
        self.answers, self.calls, self.tokens = fresh.answers, fresh.calls, fresh.tokens
        self.authentications, self.sources, self.events = 0, fresh.sources, fresh.events
        self.fed = fresh.fed

    def answer(self, method: str, request: Any) -> Any:
        self.calls.append(Call(method, request, current_passport()))
        answer = self.answers.get(method)
        if answer is None:
            raise AssertionError(f"no test told {method} what to answer")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Message) else answer(request)

    def only(self, method: str) -> Any:
        """The request of the one call of ``method``."""
        (call,) = [one for one in self.calls if one.method == method]
        return call.request


@dataclass
class Events:
    """The event log of one response: what is there, and what is added while somebody follows."""

    log: list[runner_pb2.Event] = field(default_factory=list[runner_pb2.Event])
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    followers: int = 0
    follows: list[int] = field(default_factory=list[int])
    breaks: list[GroveError] = field(default_factory=list[GroveError])

    async def add(self, kind: str, *, terminal: bool = False, json: bytes | None = None) -> None:
        number = len(self.log)
        body = json or b'{"type":"%b","sequence_number":%d}' % (kind.encode(), number)
        async with self.changed:
            self.log.append(runner_pb2.Event(sequence_number=number, type=kind, json=body, terminal=terminal))
            self.changed.notify_all()

    async def until(self, followers: int) -> None:
        """Wait until that many follow."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.followers == followers)

    async def follow(self, after: int) -> AsyncGenerator[runner_pb2.EventBatch]:
        await self._count(1, after)
        try:
            sent = after
            while True:
                batch = self.log[sent + 1 :]
                if batch:
                    yield runner_pb2.EventBatch(events=batch)
                    sent = batch[-1].sequence_number
                    if batch[-1].terminal:
                        return
                    if self.breaks:
                        raise self.breaks.pop()
                async with self.changed:
                    await self.changed.wait_for(lambda: len(self.log) > sent + 1)  # noqa: B023
        finally:
            # The call is over; its task must not wait for anything any more.
            self.followers -= 1
            self._told = asyncio.create_task(self._tell())

    async def _count(self, by: int, after: int) -> None:
        async with self.changed:
            self.followers += by
            self.follows.append(after)
            self.changed.notify_all()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


def _scripted(base: type, script: Script, skip: frozenset[str] = frozenset()) -> Any:
    """A servicer of ``base`` whose every method asks the script."""

    def method(name: str) -> Any:
        async def answer(_: object, request: Any, __: object) -> Any:
            return script.answer(name, request)

        return answer

    names = {name for name in vars(base) if not name.startswith("_")} - skip
    return type(f"Scripted{base.__name__}", (base,), {name: method(name) for name in names})()


class Authentication(authz_pb2_grpc.AuthenticationServicer):
    """Knows the script's tokens."""

    def __init__(self, script: Script, signer: PassportSigner) -> None:
        self._script = script
        self._signer = signer

    async def Authenticate(self, request: authz_pb2.AuthenticateRequest, context: Any) -> Any:  # noqa: N802
        self._script.authentications += 1
        self._script.sources.append(request.source)
        if request.token not in self._script.tokens:
            raise GroveError("invalid_credential", "The credential is not valid.")
        principal, scopes = self._script.tokens[request.token]
        passport = self._signer.sign(principal, groups=("group:g",), scopes=scopes)
        expires_at = Timestamp()
        expires_at.FromDatetime(passport.expires_at)
        return authz_pb2.AuthenticateResponse(
            passport=passport.token,
            expires_at=expires_at,
            principal=principal,
            groups=passport.groups,
            scopes=sorted(passport.scopes),
        )


def _principals(script: Script) -> Any:
    class Principals(_scripted(authz_pb2_grpc.PrincipalsServicer, script).__class__):
        """Knows who asks without being told."""

        async def WhoAmI(self, request: Any, context: Any) -> authz_pb2.WhoAmIResponse:  # noqa: N802
            passport = current_passport()
            return authz_pb2.WhoAmIResponse(
                principal=passport.principal,
                groups=sorted({*passport.groups, "group:kept"}),
                scopes=sorted(passport.scopes),
                token_id="tok_1",
                managed_groups=["group:kept"],
            )

    return Principals()


def _responses(script: Script) -> Any:
    class Following(_scripted(runner_pb2_grpc.ResponsesServicer, script).__class__):
        """Follows the script's events."""

        async def FollowResponse(self, request: Any, context: Any) -> AsyncGenerator[Any]:  # noqa: N802
            script.calls.append(Call("FollowResponse", request, current_passport()))
            events = script.events[request.id].follow(request.after)
            try:
                async for batch in events:
                    yield batch
            finally:
                await events.aclose()

    return Following()


def _feeds(script: Script) -> Any:
    class Feeds(sessions_pb2_grpc.FeedsServicer):
        """Tells the script's parts of a feed, a call after the other; each breaks off at its end."""

        async def FollowHarness(self, request: Any, context: Any) -> AsyncGenerator[Any]:  # noqa: N802
            script.calls.append(Call("FollowHarness", request, current_passport()))
            part = script.fed.pop(0) if script.fed else None
            if isinstance(part, GroveError):
                raise part
            for one in part or ():
                yield one
            if part is None:
                await asyncio.Event().wait()

    return Feeds()


def _shares(script: Script) -> Any:
    class Shares(_scripted(sessions_pb2_grpc.SharesServicer, script).__class__):
        """Opens links for nobody in particular."""

        async def OpenShare(self, request: Any, context: Any) -> Any:  # noqa: N802
            answer = script.answers["OpenShare"]
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, Message) else answer(request)

    return Shares()


@asynccontextmanager
async def served(script: Script, folder: Path) -> AsyncGenerator[str]:
    """The address of a server that answers as every service behind the gateway."""
    private, public = generate_keys()
    (folder / "signing.json").write_text(private)
    (folder / "keys.json").write_text(public)
    signer = PassportSigner(folder / "signing.json")
    adders: list[tuple[Callable[[Any, grpc.aio.Server], None], Any]] = [
        (authz_pb2_grpc.add_AuthenticationServicer_to_server, Authentication(script, signer)),
        (authz_pb2_grpc.add_PrincipalsServicer_to_server, _principals(script)),
        (authz_pb2_grpc.add_AccessServicer_to_server, _scripted(authz_pb2_grpc.AccessServicer, script)),
        (authz_pb2_grpc.add_AuditServicer_to_server, _scripted(authz_pb2_grpc.AuditServicer, script)),
        (authz_pb2_grpc.add_GrantsServicer_to_server, _scripted(authz_pb2_grpc.GrantsServicer, script)),
        (authz_pb2_grpc.add_TokensServicer_to_server, _scripted(authz_pb2_grpc.TokensServicer, script)),
        (
            memory_pb2_grpc.add_MemoriesServicer_to_server,
            _scripted(memory_pb2_grpc.MemoriesServicer, script),
        ),
        (memory_pb2_grpc.add_RecordsServicer_to_server, _scripted(memory_pb2_grpc.RecordsServicer, script)),
        (
            snapshots_pb2_grpc.add_SnapshotsServicer_to_server,
            _scripted(snapshots_pb2_grpc.SnapshotsServicer, script),
        ),
        (types_pb2_grpc.add_TypesServicer_to_server, _scripted(types_pb2_grpc.TypesServicer, script)),
        (
            consolidations_pb2_grpc.add_ConsolidationsServicer_to_server,
            _scripted(consolidations_pb2_grpc.ConsolidationsServicer, script),
        ),
        (
            runner_pb2_grpc.add_HarnessesServicer_to_server,
            _scripted(runner_pb2_grpc.HarnessesServicer, script),
        ),
        (runner_pb2_grpc.add_ResponsesServicer_to_server, _responses(script)),
        (sessions_pb2_grpc.add_SharesServicer_to_server, _shares(script)),
        (sessions_pb2_grpc.add_FeedsServicer_to_server, _feeds(script)),
    ]

    def register(grpc_server: grpc.aio.Server) -> None:
        for add, servicer in adders:
            add(servicer, grpc_server)

    @asynccontextmanager
    async def build(_: Settings) -> AsyncGenerator[server.Wiring]:
        yield server.Wiring(
            servicers=[register],
            service_names=[],
            public_methods=frozenset({"grovekeeper.authz.v1.Authentication/Authenticate", *SHARES_PUBLIC}),
        )

    settings = Settings(listen="127.0.0.1:0", passport_keys_file=folder / "keys.json", stop_grace_s=0)
    stop, ports = asyncio.Event(), asyncio.Queue[int]()
    serving = asyncio.create_task(
        server.serve("backends", settings, build, stop=stop, started=lambda port, _: ports.put_nowait(port))
    )
    try:
        yield f"127.0.0.1:{await ports.get()}"
    finally:
        stop.set()
        await serving
