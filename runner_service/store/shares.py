"""Links of shared sessions, in Postgres."""

from psycopg import sql

from runner_service.domain.session_ports import Overview
from runner_service.store.sessions import OF_ITS_TURNS, OVERVIEW, overview_of
from service_kit.db.pool import Database

__all__ = ["PostgresShares"]


class PostgresShares:
    """The verbs of ``domain.session_ports.ShareStore``."""

    def __init__(self, database: Database) -> None:
        self._database: Database = database

    async def is_shared(self, session_id: str) -> bool:
        return await self.newest_link(session_id) is not None

    async def newest_link(self, session_id: str) -> tuple[bytes, bytes] | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                "select nonce, link_sha256 from share where session_id = %s order by created_at desc limit 1",
                (session_id,),
            )
        return None if row is None else (bytes(row["nonce"]), bytes(row["link_sha256"]))

    async def add_link(self, owner: str, session_id: str, nonce: bytes, link_sha256: bytes) -> bool:
        async with self._database.begin() as tx:
            added = await tx.execute(
                "insert into share (link_sha256, nonce, session_id) select %s, %s, id from session"
                " where id = %s and owner = %s for key share",
                (link_sha256, nonce, session_id, owner),
            )
        return bool(added)

    async def remove_links(self, session_id: str) -> None:
        async with self._database.begin() as tx:
            await tx.execute("delete from share where session_id = %s", (session_id,))

    async def shared(self, link_sha256: bytes) -> Overview | None:
        async with self._database.read() as tx:
            row = await tx.fetch_one(
                sql.SQL(
                    "select {} from share join session s on s.id = share.session_id {}"
                    " where share.link_sha256 = %s"
                ).format(OVERVIEW, OF_ITS_TURNS),
                (link_sha256,),
            )
        return None if row is None else overview_of(row)
