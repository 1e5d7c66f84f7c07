"""Which versions a read may see, as SQL over a ``version v``: memories, moment, status, types and filter.

Nothing a caller wrote becomes SQL: values are parameters, and every other piece is a literal of this file.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, assert_never

from psycopg import sql

from provider_workers.domain.filters import All, Any, Condition, Filter, Json, Not, Op
from provider_workers.domain.model import Include, Selection

__all__ = ["Arguments", "Scope", "among", "scope", "selected", "undecided", "visible"]

_COMPARED: Final = {Op.GT: sql.SQL(">"), Op.GTE: sql.SQL(">="), Op.LT: sql.SQL("<"), Op.LTE: sql.SQL("<=")}
_TIMES: Final = {
    "valid_from": sql.SQL("v.valid_from"),
    "valid_to": sql.SQL("v.valid_to"),
    "written_at": sql.SQL("v.written_at"),
}
_NULL: Final = sql.SQL("'null'::jsonb")
_BETWEEN: Final = "\x1f"


class Arguments:
    """The parameters of one statement; calling it with a value answers the placeholder."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def __call__(self, value: object) -> sql.Placeholder:
        name = f"p{len(self.values)}"
        self.values[name] = value
        return sql.Placeholder(name)


class Scope:
    """The condition of a read. ``present`` says that it covers what is latest and active and nothing else."""

    def __init__(self, condition: sql.Composed, *, present: bool) -> None:
        self.condition: sql.Composed = condition
        self.present: bool = present


def among(memory_ids: Sequence[str], bind: Arguments) -> sql.Composed:
    """The condition that a column is one of these memories.

    100,000 travel as one text that Postgres takes apart: an array takes ten times as long to write. What holds the
    sign between them names no memory.
    """
    if len(memory_ids) == 1:
        return sql.SQL("= {}").format(bind(memory_ids[0]))
    named = _BETWEEN.join(one for one in memory_ids if _BETWEEN not in one)
    return sql.SQL("= any(string_to_array({}, {}))").format(bind(named), sql.Literal(_BETWEEN))


def scope(memory_ids: Sequence[str], selection: Selection, bind: Arguments) -> Scope:
    """The condition on ``v`` of a selection over these memories."""
    seen = selected(selection, bind)
    condition = sql.SQL("v.memory_id {} and {}").format(among(memory_ids, bind), seen.condition)
    return Scope(condition, present=seen.present)


def selected(selection: Selection, bind: Arguments) -> Scope:
    """The condition on ``v`` of a selection alone, wherever it lies."""
    conditions: list[sql.Composable] = [visible(selection.include, selection.as_of, bind)]
    if selection.types:
        conditions.append(sql.SQL("v.type = any({})").format(bind(list(selection.types))))
    if selection.filter is not None:
        conditions.append(_tree(selection.filter, selection.as_of, bind))
    narrowed = len(conditions) > 1 or selection.as_of is not None or selection.include is not Include.ACTIVE
    return Scope(sql.SQL(" and ").join(conditions), present=not narrowed)


def undecided(memory_ids: Sequence[str], selection: Selection, bind: Arguments) -> sql.Composed:
    r"""The condition on ``v`` of what a filter cannot be decided for: Postgres cannot hold its attributes as JSON
    (``\u0000``, a number of 200,000 digits). Neither the filter nor its opposite holds there.
    """
    filter_ = All(()) if selection.filter is None else selection.filter
    return sql.SQL("{} and v.attributes_json is null and {} is null").format(
        scope(memory_ids, replace(selection, filter=None), bind).condition,
        _tree(filter_, selection.as_of, bind),
    )


def visible(include: Include, as_of: datetime | None, bind: Arguments) -> sql.Composable:
    """Versions by status, now or as it was at an instant: written by then, and closed only if by then."""
    if as_of is None:
        match include:
            case Include.ACTIVE:
                return sql.SQL("v.invalidated_at is null")
            case Include.ALL:
                return sql.SQL("true")
            case Include.SUPERSEDED | Include.FORGOTTEN:
                return sql.SQL("v.status = {}").format(bind(include.value))
    at = bind(as_of)
    # No version is older than its record, and records are in order: what was first written later is not looked at.
    written = sql.SQL("v.written_at <= {at} and v.created_at <= {at}").format(at=at)
    match include:
        case Include.ACTIVE:
            then = sql.SQL("(v.invalidated_at is null or v.invalidated_at > {})").format(at)
        case Include.ALL:
            then = sql.SQL("true")
        case Include.SUPERSEDED | Include.FORGOTTEN:
            then = sql.SQL(
                "(case when v.forgotten_at > {at} then 'superseded' else v.status end) = {status}"
                " and v.invalidated_at <= {at}"
            ).format(status=bind(include.value), at=at)
        case _:
            assert_never(include)
    return sql.SQL("({} and {})").format(written, then)


