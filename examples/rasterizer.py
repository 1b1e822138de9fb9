"""Fit triangles to an image: a soft rasteriser, differentiated by itself.

A kernel of one thread a pixel looks at every triangle.  Its backward kernel is made
from it: each load becomes an atomic addition to the triangles' gradient.

Run ``python -m examples.rasterizer --help``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import nbfused as nf

from .command_line import options
from .fitting import Fit, fit
from .pictures import draw

__all__ = ["GUESS", "TRUTH", "main", "painter", "run"]

#: Corners x, y, x, y, x, y, counter-clockwise, and the brightness of each triangle.
TRUTH = np.array([[-0.6, -0.5, 0.1, -0.6, -0.2, 0.3, 0.9],
                  [-0.1, -0.2, 0.7, 0.0, 0.1, 0.6, 0.6],
                  [-0.8, 0.2, -0.3, 0.5, -0.7, 0.8, 0.75]])
GUESS = np.array([[-0.4, -0.4, 0.0, -0.4, -0.2, 0.0, 0.5],
                  [0.0, 0.0, 0.5, 0.1, 0.2, 0.4, 0.5],
                  [-0.7, 0.4, -0.4, 0.5, -0.6, 0.7, 0.5]])
#: Per unit of distance from an edge.
SHARPNESS = 25.0
_BLOCK = (16, 8)


@nf.rawkernel(differentiable=True)
def rasterize(triangles, image, sharpness):
    """Paint the triangles over one another, the first one on top."""
    column, row = nf.grid(2)
    rows, columns = image.shape
    if row >= rows or column >= columns:
        return
    x = (2 * column + 1) / columns - 1.0
    y = (2 * row + 1) / rows - 1.0
    shade = 0.0
    clear = 1.0  # how much is seen of what lies below
    for k in range(triangles.shape[0]):
        inside = 10.0  # the distance to the nearest edge, negative outside
        for corner in range(3):
            following = (corner + 1) % 3
            ax, ay = triangles[k, 2 * corner], triangles[k, 2 * corner + 1]
            dx = triangles[k, 2 * following] - ax
            dy = triangles[k, 2 * following + 1] - ay
            distance = (dx * (y - ay) - dy * (x - ax)) / math.hypot(dx, dy)
            inside = min(inside, distance)
        cover = nf.sigmoid(sharpness * inside)
        shade += clear * cover * triangles[k, 6]
        clear *= 1.0 - cover
    image[row, column] = shade


def painter(size: int) -> Callable[..., nf.Variable]:
    """The kernel as an operation whose result is an image of ``(size, size)``."""
    blocks = tuple(-(-size // threads) for threads in _BLOCK)
    return rasterize.as_op(outputs={"image": ((size, size), "float64")}, grid=blocks,
                           block=_BLOCK)


def run(size: int = 96, steps: int = 300, device: str = "cpu",
        picture: Path | None = None) -> Fit:
    """Rasterise the truth, fit the guess to it, draw both."""
    paint = painter(size)

    def painted(triangles: np.ndarray) -> np.ndarray:
        return nf.to_numpy(paint(nf.array(triangles, device=device), SHARPNESS))

    target = nf.array(painted(TRUTH), device=device)

    def loss(triangles: nf.Variable) -> nf.Variable:
        error = paint(triangles, SHARPNESS) - target
        return (error * error).mean()

    found = fit(loss, GUESS, steps=steps, lr=0.03, device=device)
    if picture is not None:
        draw(picture, {"first guess": painted(GUESS), "fitted": painted(found.params),
                       "target": nf.to_numpy(target)}, found.loss)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, and say how close it came."""
    given = options("rasterizer", __doc__, argv, size=(96, "pixels on each side"),
                    steps=(300, "of the optimiser"))
    found = run(**vars(given))
    print(f"loss {found.loss[0]:.2g} -> {found.loss[-1]:.2g}; largest error of a "
          f"number {np.abs(found.params - TRUTH).max():.1e}; {given.picture}")


if __name__ == "__main__":
    main()
