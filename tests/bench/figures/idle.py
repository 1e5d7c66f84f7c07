"""What the whole product holds in memory with nothing to do."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.figure import Figure, Target

__all__ = ["idle"]

_SETTLE_S = 5.0


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        found[int(after[1])].append(int(stat.parent.name))
    return found


def _descendants(pid: int) -> list[int]:
    children = _children()
    found, ahead = list[int](), [pid]
    while ahead:
        one = ahead.pop()
        found.append(one)
        ahead += children[one]
    return found


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident set, and the share of it that is this process's own part (PSS)."""
    fields: dict[str, float] = {}
    for line in (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        fields[name] = float(rest.split()[0]) / 1024
    return fields.get("Rss", 0.0), fields.get("Pss", 0.0)


def _name(pid: int) -> str:
    """The package of a Python process, the program of another; Postgres's backends are one."""
    words = (Path("/proc") / str(pid) / "cmdline").read_text().split("\0")
    if "-m" in words:
        return words[words.index("-m") + 1].partition(".")[0]
    program = Path(words[0].split(" ")[0].rstrip(":")).name
    return "postgres" if program.startswith("postgres") else program


async def idle(bench: Bench) -> AsyncIterator[Figure]:
    """Sums over the process tree. PSS counts a page that n processes share as 1/n in each."""
    await asyncio.sleep(_SETTLE_S)
    rss: dict[str, float] = defaultdict(float)
    pss: dict[str, float] = defaultdict(float)
    for pid in _descendants(bench.product.pid):
        try:
            resident, own = _memory_mb(pid)
            name = _name(pid)
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
