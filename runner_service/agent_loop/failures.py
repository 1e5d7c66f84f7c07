"""What went wrong at a model's endpoint, in a sentence that is true and safe to show.

An endpoint's own words may hold a key or an address, so none of them are passed on: its status and
its error code are, where they look like such.
"""

import re
from typing import Final

from pydantic_ai import exceptions as found

from runner_service.domain.errors import BaseFailureError

__all__ = ["failure_of"]

_CODE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

_SENTENCES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (found.ModelRateLimitError, "The model's endpoint refused the request: its rate limit was reached"),
    (found.ModelQuotaExceededError, "The model's endpoint refused the request: its quota is used up"),
    (found.ModelAuthenticationError, "The model's endpoint did not accept the server's credential"),
    (found.ModelNotFoundError, "The model's endpoint does not know this model"),
    (found.ModelContextWindowExceededError, "The conversation is longer than the model can read"),
    (found.ModelUnavailableError, "The model's endpoint is not available now"),
    (found.ModelServerError, "The model's endpoint failed"),
    (found.ModelTimeoutError, "The model's endpoint did not answer in time"),
    (found.ModelRequestTimeout, "The model's endpoint did not answer in time"),
    (found.ModelRequestRejectedError, "The model's endpoint rejected the request"),
    (found.ModelConnectionError, "The model's endpoint could not be reached, or broke off"),
    (found.ContentFilterError, "The model's endpoint withheld the answer: its content filter was triggered"),
    (found.ModelAPIError, "The model's endpoint failed"),
    (found.UnexpectedModelBehavior, "The model's endpoint answered something that cannot be used"),
)


def failure_of(error: Exception) -> BaseFailureError | None:
    """The failure to report for an error of the library; None for one that is no endpoint's."""
    for kind, sentence in _SENTENCES:
        if isinstance(error, kind):
            return BaseFailureError("provider_error", f"{sentence}{_particulars(error)}.")
    return None


def _particulars(error: Exception) -> str:
    said = list[str]()
    if isinstance(error, found.ModelHTTPError):
        said.append(f"status {error.status_code}")
    if isinstance(error, found.ModelAPIError) and error.provider_error_code:
        code = error.provider_error_code
        if _CODE.fullmatch(code):
            said.append(code)
    return f" ({', '.join(said)})" if said else ""
