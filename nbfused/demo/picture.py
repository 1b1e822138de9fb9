"""The demo's figure: learning curves, and speed-ups by fusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compare import Timing
    from .train import History

__all__ = ["draw"]

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#777777"


def curve(axes: Any, values: Sequence[float], colour: str, title: str) -> None:
    """Draw one line over the epochs, labelled with its last value."""
    axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=2)
    axes.set_title(f"{title}: {values[-1]:.4g}", loc="left")
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.3)


def bars(axes: Any, timings: Sequence[Timing], device: str) -> None:
    """Draw the speed-up of each op; the grey line is unfused NumPy."""
    ordered = sorted(timings, key=lambda timing: timing.speedup)
    drawn = axes.barh(
        [timing.name for timing in ordered],
        [timing.speedup for timing in ordered],
        color=BLUE,
    )
    axes.bar_label(drawn, fmt="%.1f×", padding=3)
    axes.axvline(1, color=GREY, linewidth=1)
    axes.margins(x=0.12)
    axes.set_title(f"times faster on {device} than unfused NumPy", loc="left")


def draw(path: Path, history: History, timings: Sequence[Timing], device: str) -> None:
    """Write the figure to `path`, creating its folder."""
    # The object interface needs no display and leaves pyplot's state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subfigures(2, 1)
    loss, held_out = above.subplots(1, 2)
    curve(loss, history.loss, ORANGE, "training loss")
    loss.set_yscale("log")
    percent = [100 * each for each in history.accuracy]
    curve(held_out, percent, BLUE, "held-out accuracy in %")
    bars(below.subplots(), timings, device)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
