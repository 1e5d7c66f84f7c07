"""What becomes of tokens: listed, used, revoked, and all of it audited without a secret."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.rows import dict_row

from authz_service.domain import last_used
from authz_service.store.tokens import PostgresTokens
from protos.authz.v1 import authz_pb2 as wire
from service_kit.db.pool import Database, Limits
from service_kit.ids import new_id
from tests.api.authz_service.service import (
    ADMIN_TOKEN,
    SERVICE_TOKEN,
    Authz,
    Bearer,
    Sql,
    bootstrap,
    refusal,
    serving,
)
from tests.fixtures.databases import Databases
from tests.fixtures.issuer import AUDIENCE, IssuerStub

Rows = Callable[[LiteralString], list[dict[str, Any]]]


@pytest.fixture
def rows(databases: Databases) -> Rows:
    """What is in the service's tables."""

    def read(query: LiteralString) -> list[dict[str, Any]]:
        dsn = databases.service("authz").owner_dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("set search_path = authz")
            return connection.cursor(row_factory=dict_row).execute(query).fetchall()

    return read


@pytest.fixture
async def admin(authz: Authz) -> Bearer:
    return await authz.admin()


async def everything(admin: Bearer, **which: Any) -> list[wire.Token]:
    """A listing, page by page."""
    found: list[wire.Token] = []
    cursor = ""
    while True:
        page = await admin.tokens(**which, cursor=cursor)
        found.extend(page.tokens)
        cursor = page.next_cursor
        if not cursor:
            return found


async def test_tokens_are_listed_newest_first_without_their_secret(admin: Bearer):
    made = [await admin.create_token(f"person:p{number}", ["group:g"], ttl=60) for number in range(3)]
    listed = (await admin.tokens()).tokens
    assert [one.id for one in listed[:3]] == [one.id for one in reversed(made)]
    for one, same in zip(listed, reversed(made), strict=False):
        same.token = ""
        assert one == same
    assert not any(one.token for one in listed)
    assert listed[0].created_by == "credential:admin"


async def test_the_operators_tokens_are_listed_by_the_name_they_have_in_the_file(admin: Bearer):
    named = {one.bootstrap: one for one in await everything(admin)}
    assert set(named) == {"admin", "service:memory"}
    assert (named["admin"].principal, named["admin"].created_by) == ("credential:admin", "")
    assert list(named["service:memory"].scopes) == ["service"]


async def test_a_listing_is_of_what_is_live_unless_all_is_asked_for(admin: Bearer, sql: Sql):
    live, expired, revoked = [await admin.create_token("person:alice", ttl=600 + n) for n in range(3)]
    await admin.create_token("person:bob")
    await admin.revoke_token(token_id=revoked.id)
    sql(
        "update token set expires_at = now() - interval '1 second'"
        " where expires_at - created_at = interval '601 seconds'"
    )
    assert [one.id for one in (await admin.tokens("person:alice")).tokens] == [live.id]
    assert (await refusal(admin.tokens("alice"))).param == "principal"
    ended = {one.id: one for one in (await admin.tokens("person:alice", ended=True)).tokens}
    assert list(ended) == [revoked.id, expired.id, live.id]
    assert ended[revoked.id].HasField("revoked_at")
    assert not ended[expired.id].HasField("revoked_at")
    assert revoked.id not in {one.id for one in await everything(admin)}
    assert {one.id for one in await everything(admin, ended=True)} >= {live.id, expired.id, revoked.id}


async def test_pages_stay_where_they_were_while_tokens_come_and_go(admin: Bearer):
    made = [await admin.create_token("person:alice") for _ in range(7)]
    first = await admin.tokens("person:alice", limit=3)
    await admin.create_token("person:alice")
    await admin.revoke_token(token_id=made[3].id)
    await admin.revoke_token(token_id=first.tokens[-1].id)
    second = await admin.tokens("person:alice", limit=3, cursor=first.next_cursor)
    assert [one.id for one in first.tokens] == [one.id for one in reversed(made[4:])]
    assert [one.id for one in second.tokens] == [made[2].id, made[1].id, made[0].id]
    assert second.next_cursor == ""


async def test_tokens_of_one_moment_are_each_listed_once(admin: Bearer, sql: Sql):
    made = {(await admin.create_token("person:alice")).id for _ in range(5)}
    sql("update token set created_at = '2026-01-01' where principal = 'person:alice'")
    for which in ({}, {"principal": "person:alice"}):
        listed = [one.id for one in await everything(admin, limit=1, **which)]
        assert sorted(one for one in listed if one in made) == sorted(made)


