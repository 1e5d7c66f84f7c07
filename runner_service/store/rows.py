"""Between rows and models."""

from typing import cast

import msgspec

from runner_service.domain.model import (
    Asked,
    Attachment,
    Budgets,
    Configuration,
    Event,
    Failure,
    Harness,
    Outcome,
    Priming,
    Response,
    Session,
    Status,
    Usage,
)
from service_kit.db.tx import Row

__all__ = ["attachment", "event", "harness", "priming_json", "response", "session"]


def harness(row: Row) -> Harness:
    """A harness, of its own columns."""
    configuration = Configuration(
        row["name"],
        row["default_model"],
        row["system_prompt"],
        tuple(row["disabled_tools"]),
        row["max_step"],
        row["timeout_seconds"],
    )
    return Harness(row["id"], row["owner"], row["base"], configuration, row["created_at"], row["is_default"])


def attachment(row: Row) -> Attachment:
    """An attached memory."""
    return Attachment(row["memory_id"], row["access"], row["is_default"])


def session(row: Row) -> Session:
    """A session, of its own columns."""
    kept = cast("dict[str, object] | None", row["priming"])
    priming = None if kept is None else msgspec.convert(kept, Priming)
    return Session(row["id"], row["owner"], row["harness_id"], row["memory_id"], row["created_at"], priming)


def priming_json(priming: Priming) -> str:
    """What a session was primed with, as it is kept."""
    return msgspec.json.encode(priming).decode()


def response(row: Row) -> Response:
    """A response, of its own columns."""
    asked = Asked(
        input=bytes(row["input"]),
        model=row["model"],
        harness_id=row["harness_id"],
        memory_id=row["memory_id"],
        previous_response_id=row["previous_response_id"],
        instructions=row["instructions"],
        store=row["store"],
        background=row["background"],
        budgets=Budgets(row["max_output_tokens"], row["max_step"], row["timeout_seconds"]),
        ignored_fields=tuple(row["ignored_fields"]),
    )
    status = Status(row["status"])
    return Response(
        id=row["id"],
        owner=row["owner"],
        session_id=row["session_id"],
        harness_id=row["harness_id"],
        asked=asked,
        model=row["model"],
        status=status,
        created_at=row["created_at"],
        outcome=_outcome(row, status) if status.terminal else None,
        finished_at=row["finished_at"],
        cancel_requested=row["cancel_requested"],
        trace=cast("dict[str, str]", row["trace"]),
        final=bytes(row["final"] or b""),
        title=row["title"],
    )


def _outcome(row: Row, status: Status) -> Outcome:
    failure = None if row["failure_code"] is None else Failure(row["failure_code"], row["failure_message"])
    usage = None
    if row["input_tokens"] is not None:
        usage = Usage(row["input_tokens"], row["output_tokens"])
    return Outcome(status, failure, row["reason"], usage)


def event(row: Row) -> Event:
    """An event of the log."""
    return Event(row["sequence_number"], row["type"], bytes(row["json"]), row["terminal"])
