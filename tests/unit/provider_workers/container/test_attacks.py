"""What a statement may try, and what comes of it: nothing but the rows it was given, within bounds.

Every attack runs in a real container. What it reaches is compared with what it may: each is refused in a
sentence, or answers rows made of its own rows, and the container answers the next query as if nothing had been.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from provider_workers.container.container import Container, Limits
from provider_workers.container.messages import Answer, Ask, Table, Value
from service_kit.errors import GroveError

LIMITS = Limits(query_s=1.0, rows=100, bytes=64 * 1024, heap_bytes=16 * 1024 * 1024)
COLUMNS = ("id", "content", "attributes")
ROWS: list[tuple[Value, ...]] = [(f"hrec_{n}", f"said {n}", f'{{"n": {n}}}') for n in range(50)]
ENDLESS = "with recursive x(n) as (select 1 union all select n + 1 from x)"


@pytest_asyncio.fixture
async def container() -> AsyncGenerator[Container]:
    opened = Container(LIMITS)
    yield opened
    await opened.aclose()


def asked(statement: str, params: dict[str, Value] | None = None, **more: bool) -> Ask:
    tables = [
        Table("records", COLUMNS, ROWS),
        Table("versions", COLUMNS, ROWS),
        Table("references", ("record_id", "rel"), [("hrec_1", "about")]),
    ]
    return Ask(
        statement,
        params or {},
        tables,
        LIMITS.rows,
        LIMITS.bytes,
        LIMITS.heap_bytes,
        LIMITS.query_s * 0.8,
        lenient=more.get("lenient", False),
        check=more.get("check", False),
    )


async def run(container: Container, statement: str, params: dict[str, Value] | None = None) -> Answer:
    return await container.run("someone", asked(statement, params))


REFUSED = [
    # More than one statement, and statements that do anything but read.
    "select 1; select 2",
    "select 1; drop table records",
    "insert into records values (1, 2, 3)",
    "update records set content = 'x'",
    "delete from records",
    "with x as (select 1) delete from records",
    "with x as (select 1) insert into records select 1, 2, 3",
    "replace into records values (1, 2, 3)",
    "create table t (a)",
    "create temp table t as select * from records",
    "create temp view v as select 1",
    "create trigger t after insert on records begin select 1; end",
    "create virtual table f using fts5(a)",
    "drop table records",
    "alter table records rename to r",
    "attach database '/tmp/x.db' as x",
    "detach database main",
    "vacuum",
    "vacuum into '/tmp/stolen.db'",
    "reindex",
    "analyze",
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "release s",
    # Settings, of this database and of the one it was written for.
    "pragma query_only = off",
    "pragma hard_heap_limit = 0",
    "pragma writable_schema = on",
    "select * from pragma_query_only",
    "select * from pragma_table_info('records')",
    "select * from pragma_database_list",
    "select * from pragma_compile_options",
    "select * from pragma_function_list",
    "select * from pragma_hard_heap_limit(0)",
    "set role postgres",
    "set statement_timeout = 0",
    "select set_config('statement_timeout', '0', false)",
    "declare c cursor with hold for select 1",
    "select pg_sleep(10)",
    "select pg_advisory_lock(1)",
    "select pg_read_file('/etc/passwd')",
    "select lo_import('/etc/passwd')",
    "copy records to '/tmp/x'",
    "load 'x'",
    "select * from dblink('x', 'select 1')",
    # Files, code, catalogs, statistics, plans.
    "select readfile('/etc/passwd')",
    "select writefile('/tmp/x', 'y')",
    "select edit('x')",
    "select load_extension('/tmp/x.so')",
    "select fts3_tokenizer('simple')",
    "select * from fsdir('/')",
    "select * from generate_series(1, 10)",
    "select * from sqlite_master",
    "select count(*) from sqlite_master",
    "select 1 from sqlite_schema",
    "select 1 from sqlite_temp_master",
    "select count(*) from main.sqlite_master",
    "select 1 from temp.sqlite_temp_schema",
    "select * from sqlite_stmt",
    "select * from sqlite_dbpage",
    "select * from dbstat",
    "select count(*) from dbstat",
    "select * from bytecode('select 1')",
    "select sql from (select sql from sqlite_master)",
    "select 1 where exists (select 1 from sqlite_master)",
    "explain select * from records",
    "explain query plan select * from records",
    "select sqlite_version(), sqlite_source_id()",
    "select sqlite_compileoption_get(1)",
    "select changes(), last_insert_rowid()",
    "select randomblob(10)",
    "select zeroblob(1000000000)",
    "select * from pg_stat_activity",
    "select * from information_schema.tables",
    "select * from other_memory.records",
    "select * from provider.version",
    'select * from "/proc/self/environ"',
    "select * from 'file:/etc/passwd'",
    # Statements that are too much for whoever has to read them.
    "select " + "(" * 500 + "1" + ")" * 500,
    "select " + "+".join(["1"] * 5000),
    "select " + ", ".join(["1"] * 200),
    " union all ".join(["select 1"] * 200),
    "select '" + "x" * 70_000 + "'",
    "select ?1, ?2, :a",
    "select :" + "a" * 100,
    "",
    ";",
    "--",
    "/* select */",
    "select \0 1",
]
BOUNDED = [
    "select 1 where 1 in (" + ", ".join(["(select 1)"] * 5000) + ")",
    f"{ENDLESS} select count(*) from x",
    f"{ENDLESS} select sum(n) over (order by n rows between unbounded preceding and current row) from x",
    f"{ENDLESS} select max(n) from x where n like '%1%2%3%'",
    "select count(*) from records a, records b, records c, records d, records e",
    "select count(*) from records a join records b on a.content || b.content like '%x%' join records c, records d, records e",
    "select hex(hex(hex(hex(hex(hex(hex(content))))))) from records a, records b, records c",
    "select group_concat(a.content || b.content || c.content) from records a, records b, records c, records d",
    "select json_group_array(a.content) from records a, records b, records c, records d, records e",
    "with recursive s(t) as (select 'ab' union all select t || t from s) select length(t) from s",
    "with recursive s(t) as (select 'ab' union all select replace(t, 'a', 'aaaa') from s) select t from s",
    "select replace(replace(replace(hex(content), '3', content), '7', content), '6', content) from records a, records b, records c",
    "select printf('%1000000000d', 1)",
    "select format('%.*c', 1000000000, 'x')",
    "select a.content like '%' || '%a%a%a%a%a%a%a%a%a%a%a%a%a%b' from records a, records b, records c, records d, records e",
    "select 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' glob '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b'",
    "select json_extract('[' || group_concat('1') || ']', '$[#-1]') from records a, records b, records c, records d",
    "select count(distinct a.content || b.content || c.content || d.content) from records a, records b, records c, records d",
    "select * from records a, records b order by a.content || b.content desc",
    "select content from records union select content || id from records order by 1",
    "select value from json_each('[' || substr(hex(printf('%.100000c', 'x')), 1, 1) || ']')",
    "select sum(9223372036854775807) from records",
    "select abs(-9223372036854775808)",
    "select 1e400, -1e400, 0x7fffffffffffffff, 9223372036854775807 + 1, 1 / 0",
    "select cast(x'fffe00' as text), x'00ff', char(0), 'a' || char(0) || 'b'",
    "select content->>'$.x' from records",
    "select json(content) from records",
    "select ntile(1000000000) over (order by id) from records",
    "select strftime('%s', content), date('now', '+1000000 years') from records",
]


@pytest.mark.requirement("ME-6.5-05", "ME-6.5-06", "ME-6.5-07", "ME-6.5-08")
@pytest.mark.parametrize("statement", REFUSED, ids=lambda one: one[:60].encode("unicode_escape").decode())
async def test_what_does_more_than_read_is_refused_in_a_sentence(container: Container, statement: str):
    answer = await run(container, statement)
    assert answer.error.endswith(".")
    assert (answer.rows, answer.bounds) == ([], [])
    assert "said" not in answer.error
    assert (await run(container, "select count(*) from records")).rows == [b"[50]"]


@pytest.mark.requirement("ME-6.5-09")
@pytest.mark.parametrize("statement", BOUNDED, ids=lambda one: one[:60])
async def test_what_takes_much_is_cut_short_and_the_next_is_answered(container: Container, statement: str):
    began = time.monotonic()
    answer = await run(container, statement)
    assert time.monotonic() - began < LIMITS.query_s + 2.5
    assert answer.error or answer.bounds or len(answer.rows) <= LIMITS.rows
    assert sum(map(len, answer.rows)) <= LIMITS.bytes
    assert "said" not in answer.error
    assert (await run(container, "select count(*) from records")).rows == [b"[50]"]


async def test_a_statement_that_never_looks_up_is_killed(container: Container):
    # One call of one function: SQLite cannot be interrupted inside it, only ended from outside.
    slow = "select instr(printf('%.1000000c', 'a'), printf('%.500000c', 'a') || 'b')"
    began = time.monotonic()
    answer = await run(container, slow)
    assert time.monotonic() - began < LIMITS.query_s + 1.5
    assert answer.bounds == ["time"]


async def test_params_are_values_whatever_they_say(container: Container):
    evil = "' or 1 = 1; drop table records; --"
    assert (await run(container, "select count(*) from records where content = :p", {"p": evil})).rows == [
        b"[0]"
    ]
    assert (await run(container, "select :p", {"p": "\0\ufffe"})).rows == [b'["\\u0000\xef\xbf\xbe"]']
    assert (await run(container, "select :p", {"p": 2**63})).error.startswith("A param is an integer")
    assert (await run(container, "select :p, :q", {"p": 1})).error.endswith("parameter :q.")
    lenient = await container.run("someone", asked("select :p, :q", {"p": 1}, lenient=True))
    assert lenient.rows == [b"[1,null]"]
    assert (await run(container, "select ?", {"p": 1})).error


async def test_compiling_alone_runs_nothing(container: Container):
    assert await container.run("someone", asked(f"{ENDLESS} select count(*) from x", check=True)) == Answer(
        [], [], []
    )
    assert (await container.run("someone", asked("select nothing from records", check=True))).error


async def test_bounds_are_named(container: Container):
    many = await run(container, "select a.id from records a, records b")
    assert (len(many.rows), many.bounds) == (LIMITS.rows, ["rows"])
    wide = await run(container, "select printf('%.20000c', 'x') from records")
    assert (len(wide.rows), wide.bounds) == (3, ["bytes"])
    hungry = await run(
        container, "select json_group_array(printf('%.100000c', 'x')) from records a, records b"
    )
    assert hungry.error or hungry.bounds == ["memory"]


async def test_a_keeper_that_is_killed_is_replaced(container: Container):
    await run(container, "select 1")
    process = container._process
    assert process is not None
    waiting = asyncio.create_task(run(container, f"{ENDLESS} select count(*) from x"))
    await asyncio.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    broken = await asyncio.gather(waiting, return_exceptions=True)
    # Not a bound it ran into: it went with its keeper, and the same query again is answered.
    assert isinstance(broken[0], GroveError)
    assert broken[0].retryable
    answer: Answer | BaseException = GroveError("grovekeeper_unavailable", "Not asked yet.")
    for _ in range(20):
        (answer,) = await asyncio.gather(
            run(container, "select count(*) from records"), return_exceptions=True
        )
        if isinstance(answer, Answer):
            break
        assert isinstance(answer, GroveError)
        assert answer.retryable
        await asyncio.sleep(0.05)
    assert isinstance(answer, Answer)
    assert answer.rows == [b"[50]"]


async def test_nobody_takes_all_turns(container: Container):
    hogs = [
        asyncio.create_task(container.run("hog", asked(f"{ENDLESS} select count(*) from x")))
        for _ in range(12)
    ]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    answer = await container.run("other", asked("select 1"))
    assert answer.rows == [b"[1]"]
    assert time.monotonic() - began < LIMITS.query_s
    for hog in hogs:
        hog.cancel()
    await asyncio.gather(*hogs, return_exceptions=True)
    assert (await run(container, "select 1")).rows == [b"[1]"]


async def test_whoever_waits_with_many_leaves_room_for_others_to_wait():
    crowded = Container(Limits(running=2, waiting=8, wait_s=3.0, query_s=0.5))
    slow = asked(f"{ENDLESS} select count(*) from x")
    hogs = [asyncio.create_task(crowded.run("hog", slow)) for _ in range(20)]
    await asyncio.sleep(0.1)
    assert (await crowded.run("other", asked("select 1"))).rows == [b"[1]"]
    came = await asyncio.gather(*hogs, return_exceptions=True)
    await crowded.aclose()
    assert any(isinstance(one, GroveError) for one in came)
    assert any(isinstance(one, Answer) for one in came)


async def test_too_many_that_wait_are_told_to_come_back():
    crowded = Container(Limits(running=1, waiting=2, wait_s=0.2, query_s=1.0))
    tasks = [
        asyncio.create_task(crowded.run("x", asked(f"{ENDLESS} select count(*) from x"))) for _ in range(6)
    ]
    came = await asyncio.gather(*tasks, return_exceptions=True)
    await crowded.aclose()
    refused = [one for one in came if isinstance(one, GroveError)]
    assert len(refused) == 5
    assert {one.code for one in refused} == {"grovekeeper_busy"}
