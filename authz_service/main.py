"""The composition root: settings, then pool, then store, then use cases, then servicers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Final

from joserfc.errors import JoseError

from authz_service import oidc
from authz_service.api.audit import AuditServicer
from authz_service.api.audited import audited
from authz_service.api.principals import PrincipalsServicer
from authz_service.api.servicer import (
    AccessServicer,
    AuthenticationServicer,
    GrantsServicer,
    TreeServicer,
)
from authz_service.api.tokens import TokensServicer, TokenUses
from authz_service.domain import bootstrap
from authz_service.domain.add_grant import AddGrant
from authz_service.domain.attach_harness import AttachHarness
from authz_service.domain.authenticate import Authenticate
from authz_service.domain.create_node import CreateNode
from authz_service.domain.create_token import CreateToken
from authz_service.domain.decide import RootRight
from authz_service.domain.groups import ManageGroups
from authz_service.domain.last_used import LastUsed
from authz_service.domain.list_tokens import ListTokens
from authz_service.domain.mint_passport import MintPassport
from authz_service.domain.refusals import recording
from authz_service.domain.revoke_token import RevokeToken
from authz_service.domain.update_node import UpdateNode
from authz_service.schema import SCHEMA
from authz_service.settings import Settings
from authz_service.store.audit import PostgresAudit
from authz_service.store.following import Following
from authz_service.store.groups import PostgresGroups
from authz_service.store.keys import OldKeys
from authz_service.store.postgres import PostgresStore
from authz_service.store.replica import ReplicaStore
from authz_service.store.tokens import PostgresTokens
from protos.authz.v1 import authz_pb2_grpc as rpc
from service_kit.clock import SystemClock
from service_kit.db import migrate
from service_kit.db.pool import Database, connect
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner
from service_kit.rpc.passport import AUTHENTICATE
from service_kit.rpc.server import Wiring
from service_kit.settings import SettingsError

_SERVICES: Final = ("Authentication", "Tokens", "Principals", "Access", "Tree", "Grants", "Audit")
_RETRY_S: Final = 1.0
_log: Final = logging.getLogger(__name__)

_Work = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[Wiring]:
    """The service, ready to be served."""
    signer, named, clock = _signer(settings), _bootstrap_file(settings), SystemClock()
    async with (
        connect(settings, "authz") as database,
        recording(audit := PostgresAudit(database), clock) as refusals,
        oidc.connected(settings, tokens := PostgresTokens(database), clock) as issuer,
    ):
        following = Following(database, settings.authz_replica_max_nodes)
        # Following keeps a connection for itself; the rows need one, too.
        replicates = settings.authz_replica and settings.db_pool_max > 1
        store = ReplicaStore(database, following) if replicates else PostgresStore(database)
        uses = LastUsed(tokens, clock)
        jwts = None if issuer is None else issuer.jwts
        roots = RootRight(admin_only=settings.authz_root_creation == "admin")
        start = Bootstrap(database, tokens, named)
        authentication = AuthenticationServicer(Authenticate(tokens, jwts, signer, uses, clock))
        issuing = TokensServicer(
            TokenUses(
                CreateToken(tokens, clock),
                ListTokens(tokens, clock),
                RevokeToken(tokens, jwts, clock),
                MintPassport(signer),
            )
        )
        access = AccessServicer(store)
        tree = TreeServicer(store, CreateNode(store, roots, clock), UpdateNode(store, roots))
        grants = GrantsServicer(store, AddGrant(store, clock), AttachHarness(store, clock))
        groups = PostgresGroups(database)
        principals = PrincipalsServicer(groups, ManageGroups(groups, clock))
        reading = AuditServicer(audit, store)
        yield Wiring(
            servicers=[
                lambda server: rpc.add_AuthenticationServicer_to_server(
                    audited(authentication, refusals), server
                ),
                lambda server: rpc.add_TokensServicer_to_server(audited(issuing, refusals), server),
                lambda server: rpc.add_PrincipalsServicer_to_server(audited(principals, refusals), server),
                lambda server: rpc.add_AccessServicer_to_server(audited(access, refusals), server),
                lambda server: rpc.add_TreeServicer_to_server(audited(tree, refusals), server),
                lambda server: rpc.add_GrantsServicer_to_server(audited(grants, refusals), server),
                lambda server: rpc.add_AuditServicer_to_server(audited(reading, refusals), server),
            ],
            service_names=[f"grovekeeper.authz.v1.{name}" for name in _SERVICES],
            background=[
                start.run,
                uses.run,
                refusals.run,
                start.then(following.prune),
                start.then(OldKeys(database, clock).run),
                *([start.then(following.run)] if replicates else []),
                *([] if issuer is None else [issuer.keys.run, issuer.jwts.run]),
            ],
            ready=start.ready,
            public_methods=frozenset({AUTHENTICATE}),
        )


class Bootstrap:
    """Brings the bootstrap tokens in once the schema is there; ready means that both are done."""

    def __init__(self, database: Database, tokens: PostgresTokens, named: list[bootstrap.Named]) -> None:
        self._database: Database = database
        self._tokens: PostgresTokens = tokens
        self._named: list[bootstrap.Named] = named
        self._done: asyncio.Event = asyncio.Event()

    async def ready(self) -> bool:
        """Whether requests can be served."""
        return self._done.is_set() and await migrate.current(self._database, SCHEMA)

    def then(self, work: _Work) -> _Work:
        """Background work that begins once the schema is there."""

        @wraps(work)
        async def waiting() -> None:
            await self._done.wait()
            await work()

        return waiting

    async def run(self) -> None:
        """Try until the database answers and its schema is this release's."""
        while not self._done.is_set():
            try:
                if await migrate.current(self._database, SCHEMA):
                    await bootstrap.ensure(self._tokens, self._named, SystemClock())
                    self._done.set()
                    return
            except GroveError as error:
                _log.warning("the bootstrap tokens have to wait: %s", error.message)
            await asyncio.sleep(_RETRY_S)


def _signer(settings: Settings) -> PassportSigner:
    try:
        return PassportSigner(settings.signing_key_file())
    except (OSError, ValueError, KeyError, JoseError) as error:
        name = settings.variable("passport_signing_key_file")
        raise SettingsError(f"{name} cannot be used: {type(error).__name__}") from error


def _bootstrap_file(settings: Settings) -> list[bootstrap.Named]:
    if settings.authz_bootstrap_file is None:
        return []
    try:
        return bootstrap.parse(settings.authz_bootstrap_file.read_text(encoding="utf-8"))
    except (OSError, bootstrap.BootstrapError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{settings.variable('authz_bootstrap_file')} cannot be used: {told}") from error
