"""Who a token speaks for, and why a principal holds what it holds."""

from typing import Literal

import msgspec

from gateway.schemas.base import Answer, Ask, Text
from gateway.schemas.memories import Grant

__all__ = ["Explain", "Explanation", "Reason", "WhoAmI"]


class WhoAmI(Answer, kw_only=True, frozen=True):
    """Who a token speaks for: ``groups`` are all that count now, ``managed_groups`` those it was put in."""

    object: Literal["grovekeeper.principal"] = "grovekeeper.principal"
    principal: str
    groups: list[str]
    managed_groups: list[str]
    scopes: list[str]
    token_id: str | None


class Explain(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/access``; ``group``, repeatable: groups its credential is taken to name."""

    principal: Text
    group: list[Text] = msgspec.field(default_factory=list[Text])


class Reason(Answer, kw_only=True, frozen=True):
    """A grant, the group it is held through, and the restricted memory that stopped it; null: none."""

    grant: Grant
    via_group: str | None
    stopped_at: str | None


class Explanation(Answer, kw_only=True, frozen=True):
    """Why a principal holds what it holds; ``complete``: nothing is left out."""

    object: Literal["grovekeeper.access"] = "grovekeeper.access"
    memory_id: str
    principal: str
    privileges: list[str]
    reasons: list[Reason]
    groups: list[str]
    complete: bool
