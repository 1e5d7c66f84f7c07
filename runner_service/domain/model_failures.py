"""What went wrong at a model's endpoint, in a sentence that is true and safe to show.

An endpoint's own words may hold a key or an address, so none of them are passed on: its status and
its error code are, where they look like such.
"""

import re
from enum import StrEnum
from typing import Final

from runner_service.domain.model import Failure

__all__ = ["Trouble", "told", "trouble_of"]

_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Trouble(StrEnum):
    """Each kind of trouble, and how it is said."""

    RATE_LIMIT = "The model's endpoint refused the request: its rate limit was reached"
    QUOTA = "The model's endpoint refused the request: its quota is used up"
    CREDENTIAL = "The model's endpoint did not accept the server's credential"
    NO_MODEL = "The model's endpoint does not know this model"
    TOO_LONG = "The conversation is longer than the model can read"
    UNAVAILABLE = "The model's endpoint is not available now"
    FAILED = "The model's endpoint failed"
    TIMEOUT = "The model's endpoint did not answer in time"
    REJECTED = "The model's endpoint rejected the request"
    UNREACHABLE = "The model's endpoint could not be reached, or broke off"
    FILTERED = "The model's endpoint withheld the answer: its content filter was triggered"
    UNUSABLE = "The model's endpoint answered something that cannot be used"


_STATUSES: Final = {
    401: Trouble.CREDENTIAL,
    402: Trouble.QUOTA,
    403: Trouble.CREDENTIAL,
    404: Trouble.NO_MODEL,
    408: Trouble.TIMEOUT,
    429: Trouble.RATE_LIMIT,
    503: Trouble.UNAVAILABLE,
    504: Trouble.TIMEOUT,
    529: Trouble.UNAVAILABLE,
}
_CODES: Final = {
    "insufficient_quota": Trouble.QUOTA,
    "context_length_exceeded": Trouble.TOO_LONG,
    "content_filter": Trouble.FILTERED,
    "rate_limit_error": Trouble.RATE_LIMIT,
    "rate_limit_exceeded": Trouble.RATE_LIMIT,
    "overloaded_error": Trouble.UNAVAILABLE,
}
"""What an endpoint's own code says better than the status, and inside a stream, where there is none."""


def trouble_of(status: int, code: str = "") -> Trouble:
    """What an error's status and code mean; 200 for one inside a stream."""
    if code in _CODES:
        return _CODES[code]
    if 300 <= status < 400:
        return Trouble.UNUSABLE
    return _STATUSES.get(status, Trouble.REJECTED if 400 <= status < 500 else Trouble.FAILED)


def told(trouble: Trouble, status: int | None = None, code: str | None = None) -> Failure:
    """A turn's failure, with the status and the code where they can be shown."""
    said = [] if status is None else [f"status {status}"]
    if code and _CODE.fullmatch(code):
        said.append(code)
    particulars = f" ({', '.join(said)})" if said else ""
    return Failure("provider_error", f"{trouble}{particulars}.")
