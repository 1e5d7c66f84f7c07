"""Measuring two things in turns, so that both see the same machine."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from tests.bench.figure import Better, Figure, Floor, Target, Window, best
from tests.bench.processes import cpu_ms

__all__ = ["Call", "Plan", "compare", "cost", "latency", "percentile", "throughput"]

Call = Callable[[], Awaitable[object]]


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def latency(call: Call, count: int) -> Window:
    """The median time of one call after another, in ms."""
    times: list[float] = []
    for _ in range(count):
        start = perf_counter()
        await call()
        times.append((perf_counter() - start) * 1000)
    return Window(percentile(times, 0.5), count, percentile(times, 0.99))


async def throughput(calls: Sequence[Call], seconds: float) -> Window:
    """Calls a second when each of ``calls`` is made over and over at the same time."""
    start = perf_counter()

    async def repeat(call: Call) -> int:
        done = 0
        while perf_counter() - start < seconds:
            await call()
            done += 1
        return done

    counts = await asyncio.gather(*(repeat(call) for call in calls))
    return Window(sum(counts) / (perf_counter() - start), sum(counts))


async def cost(call: Call, count: int, pids: Sequence[int]) -> tuple[Window, dict[str, float]]:
    """Processor time one call takes in all of ``pids`` together, in ms, and by process."""
    before = cpu_ms(pids)
    for _ in range(count):
        await call()
    used = {name: (ms - before.get(name, 0.0)) / count for name, ms in cpu_ms(pids).items()}
    return Window(sum(used.values()), count), {name: ms for name, ms in used.items() if ms > 0}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a comparison is called and which way is better."""

    id: str
    what: str
    unit: str
    floor: str
    better: Better
    target: Target | None = None
    note: str = ""
    rounds: int = 4
    seconds: float = 8.0


async def compare(
    plan: Plan, floor: Callable[[], Awaitable[Window]], subject: Callable[[], Awaitable[Window]]
) -> Figure:
    """A window of the floor, a window of the subject, and so on; the first round of each warms up.

    No round but the first begins after ``plan.seconds``, so that a busy machine costs rounds, not figures.
    """
    start = perf_counter()
    await floor()
    await subject()
    below: list[Window] = []
    above: list[Window] = []
    while not above or (len(above) < plan.rounds and perf_counter() - start < plan.seconds):
        below.append(await floor())
        above.append(await subject())
    return Figure(
        plan.id,
        plan.what,
        plan.unit,
        best(tuple(above), plan.better),
        tuple(above),
        Floor(plan.floor, best(tuple(below), plan.better), tuple(below)),
        plan.target,
        plan.note,
    )
