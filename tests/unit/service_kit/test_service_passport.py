"""A service's own identity, exchanged at authz and renewed by itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from protos.authz.v1 import authz_pb2, authz_pb2_grpc
from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner, current_passport, passport_or_none, use_passport
from service_kit.rpc.client import ServicePassport, channel, streaming
from service_kit.rpc.passport import AUTHENTICATE
from service_kit.settings import Settings
from tests.unit.service_kit.echo import PUBLIC, Echo, Served, serving


class Authz(authz_pb2_grpc.AuthenticationServicer):
    """The one method everybody may call."""

    def __init__(self, signer: PassportSigner) -> None:
        self.asked = 0
        self._signer = signer

    async def Authenticate(  # noqa: N802 - the contract's name
        self,
        request: authz_pb2.AuthenticateRequest,
        context: object,
    ) -> authz_pb2.AuthenticateResponse:
        del context
        self.asked += 1
        assert passport_or_none() is None
        if request.token != "gk_things":
            raise GroveError("invalid_credential", "The credential is not valid.")
        made = self._signer.sign("service:things", scopes=["service"])
        answer = authz_pb2.AuthenticateResponse(
            passport=made.token, principal=made.principal, scopes=sorted(made.scopes)
        )
        answer.expires_at.FromDatetime(made.expires_at)
        return answer


@asynccontextmanager
async def authenticating(settings: Settings, authz: Authz) -> AsyncGenerator[Served]:
    echo = Echo()

    def register(server: grpc.aio.Server) -> None:
        authz_pb2_grpc.add_AuthenticationServicer_to_server(authz, server)
        echo.register(server)

    public = frozenset({PUBLIC, AUTHENTICATE})
    async with serving(settings, echo, servicers=[register], public_methods=public) as served:
        yield served


async def test_a_service_acts_as_itself_inside_the_block_only(settings: Settings, signer: PassportSigner):
    authz = Authz(signer)
    async with (
        authenticating(settings, authz) as served,
        served.client() as stub,
        channel(served.address, settings) as calls,
    ):
        service = ServicePassport(calls, "gk_things")
        with use_passport(signer.sign("person:alice")):
            async with service.as_service() as passport:
                assert current_passport() == passport
                assert passport.scopes == {"service"}
                assert await stub.unary(b"who") == b"service:things"
                async with streaming(stub.stream(b"")) as items:
                    assert await anext(items) == b"0 service:things"
            assert await stub.unary(b"who") == b"person:alice"
    assert authz.asked == 1


async def test_a_passport_is_asked_for_once_and_again_before_it_ends(
    settings: Settings, key_files: tuple[Path, Path]
):
    clock = FixedClock(datetime.now(UTC))
    authz = Authz(PassportSigner(key_files[0], clock))
    async with authenticating(settings, authz) as served, channel(served.address, settings) as calls:
        service = ServicePassport(calls, "gk_things", clock)
        assert len({(await one).token for one in [service.passport() for _ in range(5)]}) == 1
        await asyncio.gather(*(service.passport() for _ in range(5)))
        assert authz.asked == 1
        clock.advance(timedelta(seconds=45))
        await asyncio.gather(*(service.passport() for _ in range(5)))
        assert authz.asked == 2


async def test_a_block_that_lasts_sends_a_fresh_passport_with_each_call(
    settings: Settings, signer: PassportSigner
):
    authz, clock = Authz(signer), FixedClock(datetime.now(UTC))
    async with (
        authenticating(settings, authz) as served,
        served.client() as stub,
        channel(served.address, settings) as calls,
        ServicePassport(calls, "gk_things", clock).as_service(),
    ):
        await stub.unary(b"who")
        clock.advance(timedelta(minutes=10))
        assert await stub.unary(b"who") == b"service:things"
    assert authz.asked >= 2


async def test_a_refused_token_is_a_refusal(settings: Settings, signer: PassportSigner):
    async with authenticating(settings, Authz(signer)) as served, channel(served.address, settings) as calls:
        with pytest.raises(GroveError) as told:
            async with ServicePassport(calls, "gk_wrong").as_service():
                pass
    assert told.value.code == "invalid_credential"