def _tree(node: Filter, as_of: datetime | None, bind: Arguments) -> sql.Composable:
    match node:
        case Condition():
            return _condition(node, as_of, bind)
        case All(filters):
            parts = [_tree(one, as_of, bind) for one in filters]
            return sql.SQL("({})").format(sql.SQL(" and ").join(parts)) if parts else sql.SQL("true")
        case Any(filters):
            parts = [_tree(one, as_of, bind) for one in filters]
            return sql.SQL("({})").format(sql.SQL(" or ").join(parts)) if parts else sql.SQL("false")
        case Not(inner):
            return sql.SQL("(not {})").format(_tree(inner, as_of, bind))


def _condition(one: Condition, as_of: datetime | None, bind: Arguments) -> sql.Composable:
    if one.root == "attributes":
        return _on_attribute(one, bind)
    return _on_column(one, _column(one.root, as_of, bind), bind)


def _column(root: str, as_of: datetime | None, bind: Arguments) -> sql.Composable:
    if root == "type":
        return sql.SQL('v.type collate "C"')
    if root in _TIMES:
        return _TIMES[root]
    if as_of is None:
        return sql.SQL("v.invalidated_at")
    return sql.SQL("(case when v.invalidated_at <= {} then v.invalidated_at end)").format(bind(as_of))


def _on_column(one: Condition, column: sql.Composable, bind: Arguments) -> sql.Composable:
    """On a column of its own: text, or a time that may be null."""
    match one.op:
        case Op.EXISTS:
            return sql.SQL("({} is not null)" if one.values[0] else "({} is null)").format(column)
        case Op.EQ | Op.IN:
            return _among(one, column, bind)
        case Op.NE | Op.NIN:
            return sql.SQL("(not {})").format(_among(one, column, bind))
        case _:
            return sql.SQL("coalesce({} {} {}, false)").format(column, _COMPARED[one.op], bind(one.values[0]))


def _among(one: Condition, column: sql.Composable, bind: Arguments) -> sql.Composable:
    given = [value for value in one.values if value is not None]
    cast = sql.SQL("text[]") if one.root == "type" else sql.SQL("timestamptz[]")
    equal = sql.SQL("coalesce({} = any({}::{}), false)").format(column, bind(given), cast)
    if len(given) == len(one.values):
        return equal
    return sql.SQL("({} or {} is null)").format(equal, column)


def _on_attribute(one: Condition, bind: Arguments) -> sql.Composable:
    """On what lies at a path of the attributes; null, neither true nor false, where they cannot be looked at."""
    return sql.SQL("(case when v.attributes_json is not null then {} end)").format(_at_path(one, bind))


def _at_path(one: Condition, bind: Arguments) -> sql.Composable:
    at = sql.SQL("(v.attributes_json #> {}::text[])").format(bind(list(one.path)))
    match one.op:
        case Op.EXISTS:
            return sql.SQL("({} is not null)" if one.values[0] else "({} is null)").format(at)
        case Op.EQ | Op.IN:
            return _among_json(one, at, bind)
        case Op.NE | Op.NIN:
            return sql.SQL("(not {})").format(_among_json(one, at, bind))
        case _:
            return _compared_json(one, at, bind)


def _among_json(one: Condition, at: sql.Composable, bind: Arguments) -> sql.Composable:
    texts = [value.text for value in one.values if isinstance(value, Json)]
    equal = sql.SQL("coalesce({} = any({}::text[]::jsonb[]), false)").format(at, bind(texts))
    if any(isinstance(value, Json) and value.kind == "null" for value in one.values):
        return sql.SQL("({} or coalesce({}, {}) = {})").format(equal, at, _NULL, _NULL)
    return equal


def _compared_json(one: Condition, at: sql.Composable, bind: Arguments) -> sql.Composable:
    """Only within one JSON type; the ``case`` keeps a cast from being tried on another."""
    value = one.values[0]
    if not isinstance(value, Json):
        raise TypeError(value)
    given = bind(value.text)
    if value.kind == "number":
        return sql.SQL(
            "(case when jsonb_typeof({at}) = 'number' then ({at} #>> '{{}}')::numeric {op} {given}::numeric"
            " else false end)"
        ).format(at=at, op=_COMPARED[one.op], given=given)
    return sql.SQL(
        "(case when jsonb_typeof({at}) = 'string'"
        " then ({at} #>> '{{}}') collate \"C\" {op} ({given}::jsonb #>> '{{}}') else false end)"
    ).format(at=at, op=_COMPARED[one.op], given=given)
