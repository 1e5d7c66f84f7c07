"""The two refusals every operation begins with."""

from authz_service.domain import errors
from authz_service.domain.caller import Caller
from authz_service.domain.model import Place, Privilege
from service_kit.identity import Passport


def demand(place: Place | None, needs: int = 0, param: str | None = None) -> Place:
    """The place, if the caller holds every privilege of ``needs`` there (0: any privilege at all).

    ``memory_not_found`` when it holds nothing or there is no such node, ``memory_forbidden`` when it
    holds something else.
    """
    if place is None or not place.visible:
        raise errors.memory_not_found(param)
    if place.mask & needs != needs:
        raise errors.memory_forbidden(param)
    return place


class RootRight:
    """Who may create a root, or make one by moving: anybody, or with ``admin_only`` the scope ``admin``."""

    def __init__(self, *, admin_only: bool) -> None:
        self._admin_only: bool = admin_only

    def demand(self, passport: Passport) -> None:
        """``insufficient_scope`` or, for a narrowed passport, ``memory_forbidden``."""
        if Caller.of(passport).narrowed:
            raise errors.memory_forbidden("parent_id")
        if self._admin_only:
            passport.require_scope("admin")


def bit(privilege: Privilege | None) -> int:
    """The mask of a privilege that may be absent."""
    return 0 if privilege is None else int(privilege)
