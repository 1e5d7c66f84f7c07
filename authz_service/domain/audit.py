"""What the audit keeps of an act: a change of access, or an attempt that was refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
