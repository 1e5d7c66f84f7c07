"""The UHP response object (Tasks), composed here and nowhere else, so that a read and an event agree."""

from collections.abc import Sequence

import msgspec

from runner_service.domain.model import Item, Outcome, Primed, Priming, Response, Status
from service_kit.errors import rule

__all__ = ["compose", "encode"]

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """JSON, UTF-8, without a space too many."""
    return _encoder.encode(value)


def compose(
    response: Response,
    output: Sequence[Item],
    priming: Priming | None,
    problems: Sequence[str] = (),
) -> Item:
    """The response as it stands. ``output`` are its finished items; ``problems`` name what of the memory
    seam could not be done (``metadata.grovekeeper_problems``).
    """
    outcome = response.outcome or Outcome(response.status)
    composed: Item = {
        "id": response.id,
        "object": "response",
        "created_at": int(response.created_at.timestamp()),
        "status": response.status.wire,
        "background": response.asked.background,
        "error": _error(outcome),
        "incomplete_details": {"reason": outcome.reason} if outcome.status is Status.INCOMPLETE else None,
        "previous_response_id": response.asked.previous_response_id or None,
        "model": response.model,
        "output": list(output),
        "store": response.asked.store,
        "usage": _usage(outcome),
        "metadata": _metadata(response, outcome, priming, problems),
    }
    if response.asked.instructions:
        composed["instructions"] = response.asked.instructions
    if response.finished_at is not None:
        composed["completed_at"] = int(response.finished_at.timestamp())
    return composed


def _error(outcome: Outcome) -> Item | None:
    """The envelope's five fields, as for a request that fails (Errors)."""
    if outcome.failure is None:
        return None
    code = outcome.failure.code
    return {
        "type": rule(code).type,
        "code": code,
        "message": outcome.failure.message,
        "param": None,
        "detail": None,
    }


def _usage(outcome: Outcome) -> Item | None:
    """What the endpoint counted, or null: a number nobody counted is not invented."""
    if outcome.usage is None:
        return None
    used = outcome.usage
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
    }


def _metadata(response: Response, outcome: Outcome, priming: Priming | None, problems: Sequence[str]) -> Item:
    metadata: Item = {"session_id": response.session_id, "harness_id": response.harness_id}
    if response.asked.memory_id:
        metadata["memory"] = response.asked.memory_id
    if response.asked.ignored_fields:
        metadata["ignored_fields"] = list(response.asked.ignored_fields)
    if priming is not None and priming.primed:
        metadata["grovekeeper_primed"] = [_primed(one, priming.tokenizer) for one in priming.primed]
    if outcome.compacted:
        metadata["grovekeeper_compacted"] = {"turns_left_out": outcome.compacted}
    if problems:
        metadata["grovekeeper_problems"] = list(problems)
    return metadata


def _primed(one: Primed, tokenizer: str) -> Item:
    """What was placed of a memory. What nobody counted is not there: no zero, no estimate."""
    if one.tokens is None:
        return {"memory_id": one.memory_id}
    return {"memory_id": one.memory_id, "tokens": one.tokens, "tokenizer": tokenizer}