@pytest.mark.parametrize("cursor", ["x", "WyJhIiwiYiJd", "Wy0xLCJiIl0", "WzEwMDAwMDAwMDAwMDAwMDAwMDAsImIiXQ"])
async def test_a_cursor_of_somebody_elses_making_is_refused(admin: Bearer, cursor: str):
    error = await refusal(admin.tokens(cursor=cursor))
    assert (error.code, error.param) == ("invalid_input", "cursor")


async def test_only_administrators_list(authz: Authz, alice: Bearer):
    for one in (alice, await authz.service()):
        assert (await refusal(one.tokens())).code == "insufficient_scope"


async def test_a_token_with_the_scope_admin_administers(authz: Authz, admin: Bearer):
    made = await admin.create_token("person:root", scopes=["admin"])
    assert list(made.scopes) == ["user", "admin"]
    root = await authz.bearer(made.token)
    issued = await root.create_token("person:alice")
    assert issued.created_by == "person:root"
    await admin.revoke_token(token_id=made.id)
    assert (await refusal(authz.authenticate(made.token))).code == "invalid_credential"


@pytest.mark.parametrize("scopes", [["service"], ["admin", "root"], [""]])
async def test_no_other_scope_can_be_given(admin: Bearer, scopes: list[str]):
    error = await refusal(admin.create_token("person:alice", scopes=scopes))
    assert (error.code, error.param) == ("invalid_input", "scopes")


async def test_a_use_is_seen_in_the_listing_soon_and_to_the_minute(
    monkeypatch: pytest.MonkeyPatch,
    service_database: Callable[[str], str],
    keys: tuple[Path, Path],
    tmp_path: Path,
):
    monkeypatch.setattr(last_used, "EVERY_S", 0.05)
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as authz:
        admin = await authz.admin()
        used, unused = [await admin.create_token("person:alice") for _ in range(2)]
        before = time.time()
        await authz.authenticate(used.token)
        async with asyncio.timeout(10):
            while True:
                listed = {one.id: one for one in (await admin.tokens("person:alice")).tokens}
                if listed[used.id].HasField("last_used_at"):
                    break
                await asyncio.sleep(0.02)
        at = listed[used.id].last_used_at.ToDatetime(UTC)
        assert (at.second, at.microsecond) == (0, 0)
        assert before - 60 <= at.timestamp() <= time.time()
        assert not listed[unused.id].HasField("last_used_at")


async def test_a_use_just_before_the_end_is_kept_and_an_older_one_never_replaces_a_newer(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path, rows: Rows, sql: Sql
):
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as authz:
        for _ in range(2):
            await (await authz.admin()).create_token("person:alice")
    (admin,) = rows("select last_used_at from token where bootstrap = 'admin'")
    assert datetime.now(UTC) - admin["last_used_at"] < timedelta(minutes=3)
    sql("update token set last_used_at = '2999-01-01 00:00Z' where bootstrap = 'admin'")
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as authz:
        await authz.admin()
    (admin,) = rows("select last_used_at from token where bootstrap = 'admin'")
    assert admin["last_used_at"] == datetime(2999, 1, 1, tzinfo=UTC)


async def test_processes_that_note_the_same_uses_at_once_do_not_stand_in_one_anothers_way(
    service_database: Callable[[str], str], sql: Sql, rows: Rows
):
    sql(
        "insert into token (id, sha256, principal, groups, scopes, created_at)"
        " select 'tok_' || n, sha256(n::text::bytea), 'person:alice', '{}', '{user}', now()"
        " from generate_series(1, 200) n"
    )
    database = await Database.open(service_database("authz"), "authz", Limits(maximum=6))
    try:
        tokens, first = PostgresTokens(database), datetime(2026, 10, 1, 12, tzinfo=UTC)
        ids = [f"tok_{number}" for number in range(1, 201)]
        orders = [ids, ids[::-1], ids[1::2] + ids[::2], ["tok_of_nobody", *ids[::-1]]]
        await asyncio.gather(
            *(
                tokens.used(dict.fromkeys(order, first + timedelta(minutes=minute)))
                for minute in range(5)
                for order in orders
            )
        )
    finally:
        await database.close()
    noted = rows("select distinct last_used_at as at from token")
    assert [one["at"] for one in noted] == [first + timedelta(minutes=4)]


async def test_two_administrators_who_revoke_at_once_both_succeed_and_it_is_audited_once(
    admin: Bearer, rows: Rows
):
    token = await admin.create_token("person:alice")
    answers = await asyncio.gather(
        *(admin.revoke_token(token_id=token.id) for _ in range(6)),
        *(admin.revoke_token(token=token.token) for _ in range(6)),
    )
    assert set(answers) == {token.id}
    acts = rows("select * from audit where action = 'token.revoke'")
    assert [(one["actor"], one["principal"], one["outcome"]) for one in acts] == [
        ("credential:admin", "person:alice", "allowed")
    ]


