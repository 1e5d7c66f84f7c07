"""Who a token speaks for (``/v1/grovekeeper/whoami``)."""

from typing import Literal

from gateway.schemas.base import Answer

__all__ = ["WhoAmI"]


class WhoAmI(Answer, kw_only=True, frozen=True):
    """Who a token speaks for."""

    object: Literal["grovekeeper.principal"] = "grovekeeper.principal"
    principal: str
    groups: list[str]
    scopes: list[str]
