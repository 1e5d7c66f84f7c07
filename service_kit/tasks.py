"""A question every catcher of foreign errors has to ask."""

import asyncio

__all__ = ["let_cancellation_pass", "told_to_stop"]


def told_to_stop() -> bool:
    """Whether somebody cancelled the current task and it has not stopped yet."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def let_cancellation_pass(cause: BaseException | None = None) -> None:
    """A call cut short by our own stopping may fail in ways of its own; raise what it really was."""
    if told_to_stop():
        raise asyncio.CancelledError from cause
