"""What the whole product holds in memory with nothing to do."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Final

from tests.bench import processes
from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target

__all__ = ["idle"]

_SETTLE_S: Final = 5.0


async def idle(bench: Bench) -> AsyncIterator[Figure]:
    """Sums over the process tree. PSS counts a page that n processes share as 1/n in each."""
    await asyncio.sleep(_SETTLE_S)
    rss: dict[str, float] = defaultdict(float)
    pss: dict[str, float] = defaultdict(float)
    for pid in processes.descendants(bench.product.pid):
        try:
            resident, own = processes.memory_mb(pid)
            name = processes.name(pid)
        except OSError:  # it ended meanwhile
            continue
        rss[name] += resident
        pss[name] += own
    for name in sorted(pss, key=lambda one: -pss[one]):
        yield Figure(f"idle.{name}", f"idle {name}", "MB", pss[name], note=f"RSS {rss[name]:.0f} MB")
    yield Figure(
        "idle.stack",
        "idle, all processes",
        "MB",
        sum(pss.values()),
        target=Target("value", "<=", 900),
        note=f"sum of RSS {sum(rss.values()):.0f} MB",
    )
