"""Sharpen an image with kernels that were written for CuPy, and run here unchanged.

CuPy runs such kernels; here they also run on the CPU, and have gradients: the blur that
a kernel string computes is undone by descending the gradient of that string.

Run ``python -m examples.deblur --help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import nbfused as nf

from .command_line import options
from .fitting import Fit, fit
from .pictures import draw

__all__ = ["blurred", "main", "run", "scene"]

cp = nf  # import cupy as cp

# From here on as in a program for CuPy.

blur = cp.ElementwiseKernel(
    'raw T image, int32 rows, int32 columns, int32 radius', 'T y',
    '''
        int row = i / columns;
        int column = i % columns;
        T total = 0;
        T weights = 0;
        for (int dy = -radius; dy <= radius; dy++) {
            for (int dx = -radius; dx <= radius; dx++) {
                int r = min(max(row + dy, 0), rows - 1);
                int c = min(max(column + dx, 0), columns - 1);
                T weight = (radius + 1 - abs(dy)) * (radius + 1 - abs(dx));
                total += weight * image[r * columns + c];
                weights += weight;
            }
        }
        y = total / weights;
    ''', 'blur')

squared_error = cp.ReductionKernel(
    'T x, T y', 'T z', '(x - y) * (x - y)', 'a + b', 'z = a', '0', 'squared_error')


@cp.fuse()
def edge(x, y):
    """The size of a step between neighbours, smooth at 0."""
    return cp.sqrt((x - y) ** 2 + 1e-4)


@nf.rawkernel
def clamp(x, y, size):
    """Into [0, 1], by a loop with the stride of the grid."""
    for i in range(nf.grid(1), size, nf.gridsize(1)):
        y[i] = min(max(x[i], 0.0), 1.0)


# And from here on what CuPy cannot do with them.

RADIUS = 2


def blurred(image: nf.Variable | np.ndarray) -> nf.Variable | np.ndarray:
    """The image behind a lens that is out of focus."""
    rows, columns = image.shape
    flat = blur(image, rows, columns, RADIUS, size=rows * columns)
    return nf.ops.reshape(flat, (rows, columns))


def scene(size: int) -> np.ndarray:
    """A disc and a frame on a slope."""
    y, x = np.mgrid[:size, :size] / (size - 1) * 2 - 1
    image = 0.15 + 0.1 * x
    image[np.hypot(x + 0.25, y + 0.2) < 0.4] = 0.9
    frame = np.maximum(abs(x - 0.35), abs(y - 0.4))
    image[(frame > 0.25) & (frame < 0.42)] = 0.65
    return image


def run(size: int = 64, steps: int = 400, weight: float = 2e-4, device: str = "cpu",
        picture: Path | None = None) -> Fit:
    """Blur an image, add noise, find the sharp image again, draw all three."""
    truth = scene(size)
    noise = 0.002 * np.random.default_rng(0).standard_normal(truth.shape)
    seen = nf.to_numpy(blurred(nf.array(truth, device=device))) + noise
    target = nf.array(seen, device=device)

    def loss(image: nf.Variable) -> nf.Variable:
        rough = edge(image[1:], image[:-1]).sum() + edge(
            image[:, 1:], image[:, :-1]).sum()
        return squared_error(blurred(image), target) + weight * rough

    found = fit(loss, seen, steps=steps, lr=0.02, device=device)
    sharp = nf.zeros(size * size, device=device)
    clamp((8,), (128,), (nf.array(found.params.ravel(), device=device), sharp,
                         size * size))
    found.params = nf.to_numpy(sharp).reshape(size, size)
    if picture is not None:
        draw(picture, {"seen": seen, "sharpened": found.params, "truth": truth},
             found.loss)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Sharpen, and say how close it came."""
    given = options("deblur", __doc__, argv, size=(64, "pixels on each side"),
                    steps=(400, "of the optimiser"), weight=(2e-4, "of smoothness"))
    found = run(**vars(given))
    truth = scene(given.size)
    before, after = (np.sqrt(np.mean((x - truth) ** 2))
                     for x in (nf.to_numpy(blurred(truth)), found.params))
    print(f"distance to the truth {before:.3f} -> {after:.3f}; {given.picture}")


if __name__ == "__main__":
    main()
