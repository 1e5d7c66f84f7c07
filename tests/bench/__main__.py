"""``python -m tests.bench --out build/bench.json``: measure everything, write it down, print a table."""

import argparse
import asyncio
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
import uvloop

from tests.bench.bench import Bench, Measure
from tests.bench.figure import Figure, table
from tests.bench.figures import (
    access,
    access_million,
    embedding,
    gateway,
    idle,
    recall,
    recall_scale,
    records,
    relay,
    turns,
)
from tests.bench.floors import running
from tests.bench.product import started

_MEASURES: Final[dict[str, tuple[Measure, float]]] = {
    "idle": (idle.idle, 20),
    "check": (access.check, 40),
    "access": (access_million.access_million, 330),
    "one_call": (gateway.one_call, 35),
    "memory_get": (gateway.memory_get, 30),
    "turns": (turns.overhead, 30),
    "events": (turns.events, 30),
    "relay": (relay.relay, 30),
    "embedding": (embedding.embed, 20),
    "recall": (recall.recall, 110),
    "recall_scale": (recall_scale.recall_scale, 400),
    "recall_scale_million": (recall_scale.recall_scale_million, 2400),
    "records": (records.records, 400),
    "records_million": (records.records_million, 2400),
}
"""In this order; the number is the most seconds it may take."""

_TOTAL_S: Final = 565.0
_BY_NAME_ONLY: Final = {"recall_scale", "recall_scale_million", "records", "records_million"}
"""Too long to be measured with the others."""


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def _measure(bench: Bench, name: str, seconds: float) -> tuple[list[Figure], str | None]:
    """The figures of one measure, and why it broke off if it did."""
    measure, most = _MEASURES[name]
    figures: list[Figure] = []
    try:
        async with asyncio.timeout(min(most, seconds)):
            async for figure in measure(bench):
                figures.append(figure)
                _say(
                    f"  {figure.what}: {figure.value:,.2f} {figure.unit}{f' ({figure.note})' if figure.note else ''}"
                )
    except TimeoutError:
        return figures, "it took too long"
    except Exception as error:  # noqa: BLE001 - one figure that fails must not cost the others
        _say("".join(traceback.format_exception(error)))
        return figures, f"{type(error).__name__}: {error}".splitlines()[0]
    return figures, None


async def _run(names: Sequence[str]) -> tuple[list[Figure], dict[str, str]]:
    end = monotonic() + (sum(_MEASURES[name][1] for name in names) if _BY_NAME_ONLY & {*names} else _TOTAL_S)
    figures: list[Figure] = []
    broken: dict[str, str] = {}
    async with running() as floors, started(floors) as product:
        bench = Bench(floors, product, await Bench.person(product, "bench"))
        for name in names:
            _say(name)
            found, why = await _measure(bench, name, end - monotonic())
            figures += found
            if why is not None:
                broken[name] = why
    return figures, broken


def _report(figures: list[Figure], broken: dict[str, str], seconds: float) -> bytes:
    return msgspec.json.format(
        msgspec.json.encode(
            {
                "measured_at": datetime.now(UTC),
                "seconds": round(seconds, 1),
                "machine": {
                    "processors": os.cpu_count(),
                    "architecture": platform.machine(),
                    "python": platform.python_version(),
                },
                "figures": [figure.report() for figure in figures],
                "broken": broken,
            }
        )
    )


def _default() -> list[str]:
    return [name for name in _MEASURES if name not in _BY_NAME_ONLY]


def main() -> int:
    """0: everything was measured. 1: something could not be, or with ``--check`` a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="report file")
    parser.add_argument("--only", nargs="+", choices=list(_MEASURES), default=_default())
    parser.add_argument("--check", action="store_true", help="fail when a target is missed")
    chosen = parser.parse_args()
    out: Path = chosen.out
    names: list[str] = chosen.only
    start = monotonic()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures, broken = runner.run(_run(names))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(_report(figures, broken, monotonic() - start))
    sys.stdout.write(f"{table(figures)}\n")
    for name, why in broken.items():
        _say(f"not measured: {name}: {why}")
    missed = [figure.what for figure in figures if figure.met is False]
    return 1 if broken or (chosen.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
