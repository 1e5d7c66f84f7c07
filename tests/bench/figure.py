"""What a benchmark reports: a value, the floor it stands on, and what was promised of the two."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

import msgspec

__all__ = ["Figure", "Floor", "Target", "Window", "best", "table"]

Better = Literal["less", "more"]


class Window(msgspec.Struct, frozen=True):
    """One stretch of measuring. ``value`` is the figure's statistic over it; ``count`` the calls in it."""

    value: float
    count: int
    p99: float | None = None


class Floor(msgspec.Struct, frozen=True):
    """The least that the same work costs here, measured in turns with the figure."""

    what: str
    value: float
    windows: tuple[Window, ...]


class Target(msgspec.Struct, frozen=True):
    """``of`` is the ratio to the floor, the difference from it, or the value itself."""

    of: Literal["ratio", "difference", "value"]
    op: Literal["<=", ">="]
    bound: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    id: str
    what: str
    unit: str
    value: float
    windows: tuple[Window, ...] = ()
    floor: Floor | None = None
    target: Target | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median over neighbouring windows, so that a noisy minute touches both sides of each quotient."""
        if self.floor is None:
            return None
        pairs = [
            mine.value / floor.value
            for mine, floor in zip(self.windows, self.floor.windows, strict=False)
            if floor.value
        ]
        return median(pairs) if pairs else self.value / self.floor.value

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None without one."""
        if self.target is None:
            return None
        floor = self.floor.value if self.floor else 0.0
        measured = {"ratio": self.ratio, "difference": self.value - floor, "value": self.value}[
            self.target.of
        ]
        if measured is None:
            return None
        return measured <= self.target.bound if self.target.op == "<=" else measured >= self.target.bound

    def report(self) -> dict[str, object]:
        """As written to the report file."""
        return {
            "id": self.id,
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "ratio": self.ratio,
            "floor": self.floor,
            "target": self.target,
            "met": self.met,
            "windows": self.windows,
            "note": self.note,
        }


def best(windows: tuple[Window, ...], better: Better) -> float:
    """The best window: on a shared machine the others tell about the neighbours."""
    values = [window.value for window in windows]
    return min(values) if better == "less" else max(values)


def table(figures: list[Figure]) -> str:
    """For reading in a terminal."""
    rows = [("figure", "value", "floor", "ratio", "target", "")]
    for figure in figures:
        target = figure.target
        rows.append(
            (
                figure.what,
                f"{figure.value:,.2f} {figure.unit}",
                f"{figure.floor.value:,.2f} {figure.floor.what}" if figure.floor else "",
                f"{figure.ratio:.2f}" if figure.ratio is not None else "",
                f"{target.of} {target.op} {target.bound:g}" if target else "",
                {True: "met", False: "missed", None: ""}[figure.met],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
