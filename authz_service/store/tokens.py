"""Bearer tokens in Postgres."""

from collections.abc import Sequence
from datetime import datetime

from authz_service.domain.model import NewToken, Token
from authz_service.store.batch import Batcher
from service_kit.db.pool import Database, Row, Tx


class PostgresTokens:
    """``domain.ports.Tokens``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database
        self._found: Batcher[bytes, Token | None] = Batcher(database, _find)

    async def find(self, sha256: bytes) -> Token | None:
        return await self._found.ask(sha256)

    async def add(self, token: NewToken) -> None:
        async with self._database.begin() as tx:
            await _insert(tx, token, None)

    async def revoke(self, *, token_id: str = "", sha256: bytes = b"", now: datetime) -> str | None:
        async with self._database.begin() as tx:
            return await tx.fetch_value(
                "update token set revoked_at = coalesce(revoked_at, %s)"
                " where id = %s or sha256 = %s returning id",
                (now, token_id, sha256),
            )

    async def ensure_bootstrap(self, tokens: Sequence[tuple[str, NewToken]], now: datetime) -> list[str]:
        names = {one.sha256: name for name, one in tokens}
        async with self._database.begin() as tx:
            for name, one in tokens:
                await _insert(tx, one, name)
            await tx.execute(
                "update token set revoked_at = coalesce(revoked_at, %s)"
                " where bootstrap is not null and sha256 <> all (%s)",
                (now, list(names)),
            )
            rows = await tx.fetch_all(
                "select sha256 from token where sha256 = any (%s) and revoked_at is not null", (list(names),)
            )
        return [names[bytes(row["sha256"])] for row in rows]


async def _insert(tx: Tx, new: NewToken, bootstrap: str | None) -> None:
    token = new.token
    await tx.execute(
        "insert into token (id, sha256, principal, groups, scopes, created_at, expires_at, bootstrap)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s) on conflict (sha256) do nothing",
        (
            token.id,
            new.sha256,
            token.principal,
            list(token.groups),
            list(token.scopes),
            token.created_at,
            token.expires_at,
            bootstrap,
        ),
    )


async def _find(tx: Tx, hashes: Sequence[bytes]) -> list[Token | None]:
    rows = await tx.fetch_all(
        "select sha256, id, principal, groups, scopes, created_at, expires_at, revoked_at"
        " from token where sha256 = any (%s)",
        (list(hashes),),
    )
    found = {bytes(row["sha256"]): _token(row) for row in rows}
    return [found.get(one) for one in hashes]


def _token(row: Row) -> Token:
    return Token(
        row["id"],
        row["principal"],
        tuple(row["groups"]),
        tuple(row["scopes"]),
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
    )
