"""What the kernel says of a tree of processes: who is in it, and what each has used."""

from collections import defaultdict
from collections.abc import Iterable
from os import sysconf
from pathlib import Path
from typing import Final

__all__ = ["cpu_ms", "descendants", "memory_mb", "name"]

_PROC: Final = Path("/proc")
_TICK_MS: Final = 1000 / sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """The process and all below it."""
    children = _children()
    found, ahead = list[int](), [pid]
    while ahead:
        one = ahead.pop()
        found.append(one)
        ahead += children[one]
    return found


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident set, and its proportional part: a page that n processes share counts 1/n."""
    fields: dict[str, float] = {}
    for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]:
        key, _, rest = line.partition(":")
        fields[key] = float(rest.split()[0]) / 1024
    return fields.get("Rss", 0.0), fields.get("Pss", 0.0)


def cpu_ms(pids: Iterable[int]) -> dict[str, float]:
    """Processor time used so far, by name: what a busy neighbour does not blur."""
    used: dict[str, float] = defaultdict(float)
    for pid in pids:
        try:
            fields = _stat(_PROC / str(pid) / "stat")
            used[name(pid)] += (int(fields[11]) + int(fields[12])) * _TICK_MS
        except OSError:  # it ended meanwhile
            continue
    return used


def name(pid: int) -> str:
    """The package of a service, the program of another process; Postgres's backends are one."""
    words = (_PROC / str(pid) / "cmdline").read_text().split("\0")
    if len(words) > 1 and Path(words[1]).name == "grove":
        return "grove up"
    if "-m" in words:
        return words[words.index("-m") + 1].partition(".")[0]
    program = Path(words[0].split(" ")[0].rstrip(":")).name
    return "postgres" if program.startswith("postgres") else program


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            found[int(_stat(stat)[1])].append(int(stat.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def _stat(path: Path) -> list[str]:
    """The fields after the program's name, which may hold anything."""
    return path.read_text(errors="replace").rpartition(")")[2].split()
