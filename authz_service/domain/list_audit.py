"""Reading the audit."""

from authz_service.domain import errors
from authz_service.domain.audit import AuditQuery, AuditRecord
from authz_service.domain.model import Page
from authz_service.domain.ports import Audit
from authz_service.domain.principals import BEARERS, SERVICE, check_principal
from service_kit.paging import clamp_limit, decode_cursor, encode_cursor

OUTCOMES = ("allowed", "refused")


async def list_audit(audit: Audit, query: AuditQuery, page: Page) -> tuple[list[AuditRecord], str]:
    """Records and the next cursor.

    Newest first, the cursor is empty on the last page. Oldest first there is one as soon as anything was
    shown: an empty page is the end for now, and the same cursor asks for what came since. What is committed
    later never lies before it.
    """
    if query.outcome and query.outcome not in OUTCOMES:
        raise errors.invalid_input("The outcome is allowed or refused.", "outcome")
    if query.actor:
        check_principal(query.actor, (*BEARERS, "harness", SERVICE), "actor")
    limit = clamp_limit(page.limit)
    found = await audit.page(query, _after(page.cursor, 2 if query.oldest_first else 1), limit + 1)
    shown = found[:limit]
    if query.oldest_first:
        return shown, encode_cursor(*shown[-1].key) if shown else page.cursor
    return shown, encode_cursor(*shown[-1].key) if len(found) > limit else ""


def _after(cursor: str, keys: int) -> tuple[int, ...]:
    if not cursor:
        return ()
    after = decode_cursor(cursor, keys)
    if not all(isinstance(one, int) and one >= 0 for one in after):
        raise errors.invalid_input("The cursor is not one this server gave out.", "cursor")
    return tuple(int(one) for one in after)
