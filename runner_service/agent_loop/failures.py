"""What the agent loop's library says went wrong at a model's endpoint, as the domain says it."""

from typing import Final

from pydantic_ai import exceptions as found

from runner_service.domain.errors import BaseFailureError
from runner_service.domain.model_failures import Trouble, told

__all__ = ["failure_of"]

_TROUBLES: Final[tuple[tuple[type[Exception], Trouble], ...]] = (
    (found.ModelRateLimitError, Trouble.RATE_LIMIT),
    (found.ModelQuotaExceededError, Trouble.QUOTA),
    (found.ModelAuthenticationError, Trouble.CREDENTIAL),
    (found.ModelNotFoundError, Trouble.NO_MODEL),
    (found.ModelContextWindowExceededError, Trouble.TOO_LONG),
    (found.ModelUnavailableError, Trouble.UNAVAILABLE),
    (found.ModelServerError, Trouble.FAILED),
    (found.ModelTimeoutError, Trouble.TIMEOUT),
    (found.ModelRequestTimeout, Trouble.TIMEOUT),
    (found.ModelRequestRejectedError, Trouble.REJECTED),
    (found.ModelConnectionError, Trouble.UNREACHABLE),
    (found.ContentFilterError, Trouble.FILTERED),
    (found.ModelAPIError, Trouble.FAILED),
    (found.UnexpectedModelBehavior, Trouble.UNUSABLE),
)


def failure_of(error: Exception) -> BaseFailureError | None:
    """The failure to report for an error of the library; None for one that is no endpoint's."""
    for kind, trouble in _TROUBLES:
        if isinstance(error, kind):
            status = error.status_code if isinstance(error, found.ModelHTTPError) else None
            code = error.provider_error_code if isinstance(error, found.ModelAPIError) else None
            failure = told(trouble, status, code)
            return BaseFailureError(failure.code, failure.message)
    return None
