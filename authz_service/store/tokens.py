"""Bearer tokens in Postgres."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from authz_service.domain.audit import Act
from authz_service.domain.model import NewToken, Token, TokensWanted
from authz_service.domain.ports import TokensChange
from authz_service.store.audit import append
from authz_service.store.batch import Batcher
from service_kit.db.pool import Database, Row, Tx

_ISSUING: Final = 0x746F6B65
"""The advisory locks of principals that are issued tokens ("toke", a hash of the principal)."""
_NEWEST: Final = (datetime.max.replace(tzinfo=UTC), "")


class PostgresTokensChange:
    """The verbs of ``domain.ports.TokensChange`` in one transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx: Tx = tx

    async def live(self, principal: str, now: datetime) -> int:
        await self._tx.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_ISSUING, principal))
        return await self._tx.fetch_value(
            "select count(*) from token where principal = %s and revoked_at is null"
            " and coalesce(expires_at, 'infinity') > %s",
            (principal, now),
        )

    async def add(self, token: NewToken) -> Token:
        new = token.token
        row = await self._tx.fetch_one(
            "insert into token (id, sha256, principal, groups, scopes, created_at, expires_at, created_by,"
            " bootstrap) values (%s, %s, %s, %s, %s, %s, %s, %s, nullif(%s, ''))"
            " on conflict (sha256) do nothing returning id",
            (
                new.id,
                token.sha256,
                new.principal,
                list(new.groups),
                list(new.scopes),
                new.created_at,
                new.expires_at,
                new.created_by,
                new.bootstrap,
            ),
        )
        if row is not None:
            return new
        (kept,) = await self._tx.fetch_all("select * from token where sha256 = %s", (token.sha256,))
        return _token(kept)

    async def revoke(
        self, *, token_id: str = "", sha256: bytes = b"", now: datetime
    ) -> tuple[Token, bool] | None:
        row = await self._tx.fetch_one(
            "update token set revoked_at = %s where (id = %s or sha256 = %s) and revoked_at is null"
            " returning *",
            (now, token_id, sha256),
        )
        if row is not None:
            return _token(row), True
        row = await self._tx.fetch_one("select * from token where id = %s or sha256 = %s", (token_id, sha256))
        return None if row is None else (_token(row), False)

    async def revoke_jwt(self, sha256: bytes, *, expires_at: datetime, now: datetime) -> bool:
        added = await self._tx.execute(
            "insert into revoked_jwt (sha256, expires_at, revoked_at) values (%s, %s, %s)"
            " on conflict (sha256) do nothing",
            (sha256, expires_at, now),
        )
        return added == 1

    async def end_bootstrap(self, others_than: Sequence[bytes], now: datetime) -> list[Token]:
        rows = await self._tx.fetch_all(
            "update token set revoked_at = %s"
            " where bootstrap is not null and revoked_at is null and sha256 <> all (%s) returning *",
            (now, list(others_than)),
        )
        return [_token(row) for row in rows]

    async def record(self, act: Act) -> None:
        await append(self._tx, act)


class PostgresTokens:
    """``domain.ports.Tokens``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database
        self._found: Batcher[bytes, Token | None] = Batcher(database, _find)
        self._revoked: Batcher[bytes, bool] = Batcher(database, _jwt_revoked)

    async def find(self, sha256: bytes) -> Token | None:
        return await self._found.ask(sha256)

    async def jwt_revoked(self, sha256: bytes) -> bool:
        return await self._revoked.ask(sha256)

    async def page(
        self, wanted: TokensWanted, before: tuple[datetime, str] | None, limit: int
    ) -> list[Token]:
        at, last = before or _NEWEST
        named = {
            "principal": wanted.principal,
            "ended": wanted.ended,
            "now": wanted.now,
            "at": at,
            "last": last,
            "limit": limit,
        }
        async with self._database.read() as tx:
            rows = await (_all(tx, named) if not wanted.principal else _of_one(tx, named))
        return [_token(row) for row in rows]

    async def used(self, times: Mapping[str, datetime]) -> None:
        # Locked in one order, so that two processes wait for one another and never in a ring.
        async with self._database.begin() as tx:
            await tx.execute(
                """
                with used as (
                    select * from unnest(%s::text[], %s::timestamptz[]) as u (id, at)
                ), held as (
                    select t.id, u.at from token t join used u on u.id = t.id
                    where t.last_used_at is null or t.last_used_at < u.at
                    order by t.id for no key update of t
                )
                update token t set last_used_at = h.at
                from held h where t.id = h.id
                """,
                (list(times), list(times.values())),
            )

    async def forget_jwts(self, before: datetime) -> None:
        async with self._database.begin() as tx:
            await tx.execute("delete from revoked_jwt where expires_at < %s", (before,))

    @asynccontextmanager
    async def change(self) -> AsyncGenerator[TokensChange]:
        async with self._database.begin() as tx:
            yield PostgresTokensChange(tx)


# Two statements, because one plan serves all values and each of these has an index of its own.
async def _all(tx: Tx, named: Mapping[str, object]) -> list[Row]:
    return await tx.fetch_all(
        "select * from token where (created_at, id) < (%(at)s, %(last)s) and (%(ended)s or"
        " (revoked_at is null and coalesce(expires_at, 'infinity') > %(now)s))"
        " order by created_at desc, id desc limit %(limit)s",
        named,
    )


async def _of_one(tx: Tx, named: Mapping[str, object]) -> list[Row]:
    return await tx.fetch_all(
        "select * from token where principal = %(principal)s"
        " and (created_at, id) < (%(at)s, %(last)s) and (%(ended)s or"
        " (revoked_at is null and coalesce(expires_at, 'infinity') > %(now)s))"
        " order by created_at desc, id desc limit %(limit)s",
        named,
    )


async def _find(tx: Tx, hashes: Sequence[bytes]) -> list[Token | None]:
    rows = await tx.fetch_all("select * from token where sha256 = any (%s)", (list(hashes),))
    found = {bytes(row["sha256"]): _token(row) for row in rows}
    return [found.get(one) for one in hashes]


async def _jwt_revoked(tx: Tx, hashes: Sequence[bytes]) -> list[bool]:
    rows = await tx.fetch_all("select sha256 from revoked_jwt where sha256 = any (%s)", (list(hashes),))
    revoked = {bytes(row["sha256"]) for row in rows}
    return [one in revoked for one in hashes]


def _token(row: Row) -> Token:
    return Token(
        row["id"],
        row["principal"],
        tuple(row["groups"]),
        tuple(row["scopes"]),
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
        row["last_used_at"],
        row["created_by"],
        row["bootstrap"] or "",
    )
