"""One statement in an SQLite of its own, which holds what it may see and lets it do nothing but read.

Runs in a child of the keeper. What it says of an error is about the statement: nothing of a row gets into it.
"""

import math
import re
import sqlite3
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from provider_workers.container.messages import Answer, Ask, Value

__all__ = ["FUNCTIONS", "MAX_STATEMENT", "run"]

MAX_STATEMENT: Final = 64 * 1024
"""Longest statement, in UTF-8 bytes."""

FUNCTIONS: Final = frozenset(
    [
        "abs",
        "char",
        "coalesce",
        "concat",
        "concat_ws",
        "format",
        "glob",
        "hex",
        "ifnull",
        "iif",
        "instr",
        "length",
        "like",
        "lower",
        "ltrim",
        "max",
        "min",
        "nullif",
        "octet_length",
        "printf",
        "quote",
        "replace",
        "round",
        "rtrim",
        "sign",
        "substr",
        "substring",
        "trim",
        "typeof",
        "unhex",
        "unicode",
        "upper",
        "likely",
        "unlikely",
        "likelihood",
        "avg",
        "count",
        "group_concat",
        "string_agg",
        "sum",
        "total",
        "date",
        "time",
        "datetime",
        "julianday",
        "strftime",
        "unixepoch",
        "timediff",
        "current_date",
        "current_time",
        "current_timestamp",
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "nth_value",
        "json",
        "json_array",
        "json_array_length",
        "json_each",
        "json_extract",
        "json_group_array",
        "json_group_object",
        "json_insert",
        "json_object",
        "json_patch",
        "json_quote",
        "json_remove",
        "json_replace",
        "json_set",
        "json_tree",
        "json_type",
        "json_valid",
        "->",
        "->>",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "ceil",
        "ceiling",
        "cos",
        "cosh",
        "degrees",
        "exp",
        "floor",
        "ln",
        "log",
        "log10",
        "log2",
        "mod",
        "pi",
        "pow",
        "power",
        "radians",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ]
)
"""The functions a statement may call."""

_CATALOGS: Final = ("sqlite_", "pragma_", "dbstat", "fts", "rtree", "bytecode", "tables_used", "completion")
_JSON_TABLES: Final = frozenset({"json_each", "json_tree"})
_READS: Final = re.compile(
    r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*(?:select|with|values)\b", re.IGNORECASE
)
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_LENGTH, 2 * 1024 * 1024),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT),
    (sqlite3.SQLITE_LIMIT_COLUMN, 100),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 100_000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 50),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 100),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_STEPS: Final = 1_000
_json: Final = msgspec.json.Encoder()


def run(ask: Ask) -> Answer:
    """Fill the tables, close every door, then run or compile the statement."""
    until = time.monotonic() + ask.soft_s
    if len(ask.statement.encode(errors="replace")) > MAX_STATEMENT:
        return _refused(f"The statement is longer than {MAX_STATEMENT} bytes.")
    if _READS.match(ask.statement) is None:
        return _refused("A query is one statement that begins with select, with or values.")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _fill(connection, ask)
    _close(connection, ask)
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        return _answer(connection, ask)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        return _explained(error)
    except MemoryError:
        return Answer([], [], ["memory"])


def _fill(connection: sqlite3.Connection, ask: Ask) -> None:
    for table in ask.tables:
        columns = ", ".join(f'"{name}"' for name in table.columns)
        marks = ", ".join("?" * len(table.columns))
        connection.execute(f'create table "{table.name}" ({columns})')
        connection.execute("begin")
        connection.executemany(f'insert into "{table.name}" values ({marks})', table.rows)  # noqa: S608 - our names
        connection.execute("commit")
    # SQLite declares these when they are first read, which afterwards it may not.
    connection.execute("select 1 from json_each('[]'), json_tree('[]')").close()


def _close(connection: sqlite3.Connection, ask: Ask) -> None:
    connection.execute("pragma temp_store = memory")
    connection.execute("pragma trusted_schema = off")
    connection.execute("pragma query_only = on")
    used = _heap(connection)
    connection.execute(f"pragma hard_heap_limit = {used + ask.heap_bytes}")
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    # What a cast makes of bytes is no reason to fail.
    connection.text_factory = _text
    connection.set_authorizer(_Doorkeeper({table.name for table in ask.tables}))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _heap(connection: sqlite3.Connection) -> int:
    pages = connection.execute("pragma page_count").fetchone()[0]
    size = connection.execute("pragma page_size").fetchone()[0]
    return int(pages) * int(size)


class _Doorkeeper:
    """What a statement may touch, asked by SQLite while it compiles it."""

    def __init__(self, tables: set[str]) -> None:
        self._tables = tables | _JSON_TABLES

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, _trigger: str | None
    ) -> int:
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ:
                return sqlite3.SQLITE_OK if self._readable(first or "", database) else sqlite3.SQLITE_DENY
            case sqlite3.SQLITE_FUNCTION:
                known = (second or "").lower() in FUNCTIONS
                return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY
            case _:
                return sqlite3.SQLITE_DENY

    def _readable(self, table: str, database: str | None) -> bool:
        """Ours, or what the statement made itself: a subquery, a `with`. Those lie in no database; but a table
        none of whose columns is read is said to lie in none either.
        """
        return table in self._tables or (database is None and not table.lower().startswith(_CATALOGS))


class _Params(dict[str, Value]):
    """Parameters of which those that are absent are null."""

    def __missing__(self, name: str) -> None:
        return None


def _answer(connection: sqlite3.Connection, ask: Ask) -> Answer:
    params: Mapping[str, Value] = _Params(ask.params) if ask.lenient or ask.check else dict(ask.params)
    if ask.check:
        connection.execute(f"explain {ask.statement}", params).close()
        return Answer([], [], [])
    cursor = connection.execute(ask.statement, params)
    columns = [column[0] for column in cursor.description or ()]
    rows, size, bounds = list[bytes](), 0, list[str]()
    try:
        for row in cursor:
            if len(rows) == ask.max_rows:
                bounds.append("rows")
                break
            line = _json.encode([_cell(value) for value in row])
            size += len(line)
            if size > ask.max_bytes:
                bounds.append("bytes")
                break
            rows.append(line)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise
        bounds.append("time")
    except MemoryError:
        bounds.append("memory")
    return Answer(columns, rows, bounds)


def _cell(value: object) -> object:
    """A value as JSON has it: bytes in hexadecimal, infinity as a word."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _explained(error: Exception) -> Answer:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_INTERRUPT":
        return Answer([], [], ["time"])
    if name == "SQLITE_NOMEM":
        return Answer([], [], ["memory"])
    if name == "SQLITE_AUTH" or "not authorized" in str(error) or "vtable constructor" in str(error):
        return _refused(
            "A query only reads records, versions and references, with the functions it is allowed."
        )
    if name == "SQLITE_TOOBIG":
        return _refused("The statement, or a text it makes, is too long.")
    if isinstance(error, OverflowError):
        return _refused("A param is an integer of more than 64 bits; send it as a text.")
    return _refused(f"The statement cannot be run: {_bare(str(error))}.")


def _bare(message: str) -> str:
    """SQLite's own words name tables, columns and signs of the statement; JSON's may name what was read."""
    if "JSON" in message.upper():
        return "a value is not the JSON it is read as"
    return message.replace("\0", "")[:300].rstrip(".")


def _refused(sentence: str) -> Answer:
    return Answer([], [], [], sentence)
