"""Keyset pages: a cursor holds the sort keys of the last node shown, so changes elsewhere move nothing."""

from authz_service.domain import errors
from authz_service.domain.model import Page
from service_kit.errors import GroveError
from service_kit.paging import decode_cursor


def after_id(page: Page) -> str:
    """The id a listing by id goes on after; "" for the first page."""
    if not page.cursor:
        return ""
    (last,) = decode_cursor(page.cursor, 1)
    if not isinstance(last, str):
        raise _foreign()
    return last


def after_depth(page: Page) -> tuple[int, str]:
    """The (depth, id) a listing by level goes on after; (0, "") for the first page."""
    if not page.cursor:
        return 0, ""
    depth, last = decode_cursor(page.cursor, 2)
    if not isinstance(depth, int) or not isinstance(last, str) or not 0 < depth < 2**31:
        raise _foreign()
    return depth, last


def _foreign() -> GroveError:
    return errors.invalid_input("The cursor is not one this server gave out.", "cursor")
