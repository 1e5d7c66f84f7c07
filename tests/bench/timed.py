"""Text that says when it was written, on the machine-wide monotonic clock, to be read in another process.

``EVENTS`` words, one every ``PERIOD_S`` seconds; a single one at once when the model is asked ``QUICK``.
"""

import re
from time import perf_counter_ns
from typing import Final

__all__ = ["EVENT", "EVENTS", "MODEL", "PERIOD_S", "QUICK", "ages_ms", "stamp"]

EVENT: Final = "response.output_text.delta"
EVENTS: Final = 120
PERIOD_S: Final = 0.01
MODEL: Final = "stamping"
QUICK: Final = "in one word"

_STAMP: Final = re.compile(r"<(\d+)>")


def stamp(now_ns: int) -> str:
    """A word that holds a time."""
    return f"<{now_ns}> "


def ages_ms(text: str) -> list[float]:
    """How long ago each time in ``text`` was, in ms."""
    now = perf_counter_ns()
    return [(now - int(found)) / 1e6 for found in _STAMP.findall(text)]
