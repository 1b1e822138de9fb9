"""Sharpen a blurred image: the gradient of a 3 x 3 box filter, made and hand-written.

Each thread averages the neighbours of its pixel that exist.  The generated backward
kernel turns the nine loads of a thread into nine atomic additions; the hand-written
rule gathers instead.  Both give the same gradient.

Run ``python -m examples.box_filter --help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import nbfused as nf
from nbfused.kernels.threads.rawkernel import ThreadKernel

from .command_line import options
from .fitting import Fit, fit
from .pictures import draw

__all__ = ["box", "gathered", "main", "photograph", "run"]

_BLOCK = (16, 8)


@nf.func
def neighbours(row, column, rows, columns):
    """How many pixels of the 3 x 3 around one lie in the image."""
    high = min(row + 1, rows - 1) - max(row - 1, 0) + 1
    wide = min(column + 1, columns - 1) - max(column - 1, 0) + 1
    return high * wide


def average(image, blurred):
    """Each pixel is the mean of those around it."""
    column, row = nf.grid(2)
    rows, columns = image.shape
    if row >= rows or column >= columns:
        return
    total = 0.0
    for r in range(max(row - 1, 0), min(row + 2, rows)):
        for c in range(max(column - 1, 0), min(column + 2, columns)):
            total += image[r, c]
    blurred[row, column] = total / neighbours(row, column, rows, columns)


#: The same kernel twice: with the generated rule, and with the one below.
box = nf.rawkernel(differentiable=True)(average)
gathered = nf.rawkernel(differentiable=True)(average)


@gathered.defvjp
def gather(image, blurred):
    """Each pixel collects from the means that it is part of."""
    column, row = nf.grid(2)
    rows, columns = image.primal.shape
    if row >= rows or column >= columns:
        return
    total = 0.0
    for r in range(max(row - 1, 0), min(row + 2, rows)):
        for c in range(max(column - 1, 0), min(column + 2, columns)):
            total += blurred.derivative[r, c] / neighbours(r, c, rows, columns)
    image.derivative[row, column] += total


def photograph(size: int) -> np.ndarray:
    """Rings and a bar."""
    ticks = np.linspace(-1, 1, size)
    x, y = ticks[None, :], ticks[:, None]
    rings = 0.5 + 0.5 * np.cos(14 * np.hypot(x, y))
    return np.where((abs(x - y) < 0.12) & (x > 0), 1.0, np.where(x + y < 0.4, rings, 0))


def run(size: int = 64, steps: int = 300, device: str = "cpu",
        picture: Path | None = None, kernel: ThreadKernel = box) -> Fit:
    """Blur a photograph, then look for the image whose blur that is."""
    blocks = tuple(-(-size // threads) for threads in _BLOCK)
    blur = kernel.as_op(outputs={"blurred": "image"}, grid=blocks, block=_BLOCK)
    sharp = photograph(size)
    blurred = blur(nf.array(sharp, device=device))

    def loss(image: nf.Variable) -> nf.Variable:
        error = blur(image) - blurred
        return (error * error).mean()

    found = fit(loss, nf.to_numpy(blurred), steps=steps, lr=0.05, device=device)
    if picture is not None:
        draw(picture, {"blurred": nf.to_numpy(blurred), "sharpened": found.params,
                       "photograph": sharp}, found.loss)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Sharpen, and say how close it came."""
    given = options("box_filter", __doc__, argv, size=(64, "pixels on each side"),
                    steps=(300, "of the optimiser"))
    found = run(**vars(given))
    error = np.sqrt(np.mean((found.params - photograph(given.size))**2))
    print(f"loss {found.loss[0]:.2g} -> {found.loss[-1]:.2g}; the sharpened image is "
          f"{error:.3f} from the photograph; {given.picture}")


if __name__ == "__main__":
    main()
