"""Which bearer tokens there are."""

from datetime import UTC, datetime, timedelta
from typing import Final

from authz_service.domain import errors
from authz_service.domain.model import Page, Token, TokensWanted
from authz_service.domain.ports import Tokens
from authz_service.domain.principals import BEARERS, SERVICE, check_principal
from service_kit.clock import Clock
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LATEST: Final = 253_402_300_799_000_000


class ListTokens:
    """The use case."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._clock: Clock = clock

    async def __call__(self, principal: str, page: Page, *, ended: bool) -> tuple[list[Token], str]:
        """One page, newest first, and the cursor of the next one ("" on the last).

        Of one principal or ("") of all; with ``ended`` also those that expired or were revoked.
        ``invalid_input`` for a principal that is none: an empty listing would look like one without tokens.
        """
        if principal:
            check_principal(principal, (*BEARERS, SERVICE), "principal")
        limit = clamp_limit(page.limit)
        wanted = TokensWanted(principal, ended, self._clock.now())
        found = await self._tokens.page(wanted, _before(page.cursor), limit + 1)
        shown = found[:limit]
        return shown, _cursor(shown[-1]) if len(found) > limit else ""


def _cursor(token: Token) -> str:
    return encode_cursor((token.created_at - _EPOCH) // _MICROSECOND, token.id)


def _before(cursor: str) -> tuple[datetime, str] | None:
    if not cursor:
        return None
    at, last = decode_cursor(cursor, 2)
    if not isinstance(at, int) or not isinstance(last, str) or not 0 <= at <= _LATEST:
        raise errors.invalid_input("The cursor is not one this server gave out.", "cursor")
    return _EPOCH + at * _MICROSECOND, last
