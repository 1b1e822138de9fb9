"""Rows of the table, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Row", "text"]


@dataclass(frozen=True)
class Row:
    """A row: seconds of every library, None if it failed.

    `ceiling` is the best rate of this run, in `unit` a second; NaN where there is none.
    """

    name: str
    dtype: str
    seconds: dict[str, float | None]
    bar: float = 1.0
    work: float = float("nan")
    unit: str = ""
    ceiling: float = float("nan")
    against: str = "peer"

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest peer."""
        peers = {k: s for k, s in self.seconds.items() if k != "nbfused" and s}
        return min(peers.items(), key=lambda p: p[1]) if peers else None

    @property
    def share(self) -> float | None:
        """The share of the ceiling that we reach."""
        ours = self.seconds.get("nbfused")
        return self.work/ours/self.ceiling if ours and self.ceiling > 0 else None

    @property
    def ratio(self) -> float | None:
        """The figure that the bar is for: best peer's time over ours, or the share."""
        ours = self.seconds.get("nbfused")
        if self.against == "ceiling":
            return self.share
        return self.best[1]/ours if self.best and ours else None

    @property
    def below(self) -> bool:
        """Whether the bar is missed; never without our time or a peer's."""
        return self.ratio is not None and self.ratio < self.bar

    def record(self) -> dict[str, Any]:
        """The row as JSON, with None for NaN."""
        known = {k: None if v != v else v for k, v in asdict(self).items()}
        return {**known, "best": self.best, "share": self.share, "ratio": self.ratio}


def text(rows: Sequence[Row], head: bool = True) -> str:
    """The text of the table."""
    lines = [f"{'work':44} {'dtype':9} {'ours us':>10} {'best us':>10} {'peer':14} "
             f"{'ratio':>6} {'bar':>5} {'ceiling':>7}"]*head
    for r in rows:
        best = r.best
        lines.append(
            f"{r.name:44} {r.dtype:9} {_micro(r.seconds.get('nbfused'))} "
            f"{_micro(best[1] if best else None)} {best[0] if best else '-':14} "
            f"{_number(r.ratio, 6)} {r.bar:5.2f} {_number(r.share, 7)}"
            f"{'  below' if r.below else ''}")
    return "\n".join(lines)


def _micro(seconds: float | None) -> str:
    return f"{'-':>10}" if seconds is None else f"{seconds*1e6:10.1f}"


def _number(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.2f}"
