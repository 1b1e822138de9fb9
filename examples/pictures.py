"""Images beside one another, and how the loss fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["draw"]


def draw(path: Path, images: Mapping[str, np.ndarray], loss: Sequence[float]) -> None:
    """Write a picture: `images` by their titles, then the loss over the steps.

    Parameters
    ----------
    path
        A PNG file; its folder is made if it is missing.
    images
        Each of shape (rows, columns) with values from 0 to 1.
    loss
        One number for each step.
    """
    # The object interface needs no display and leaves pyplot's state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(3.2 * (len(images) + 1), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    *frames, curve = figure.subplots(1, len(images) + 1)
    for axes, (title, image) in zip(frames, images.items(), strict=True):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set_title(title)
        axes.set_axis_off()
    curve.semilogy(loss, color="#d55e00")
    curve.set_title("loss")
    curve.set_xlabel("step")
    curve.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
