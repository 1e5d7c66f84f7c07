"""What the audit keeps: a change of access, or an attempt that was refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from authz_service.domain.principals import is_principal
from service_kit.ids import is_id

NOT_AN_ID: Final = "(no id)"
"""Written where something was named by what is not even an id: it may be anything, a secret too."""


@dataclass(frozen=True, slots=True)
class Act:
    """What was done, or tried, to whom and where; who did it is known from its passport.

    ``action`` is a word of docs/access.md, ``node`` the memory as it was named, ``principal`` whom it
    concerns. ``detail`` is small and JSON-able, and holds no secret and no content.
    """

    action: str
    node: str = ""
    principal: str = ""
    detail: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt that was refused with ``code``, by whom, from where, in which trace.

    ``actor`` is empty where the credential itself was refused. ``code`` is empty where the record stands for
    several refusals that were only counted.
    """

    act: Act
    code: str
    actor: str = ""
    token_id: str = ""
    source: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A row of the audit. ``detail`` is a JSON object, ``key`` where a listing goes on after it."""

    id: str
    at: datetime
    actor: str
    token_id: str
    action: str
    outcome: str
    code: str
    node: str
    principal: str
    source: str
    trace_id: str
    detail: str
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which records, in which order. What is empty or None does not narrow; ``until`` is not included."""

    actor: str = ""
    node: str = ""
    action: str = ""
    outcome: str = ""
    since: datetime | None = None
    until: datetime | None = None
    oldest_first: bool = False


def memory_named(text: str) -> str:
    """The memory as it was named, if that is an id."""
    return text if not text or is_id("hmem", text) else NOT_AN_ID


def principal_named(text: str) -> str:
    """The principal as it was named, if that is one."""
    return text if not text or is_principal(text) else NOT_AN_ID
