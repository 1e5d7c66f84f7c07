"""What ``grove doctor`` says of one thing."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``note`` is neither good nor bad."""

    verdict: Literal["ok", "FAIL", "note"]
    subject: str
    told: str
    remedy: str | None = None
