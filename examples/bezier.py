"""Fit an outline of cubic Bézier curves to noisy points.

The pieces share their corners, so that the gradient of a corner is the sum over both.

Run ``python -m examples.bezier --help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nbfused as nf

from .command_line import options
from .fitting import Fit, fit

__all__ = ["HEART", "main", "outline", "run"]

#: Corner, handle, handle, corner, …: four pieces, the last one ends where it began.
HEART = np.array([
    [0.0, -0.9], [-0.5, -0.5], [-1.0, -0.1], [-0.9, 0.4],
    [-0.8, 0.9], [-0.2, 0.9], [0.0, 0.4], [0.2, 0.9],
    [0.8, 0.9], [0.9, 0.4], [1.0, -0.1], [0.5, -0.5]])


@nf.elementwise
def cubic(t, a, b, c, d):
    """The point at `t` by de Casteljau: lines between points on lines."""
    ab, bc, cd = a + t * (b - a), b + t * (c - b), c + t * (d - c)
    abc, bcd = ab + t * (bc - ab), bc + t * (cd - bc)
    return abc + t * (bcd - abc)


@nf.elementwise
def squared_distance(x, y):
    """Of one coordinate."""
    return (x - y) * (x - y)


def outline(points: Any, t: Any) -> Any:
    """Points on every piece, of shape (pieces, len(t), 2).

    Parameters
    ----------
    points
        Corners and handles, of shape (3*pieces, 2).
    t
        From 0 at a piece's beginning to 1 at its end.
    """
    ring = nf.ops.concatenate([points, points[:1]])  # ends where it began
    a, b, c, d = (nf.ops.reshape(ring[k : ring.shape[0] - 3 + k : 3], (-1, 1, 2))
                  for k in range(4))
    return cubic(nf.ops.reshape(t, (-1, 1)), a, b, c, d)


def first_guess(samples: np.ndarray) -> np.ndarray:
    """Straight pieces between the first points of each."""
    corners = samples[:, 0]
    steps = np.roll(corners, -1, axis=0) - corners
    return np.stack([corners, corners + steps / 3, corners + steps * 2 / 3],
                    axis=1).reshape(-1, 2)


def run(count: int = 200, steps: int = 400, noise: float = 0.02, device: str = "cpu",
        picture: Path | None = None) -> Fit:
    """Sample the heart with noise, fit an outline to that, draw both."""
    rng = np.random.default_rng(0)
    t = nf.array(np.linspace(0, 1, count), device=device)
    exact = nf.to_numpy(outline(nf.array(HEART, device=device), t))
    samples = exact + noise * rng.standard_normal(exact.shape)
    target = nf.array(samples, device=device)

    def loss(points: nf.Variable) -> nf.Variable:
        return squared_distance(outline(points, t), target).mean()

    guess = first_guess(samples)
    found = fit(loss, guess, steps=steps, lr=0.05, device=device)
    if picture is not None:
        _draw(picture, samples, {"first guess": guess, "fitted": found.params},
              found.loss)
    return found


def _draw(path: Path, samples: np.ndarray, outlines: dict[str, np.ndarray],
          loss: Sequence[float]) -> None:
    # The object interface needs no display and leaves pyplot's state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    *frames, curve = figure.subplots(1, len(outlines) + 1)
    t = np.linspace(0, 1, 50)
    for axes, (title, points) in zip(frames, outlines.items(), strict=True):
        axes.plot(*samples.reshape(-1, 2).T, ".", color="#bbbbbb", markersize=2)
        for piece in outline(points, t):
            axes.plot(*piece.T, color="#0072b2", linewidth=2)
        axes.plot(*np.vstack([points, points[:1]]).T, "o--", color="#d55e00",
                  markersize=3, linewidth=0.7)
        axes.set_title(title)
        axes.set_aspect("equal")
    curve.semilogy(loss, color="#d55e00")
    curve.set_title("loss")
    curve.set_xlabel("step")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, and say how close it came."""
    given = options("bezier", __doc__, argv, count=(200, "points on each piece"),
                    steps=(400, "of the optimiser"), noise=(0.02, "of the points"))
    found = run(**vars(given))
    error = np.abs(found.params - HEART).max()
    print(f"loss {found.loss[0]:.2g} -> {found.loss[-1]:.2g}, of the noise "
          f"{given.noise**2:.2g}; largest error of a coordinate {error:.1e}; "
          f"{given.picture}")


if __name__ == "__main__":
    main()
