"""The audit over gRPC: what is in it, who may read it, and that nothing takes it back."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from authz_service.api.audited import ACTS
from authz_service.domain import refusals
from protos.authz.v1 import authz_pb2 as wire
from protos.common.v1.common_pb2 import Page
from service_kit import telemetry
from service_kit.errors import GroveError
from service_kit.ids import is_id, new_id
from tests.api.authz_service.service import (
    ADMIN_TOKEN,
    CREATE,
    DELETE,
    READ,
    WRITE,
    Authz,
    Bearer,
    Sql,
    refusal,
)
from tests.fixtures.databases import Databases


@pytest.fixture
async def admin(authz: Authz) -> Bearer:
    return await authz.admin()


async def records(admin: Bearer, **narrowing: Any) -> list[wire.AuditRecord]:
    """All of them, oldest first."""
    found: list[wire.AuditRecord] = []
    cursor = ""
    while True:
        request = wire.ListAuditRequest(oldest_first=True, page=Page(cursor=cursor), **narrowing)
        page = await admin.audit(request)
        if not page.records:
            return found
        found += page.records
        cursor = page.next_cursor


def told(one: wire.AuditRecord) -> tuple[str, str, str, Any]:
    """(action, memory, principal, detail)."""
    return one.action, one.memory_id, one.principal, json.loads(one.detail_json)


async def test_every_change_is_recorded_with_what_it_changed(admin: Bearer, alice: Bearer):
    harness = new_id("chrn")
    root, other = (await alice.create()).id, (await alice.create()).id
    leaf = (await alice.create(root, restricted=True)).id
    grant = await alice.grant(root, "person:bob", READ)
    await alice.grant(root, "person:bob", WRITE)
    await alice.attach(harness, (root, "write"))
    [attached] = [one for one in await alice.grants(root) if one.principal.startswith("harness:")]
    await alice.update(leaf, parent=other)
    await alice.update(leaf, parent="")
    await alice.update(leaf, restricted=False)
    await alice.update(leaf, restricted=True)
    await alice.revoke(root, grant.id)
    creator = next(one for one in await alice.grants(leaf) if one.creator)
    await alice.revoke(leaf, creator.id)
    await alice.delete(root)
    everything = await records(admin, actor="person:alice")
    assert [told(one) for one in everything] == [
        ("memory.create", root, "", {"parent": "", "restricted": False}),
        ("memory.create", other, "", {"parent": "", "restricted": False}),
        ("memory.create", leaf, "", {"parent": root, "restricted": True}),
        ("grant.add", root, "person:bob", {"grant": grant.id, "before": [], "after": ["read"]}),
        (
            "grant.add",
            root,
            "person:bob",
            {"grant": grant.id, "before": ["read"], "after": ["read", "write"]},
        ),
        (
            "harness.attach",
            root,
            f"harness:{harness}",
            {"grant": attached.id, "before": [], "after": ["read", "write"]},
        ),
        ("memory.move", leaf, "", {"from": root, "to": other}),
        ("memory.move", leaf, "", {"from": other, "to": ""}),
        ("memory.lift", leaf, "", {}),
        ("memory.restrict", leaf, "", {}),
        (
            "grant.revoke",
            root,
            "person:bob",
            {"grant": grant.id, "privileges": ["read", "write"], "creator": False},
        ),
        (
            "grant.revoke",
            leaf,
            "person:alice",
            {"grant": creator.id, "privileges": ["read", "write", "create", "delete"], "creator": True},
        ),
        ("memory.delete", root, "", {}),
    ]
    assert {(one.outcome, one.code) for one in everything} == {("allowed", "")}
    assert all(is_id("haud", one.id) and one.token_id == alice.passport.token_id for one in everything)


async def test_what_is_done_to_groups_is_recorded_with_the_counts(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    await admin.create_group("group:team")
    await admin.add_member("group:team", "person:bob")
    await admin.add_member("group:team", "person:eve")
    await admin.remove_member("group:team", "person:eve")
    await alice.grant(root, "group:team", READ)
    await admin.delete_group("group:team")
    made = [told(one) for one in await records(admin, actor="credential:admin")]
    assert [one for one in made if not one[0].startswith("token.")] == [
        ("group.create", "", "group:team", {}),
        ("member.add", "", "person:bob", {"group": "group:team"}),
        ("member.add", "", "person:eve", {"group": "group:team"}),
        ("member.remove", "", "person:eve", {"group": "group:team"}),
        ("group.delete", "", "group:team", {"members": 1, "grants": 1}),
    ]


async def test_what_changes_nothing_is_not_recorded(admin: Bearer, alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    leaf = (await alice.create(root)).id
    harness = new_id("chrn")
    await admin.create_group("group:team")
    await admin.add_member("group:team", "person:bob")
    await alice.grant(root, "person:bob", READ)
    await alice.grant(leaf, "person:bob", CREATE, DELETE)
    await alice.attach(harness, (root, "read"))
    revoked = next(one for one in await alice.grants(leaf) if one.creator and one.memory_id == root)
    before = len(await records(admin))
    await alice.grant(root, "person:bob", READ)
    await alice.attach(harness, (root, "read"))
    await alice.create(node=root)
    await alice.update(root, restricted=False)
    await alice.update(leaf, parent=root)
    await admin.add_member("group:team", "person:bob")
    assert len(await records(admin)) == before
    # Who does not see the parent may ask for the one there is, and so move nothing.
    await alice.grant(root, "person:bob", CREATE)
    await alice.update(leaf, restricted=True)
    await alice.revoke(root, revoked.id)
    before = len(await records(admin))
    await bob.update(leaf, parent=root)
    assert len(await records(admin)) == before


async def test_a_record_tells_when_from_where_and_in_which_trace(authz: Authz, admin: Bearer, alice: Bearer):
    token = await admin.create_token("person:carol")
    answer = await authz.authenticate(token.token, source="203.0.113.9")
    carol = Bearer(authz.channel, authz.verifier.verify(answer.passport))
    with telemetry.tracer(__name__).start_as_current_span("asking"):
        root = (await carol.create()).id
        await refusal(carol.check(new_id("hmem")))
        trace = telemetry.trace_id()
    made, refused = await records(admin, actor="person:carol")
    for one in (made, refused):
        assert (one.source, one.trace_id, one.token_id) == ("203.0.113.9", trace, token.id)
        assert abs((one.at.ToDatetime(UTC) - datetime.now(UTC)).total_seconds()) < 60
    assert made.memory_id == root
    harness = await authz.harness(new_id("chrn"))
    await refusal(harness.check(root))
    [one] = await records(admin, actor=harness.passport.principal)
    assert one.source == "hsess_1"  # an agent's tools have no address; they have a session


async def attempts(
    alice: Bearer, bob: Bearer
) -> list[tuple[Awaitable[object], tuple[str, str, str, str, Any]]]:
    """What bob tries, and (code, action, memory, principal, detail) of its record."""
    root, hidden = (await alice.create()).id, (await alice.create()).id
    leaf = (await alice.create(root)).id
    grant = await alice.grant(root, "person:bob", READ)
    made, harness, unknown = new_id("hmem"), new_id("chrn"), new_id("hmem")
    forbidden, missing, scope = "memory_forbidden", "memory_not_found", "insufficient_scope"
    return [
        (bob.check(root, WRITE), (forbidden, "access.check", root, "", {"required": "write"})),
        (bob.check(hidden), (missing, "access.check", hidden, "", {"required": "any"})),
        (bob.check(unknown, READ), (missing, "access.check", unknown, "", {"required": "read"})),
        (bob.children(hidden), (missing, "access.list", hidden, "", {})),
        (bob.descendants(hidden), (missing, "access.list", hidden, "", {})),
        (bob.reach(hidden), (missing, "access.list", hidden, "", {})),
        (bob.entry_points(cursor="x"), ("invalid_input", "access.list", "", "", {})),
        (bob.explain(root, "person:eve"), (forbidden, "access.explain", root, "person:eve", {})),
        (bob.create(root, node=made), (forbidden, "memory.create", made, "", {"parent": root})),
        (bob.update(root, parent=hidden), (forbidden, "memory.move", root, "", {"to": hidden})),
        (alice.update(root, parent=leaf), ("memory_invalid", "memory.move", root, "", {"to": leaf})),
        (bob.update(root, restricted=True), (forbidden, "memory.restrict", root, "", {})),
        (bob.update(hidden, restricted=False), (missing, "memory.lift", hidden, "", {})),
        (bob.update(root, needs=WRITE), (forbidden, "access.check", root, "", {"required": "write"})),
        (bob.delete(root), (forbidden, "memory.delete", root, "", {})),
        (bob.grants(hidden), (missing, "grant.list", hidden, "", {})),
        (
            bob.grant(root, "person:bob", READ, DELETE),
            (forbidden, "grant.add", root, "person:bob", {"privileges": ["delete", "read"]}),
        ),
        (bob.revoke(root, grant.id), (forbidden, "grant.revoke", root, "", {"grant": grant.id})),
        (
            bob.attach(harness, (root, "read"), (hidden, "read")),
            (forbidden, "harness.attach", root, f"harness:{harness}", {"memories": 2}),
        ),
        (bob.create_token("person:eve"), (scope, "token.create", "", "person:eve", {})),
        (bob.revoke_token(token_id="tok_1"), (scope, "token.revoke", "", "", {"token": "(no id)"})),
        (bob.mint(harness), (scope, "passport.mint", "", f"harness:{harness}", {})),
        (bob.create_group("group:x"), (scope, "group.create", "", "group:x", {})),
        (
            bob.add_member("group:x", "person:bob"),
            (scope, "member.add", "", "person:bob", {"group": "group:x"}),
        ),
        (bob.existing([root]), (scope, "memory.exists", "", "", {"memories": 1})),
        (bob.audit(), (scope, "audit.list", "", "", {})),
    ]


async def test_every_refused_attempt_is_recorded_before_it_is_answered(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    for call, (code, *expected) in await attempts(alice, bob):
        assert (await refusal(call)).code == code
        [last] = (await admin.audit(wire.ListAuditRequest(page=Page(limit=1)))).records
        assert (last.outcome, last.code) == ("refused", code)
        assert [*told(last)] == expected


def test_of_every_request_it_is_said_what_it_is_an_attempt_at():
    asked: set[str] = set()
    for service in wire.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            assert not method.server_streaming
            asked.add(method.input_type.name)
    assert {one.DESCRIPTOR.name for one in ACTS} == asked


async def test_a_refused_credential_is_recorded_with_its_source_and_without_itself(
    authz: Authz, admin: Bearer
):
    for token in ("gk_made-up-and-wrong-entirely", "", "a.b.c"):
        with pytest.raises(GroveError):
            await authz.authenticate(token, source="203.0.113.9")
    found = await records(admin, action="authenticate")
    assert [(one.actor, one.code, one.source) for one in found] == [
        ("", "invalid_credential", "203.0.113.9")
    ] * 3


async def test_no_secret_and_nothing_made_up_is_kept(
    authz: Authz, admin: Bearer, bob: Bearer, query: Callable[[LiteralString], list[str]]
):
    secret = "gk_" + "s" * 43
    token = await admin.create_token("person:eve")
    with pytest.raises(GroveError):
        await authz.authenticate(secret, source="x" * 65 + secret)
    for call in (
        bob.check(secret),
        bob.grant(secret, secret, READ),
        bob.grant(new_id("hmem"), "person:" + "x" * 300, READ),
        bob.revoke(new_id("hmem"), secret),
        bob.revoke_token(token=secret),
        bob.revoke_token(token_id=secret),
        bob.create_token(secret, [secret]),
        bob.add_member(secret, secret),
        bob.create(secret, node=secret),
        bob.update(new_id("hmem"), parent=secret),
        bob.attach(secret, (secret, "read")),
        bob.explain(secret, secret, [secret]),
        admin.revoke_token(token=secret),
    ):
        await refusal(call)
    await admin.revoke_token(token=token.token)
    kept = "\n".join(query("select row_to_json(audit)::text from audit"))
    for forbidden in (secret, token.token, ADMIN_TOKEN, "x" * 65):
        assert forbidden not in kept
    assert "(no id)" in kept


@pytest.fixture
async def query(databases: Databases) -> Callable[[LiteralString], list[str]]:
    """Asks the service's tables, as their owner."""

    def ask(statement: LiteralString) -> list[str]:
        with psycopg.connect(databases.service("authz").owner_dsn, autocommit=True) as connection:
            connection.execute("set search_path = authz")
            return [str(row[0]) for row in connection.execute(statement).fetchall()]

    return ask