async def test_at_once_no_more_tokens_are_issued_than_a_principal_may_have(admin: Bearer, sql: Sql):
    await admin.create_token("person:alice")
    sql(
        "insert into token (id, sha256, principal, groups, scopes, created_at)"
        " select 'tok_' || n, sha256(n::text::bytea), 'person:alice', '{}', '{user}', now()"
        " from generate_series(1, 996) n"
    )
    results = await asyncio.gather(
        *(admin.create_token("person:alice") for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, wire.Token) for one in results) == 3
    await admin.create_token("person:bob")


async def test_issuing_and_revoking_are_audited_with_who_and_where(authz: Authz, admin: Bearer, rows: Rows):
    passport = (await authz.authenticate(ADMIN_TOKEN, "192.0.2.9")).passport
    from_afar = Bearer(authz.channel, authz.verifier.verify(passport))
    token = await from_afar.create_token("person:alice", ["group:sales"], 60, ["admin"])
    await from_afar.revoke_token(token_id=token.id)
    created, revoked = rows("select * from audit where actor <> '' order by seq")
    listed = {one.bootstrap: one.id for one in await everything(admin)}
    for act in (created, revoked):
        assert (act["actor"], act["token_id"], act["source"]) == (
            "credential:admin",
            listed["admin"],
            "192.0.2.9",
        )
        assert len(act["trace_id"]) == 32
    assert created["action"] == "token.create"
    detail = json.loads(created["detail"])
    assert (detail["token"], detail["scopes"]) == (token.id, ["user", "admin"])
    assert (revoked["action"], revoked["principal"]) == ("token.revoke", "person:alice")


async def test_the_operators_tokens_are_audited_when_they_come_in_and_when_they_end(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path, rows: Rows
):
    dsn = service_database("authz")
    for _ in range(2):
        async with serving(dsn, keys, bootstrap(tmp_path)):
            pass
    async with serving(dsn, keys, bootstrap(tmp_path, admin="gk_another-admin-token")):
        pass
    acts = rows("select * from audit order by seq")
    assert [(one["action"], one["principal"], one["actor"]) for one in acts] == [
        ("token.create", "credential:admin", ""),
        ("token.create", "service:memory", ""),
        ("token.create", "credential:admin", ""),
        ("token.revoke", "credential:admin", ""),
    ]
    named = [json.loads(one["detail"])["bootstrap"] for one in acts]
    assert named == ["admin", "service:memory", "admin", "admin"]


async def test_no_secret_is_in_an_audit_record_a_log_line_or_the_listing(
    service_database: Callable[[str], str],
    keys: tuple[Path, Path],
    tmp_path: Path,
    issuer: IssuerStub,
    rows: Rows,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    oidc = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE}
    secrets = [ADMIN_TOKEN, SERVICE_TOKEN, "gk_mistyped-by-somebody"]
    async with serving(service_database("authz"), keys, bootstrap(tmp_path), **oidc) as authz:
        admin = await authz.admin()
        token, jwt, bad = await admin.create_token("person:alice"), issuer.token(), issuer.token(aud="x")
        secrets += [token.token, *jwt.split(".")[1:], *bad.split(".")[1:]]
        await authz.authenticate(token.token)
        await authz.authenticate(jwt)
        for refused in (bad, "gk_mistyped-by-somebody"):
            await refusal(authz.authenticate(refused))
            await refusal(admin.revoke_token(token=refused))
        await admin.revoke_token(token=token.token)
        await admin.revoke_token(token=jwt)
        await refusal(admin.revoke_token(token_id=new_id("tok")))
        listed = await admin.tokens(ended=True)
    seen = repr(rows("select * from audit")) + caplog.text + repr(listed)
    assert "token.revoke" in seen
    assert "a JWT was refused: it is for another audience" in seen
    assert [one for one in secrets if one in seen] == []


async def test_revocations_of_jwts_that_expired_long_ago_are_forgotten(
    service_database: Callable[[str], str],
    keys: tuple[Path, Path],
    tmp_path: Path,
    issuer: IssuerStub,
    rows: Rows,
    sql: Sql,
):
    oidc = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE}
    sql(
        "insert into revoked_jwt (sha256, expires_at, revoked_at)"
        " select sha256(n::text::bytea), now() - n * interval '1 hour', now() from generate_series(0, 48, 12) n"
    )
    async with (
        serving(service_database("authz"), keys, bootstrap(tmp_path), **oidc),
        asyncio.timeout(10),
    ):
        while True:
            if len(rows("select 1 from revoked_jwt")) <= 2:
                break
            await asyncio.sleep(0.02)
    left = rows("select now() - expires_at as age from revoked_jwt")
    assert all(one["age"] < timedelta(hours=24) for one in left)
    assert len(left) == 2
