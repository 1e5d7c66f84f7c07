"""How a response ends: once, with everything it produced, in one terminal event that is also what a
later read answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from runner_service.domain.composer import Composer
from runner_service.domain.model import Event, Outcome, Priming, Response
from runner_service.domain.response_object import compose, encode

__all__ = ["end"]


def end(
    response: Response,
    composer: Composer,
    outcome: Outcome,
    at: datetime,
    *,
    priming: Priming | None = None,
    problems: Sequence[str] = (),
) -> tuple[Response, list[Event]]:
    """The response as it ended, and the last events of its log: open items closed, then the terminal one."""
    events = composer.close()
    ended = replace(response, status=outcome.status, outcome=outcome, finished_at=at)
    composed = compose(ended, composer.output, priming, problems)
    events.append(composer.finish(composed))
    return replace(ended, final=encode(composed)), events
