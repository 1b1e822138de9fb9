"""Fit a scene to a photograph of it, through the `while` loop that renders it.

Each pixel follows its ray by steps as long as the distance to the nearest surface,
until it is close to one: how many steps that takes depends on the parameters that are
fitted.  The gradient goes backwards through those steps.

Run ``python -m examples.sphere_tracing --help``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import nbfused as nf

from .command_line import options
from .fitting import Fit, fit
from .pictures import draw

__all__ = ["GUESS", "TRUTH", "main", "render", "run"]

#: Two spheres: x, y, radius of each.
TRUTH = np.array([-0.35, 0.1, 0.5, 0.45, -0.2, 0.35])
GUESS = np.array([-0.1, -0.15, 0.35, 0.2, 0.15, 0.5])


@nf.func
def scene(x, y, z, ax, ay, ar, bx, by, br):
    """The distance to two spheres that melt into one another."""
    a = math.sqrt((x - ax) * (x - ax) + (y - ay) * (y - ay) + z * z) - ar
    b = math.sqrt((x - bx) * (x - bx) + (y - by) * (y - by) + z * z) - br
    return -0.1 * nf.logaddexp(-10.0 * a, -10.0 * b)


@nf.elementwise
def pixel(x, y, ax, ay, ar, bx, by, br):
    """The brightness of the ray that starts at (x, y, -2) and goes along z."""
    ray = -2.0
    closest = 10.0
    z = ray  # where the ray comes closest
    while ray < 2.0:
        distance = scene(x, y, ray, ax, ay, ar, bx, by, br)
        if distance < closest:
            closest, z = distance, ray
        if distance < 1e-3:
            break
        ray += max(distance, 0.01)
    e = 1e-3  # the normal, by differences of the distance
    nx = scene(x + e, y, z, ax, ay, ar, bx, by, br)
    nx -= scene(x - e, y, z, ax, ay, ar, bx, by, br)
    ny = scene(x, y + e, z, ax, ay, ar, bx, by, br)
    ny -= scene(x, y - e, z, ax, ay, ar, bx, by, br)
    light = nf.sigmoid(0.5 - (nx + ny) / e)
    return nf.sigmoid(4.0 - 40.0 * closest) * light


def render(params: nf.Variable, size: int) -> nf.Variable:
    """An image of ``(size, size)`` pixels, from -1 to 1 both ways."""
    device = params.device
    ticks = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = (nf.array(ticks.reshape(shape), device=device)
            for shape in ((1, -1), (-1, 1)))
    return pixel(x, y, *(params[k] for k in range(len(TRUTH))))


def run(size: int = 96, steps: int = 120, device: str = "cpu",
        picture: Path | None = None) -> Fit:
    """Render the truth, fit the guess to it, draw both."""
    with nf.no_grad():
        target = render(nf.Variable(nf.array(TRUTH, device=device)), size)
        before = render(nf.Variable(nf.array(GUESS, device=device)), size)

    def loss(params: nf.Variable) -> nf.Variable:
        error = render(params, size) - target
        return (error * error).mean()

    found = fit(loss, GUESS, steps=steps, lr=0.03, device=device)
    if picture is not None:
        after = render(nf.Variable(nf.array(found.params, device=device)), size)
        draw(picture, {"first guess": before.to_numpy(), "fitted": after.to_numpy(),
                       "photograph": target.to_numpy()}, found.loss)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, and say how close it came."""
    given = options("sphere_tracing", __doc__, argv, size=(96, "pixels on each side"),
                    steps=(120, "of the optimiser"))
    found = run(**vars(given))
    print(f"loss {found.loss[0]:.2g} -> {found.loss[-1]:.2g}; largest error of a "
          f"parameter {np.abs(found.params - TRUTH).max():.1e}; {given.picture}")


if __name__ == "__main__":
    main()