@pytest.mark.parametrize("who", ["role", "owner"])
async def test_what_is_in_the_audit_stays_there_as_it_is(
    databases: Databases, admin: Bearer, alice: Bearer, who: str
):
    await alice.create()
    kept = await records(admin)
    database = databases.service("authz")
    for statement in (
        "update audit set actor = 'person:nobody'",
        "delete from audit",
        "delete from audit where false",
        "truncate audit",
    ):
        with psycopg.connect(database.role_dsn if who == "role" else database.owner_dsn) as connection:
            connection.execute("set search_path = authz")
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(statement)
        assert raised.value.sqlstate in ("P0001", "42501")  # the trigger's, or no right to it at all
    assert await records(admin) == kept


async def test_only_an_administrator_reads_it(alice: Bearer, authz: Authz):
    assert (await refusal(alice.audit())).code == "insufficient_scope"
    assert (await refusal((await authz.service()).audit())).code == "insufficient_scope"


def moment(at: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(at)
    return made


async def test_it_is_read_newest_first_in_pages_and_by_what_narrows_it(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    nodes = [(await alice.create()).id for _ in range(5)]
    await refusal(bob.check(nodes[0]))
    request = wire.ListAuditRequest(actor="person:alice", page=Page(limit=2))
    seen: list[str] = []
    while True:
        page = await admin.audit(request)
        seen += [one.memory_id for one in page.records]
        if not page.next_cursor:
            break
        await alice.create()  # what comes meanwhile is newer than any cursor
        request.page.cursor = page.next_cursor
    assert seen == nodes[::-1]
    for narrowing, expected in (
        ({"memory_id": nodes[0]}, ["memory.create", "access.check"]),
        ({"memory_id": nodes[0], "outcome": "refused"}, ["access.check"]),
        ({"memory_id": nodes[0], "outcome": "allowed"}, ["memory.create"]),
        ({"action": "access.check"}, ["access.check"]),
        ({"actor": "person:nobody"}, []),
    ):
        assert [one.action for one in await records(admin, **narrowing)] == expected
    assert (await refusal(admin.audit(wire.ListAuditRequest(outcome="maybe")))).param == "outcome"
    for nobody in ("bob", "group:sales"):
        assert (await refusal(admin.audit(wire.ListAuditRequest(actor=nobody)))).param == "actor"


async def test_it_is_read_by_time_from_a_moment_on_and_up_to_one(admin: Bearer, alice: Bearer, sql: Sql):
    sql(
        "insert into audit (id, at, actor, token_id, action, outcome, code, node, principal, source, trace_id,"
        " detail) select 'haud_' || n, '2026-01-01T00:00Z'::timestamptz + n * interval '20 minutes', 'person:x',"
        " '', 'grant.add', 'allowed', '', '', '', '', '', '{}' from generate_series(0, 99) n"
    )
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    since, until = begin + timedelta(hours=5), begin + timedelta(hours=20)
    for oldest_first in (True, False):
        request = wire.ListAuditRequest(
            actor="person:x",
            since=moment(since),
            until=moment(until),
            oldest_first=oldest_first,
            page=Page(limit=100),
        )
        found = [int(one.id.removeprefix("haud_")) for one in (await admin.audit(request)).records]
        assert found == (list(range(15, 60)) if oldest_first else list(range(59, 14, -1)))


async def test_oldest_first_waits_for_what_is_still_under_way_and_misses_nothing(
    admin: Bearer, alice: Bearer, databases: Databases
):
    insert = (
        "insert into audit (id, at, actor, token_id, action, outcome, code, node, principal, source, trace_id,"
        " detail) values (%s, now(), '', '', 'x', 'allowed', '', '', '', '', '', '{}')"
    )
    async with await psycopg.AsyncConnection.connect(databases.service("authz").role_dsn) as slow:
        await slow.execute(insert, ("haud_slow",))  # an older number and transaction, not yet committed
        root = (await alice.create()).id
        before = await records(admin)
        assert root not in {one.memory_id for one in before}
        newest = (await admin.audit(wire.ListAuditRequest(page=Page(limit=1)))).records
        assert newest[0].memory_id == root  # newest first shows whatever is committed
        page = await admin.audit(wire.ListAuditRequest(oldest_first=True))
        await slow.commit()
    rest = await admin.audit(wire.ListAuditRequest(oldest_first=True, page=Page(cursor=page.next_cursor)))
    assert [one.memory_id or one.id for one in rest.records] == ["haud_slow", root]
    end = await admin.audit(wire.ListAuditRequest(oldest_first=True, page=Page(cursor=rest.next_cursor)))
    assert (list(end.records), end.next_cursor) == ([], rest.next_cursor)


async def test_a_follower_gets_every_record_once_while_many_write(admin: Bearer, alice: Bearer, bob: Bearer):
    done = asyncio.Event()
    seen: list[str] = []

    async def follow() -> None:
        cursor = ""
        while True:
            last = done.is_set()
            request = wire.ListAuditRequest(oldest_first=True, page=Page(limit=7, cursor=cursor))
            page = await admin.audit(request)
            seen.extend(one.id for one in page.records)
            cursor = page.next_cursor
            if last and not page.records:
                return

    following = asyncio.create_task(follow())
    root = (await alice.create()).id
    await asyncio.gather(
        *(alice.grant(root, f"person:{n}", READ) for n in range(40)),
        *(refusal(bob.check(root)) for _ in range(40)),
    )
    done.set()
    await following
    assert len(seen) == len(set(seen))
    everything = [one.id for one in await records(admin)]
    assert seen == everything
    assert len(everything) >= 81


async def test_a_cursor_of_one_order_is_none_of_the_other(admin: Bearer, alice: Bearer):
    await alice.create()
    newest = await admin.audit(wire.ListAuditRequest(page=Page(limit=1)))
    oldest = await admin.audit(wire.ListAuditRequest(oldest_first=True, page=Page(limit=1)))
    for request in (
        wire.ListAuditRequest(oldest_first=True, page=Page(cursor=newest.next_cursor)),
        wire.ListAuditRequest(page=Page(cursor=oldest.next_cursor)),
        wire.ListAuditRequest(page=Page(cursor="nonsense")),
    ):
        assert (await refusal(admin.audit(request))).param == "cursor"


async def test_a_flood_is_counted_and_not_kept(
    authz: Authz, admin: Bearer, bob: Bearer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(refusals, "MOST", 10)
    before = len(await records(admin))
    await asyncio.gather(*(refusal(bob.check(new_id("hmem"))) for _ in range(35)))
    await asyncio.gather(*(refusal(authz.authenticate("gk_x", source="203.0.113.9")) for _ in range(12)))
    # The minute may have ended in between, and begun its count anew.
    assert before + 20 <= len(await records(admin)) <= before + 45


@pytest.fixture
async def broken_audit(databases: Databases) -> AsyncGenerator[None]:
    """A table of the audit that nobody can add to, for the length of a test."""
    with psycopg.connect(databases.service("authz").owner_dsn, autocommit=True) as connection:
        connection.execute("alter table authz.audit add constraint broken check (false) not valid")
        yield
        connection.execute("alter table authz.audit drop constraint broken")


async def test_a_refusal_that_cannot_be_recorded_stays_the_refusal_it_was(
    alice: Bearer, bob: Bearer, broken_audit: None, caplog: pytest.LogCaptureFixture
):
    error = await refusal(bob.check(new_id("hmem")))
    assert (error.code, error.message) == ("memory_not_found", "There is no such memory.")
    assert "could not be recorded" in caplog.text


async def test_a_change_that_cannot_be_recorded_is_not_made(alice: Bearer, broken_audit: None):
    node = new_id("hmem")
    assert (await refusal(alice.create(node=node))).code == "server_error"
    assert (await refusal(alice.check(node))).code == "memory_not_found"


async def test_what_another_service_does_is_recorded_once_it_may_be_done(
    admin: Bearer, alice: Bearer, bob: Bearer
):
    root = (await alice.create()).id
    await alice.grant(root, "person:bob", READ, WRITE)
    await alice.act("record.erase", root, records="3")
    assert (await refusal(bob.act("record.erase", root, records="1"))).code == "memory_forbidden"
    assert (await refusal(bob.act("record.erase", new_id("hmem")))).code == "memory_not_found"
    assert (await refusal(alice.act("job.retry", job="hjob_1"))).code == "insufficient_scope"
    await admin.act("job.retry", job="hjob_1")
    found = [
        (one.actor, one.outcome, told(one))
        for one in await records(admin)
        if one.action in ("record.erase", "job.retry")
    ]
    assert found[0] == ("person:alice", "allowed", ("record.erase", root, "", {"records": "3"}))
    assert found[1] == ("person:bob", "refused", ("record.erase", root, "", {}))
    assert [one[:2] for one in found[2:4]] == [("person:bob", "refused"), ("person:alice", "refused")]
    assert found[4][1:] == ("allowed", ("job.retry", "", "", {"job": "hjob_1"}))


async def test_only_acts_that_are_known_are_recorded_and_only_with_few_words(admin: Bearer, alice: Bearer):
    root = (await alice.create()).id
    for call in (
        alice.act("grant.add", root),
        alice.act("what I like", root),
        alice.act("record.erase", root, records="x" * 200),
        alice.act("record.erase", root, **{str(number): "" for number in range(9)}),
    ):
        assert (await refusal(call)).code == "invalid_input"
    assert not [one for one in await records(admin, outcome="allowed") if one.action == "record.erase"]
    assert "what I like" not in {one.action for one in await records(admin)}
