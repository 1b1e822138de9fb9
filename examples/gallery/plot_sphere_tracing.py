"""
A scene, fitted through the loop that renders it
================================================

Each pixel follows its ray by steps as long as the distance to the nearest surface,
until it is close to one.  How many steps that takes depends on the parameters that are
fitted; the gradient goes backwards through those steps.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 96  # pixels on each side
STEPS = 120  # of the optimiser
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# A function that other scalar functions call: the distance to two spheres that melt
# into one another.


@nf.func
def distance(x, y, z, ax, ay, ar, bx, by, br):
    """The distance to the nearest surface."""
    a = math.sqrt((x - ax) * (x - ax) + (y - ay) * (y - ay) + z * z) - ar
    b = math.sqrt((x - bx) * (x - bx) + (y - by) * (y - by) + z * z) - br
    return -0.1 * nf.logaddexp(-10.0 * a, -10.0 * b)


# %%
# One pixel is a scalar function with a ``while`` loop in it.  The outline of the scene
# is soft, so that a sphere can be moved by what is seen beside it.


@nf.elementwise
def pixel(x, y, ax, ay, ar, bx, by, br):
    """The brightness of the ray that starts at (x, y, -2) and goes along z."""
    ray = -2.0
    closest = 10.0
    z = ray  # where the ray comes closest
    while ray < 2.0:
        free = distance(x, y, ray, ax, ay, ar, bx, by, br)
        if free < closest:
            closest, z = free, ray
        if free < 1e-3:
            break
        ray += max(free, 0.01)
    e = 1e-3  # the normal, by differences of the distance
    nx = distance(x + e, y, z, ax, ay, ar, bx, by, br)
    nx -= distance(x - e, y, z, ax, ay, ar, bx, by, br)
    ny = distance(x, y + e, z, ax, ay, ar, bx, by, br)
    ny -= distance(x, y - e, z, ax, ay, ar, bx, by, br)
    light = nf.sigmoid(0.5 - (nx + ny) / e)
    return nf.sigmoid(4.0 - 40.0 * closest) * light


def render(params, size):
    """An image of ``(size, size)`` pixels, from -1 to 1 both ways."""
    ticks = (np.arange(size) + 0.5) / size * 2 - 1
    x = nf.array(ticks.reshape(1, -1), device=DEVICE)
    y = nf.array(ticks.reshape(-1, 1), device=DEVICE)
    return pixel(x, y, *(params[k] for k in range(6)))


# %%
# The photograph is rendered from the true parameters, x, y and radius of each sphere;
# Adam starts from the guess.

TRUTH = np.array([-0.35, 0.1, 0.5, 0.45, -0.2, 0.35])
GUESS = np.array([-0.1, -0.15, 0.35, 0.2, 0.15, 0.5])

photograph = render(nf.array(TRUTH, device=DEVICE), SIZE)
params = nf.Variable(nf.array(GUESS, device=DEVICE), requires_grad=True)
moments = nf.zeros_like(params.data), nf.zeros_like(params.data)
losses = []
for step in range(1, STEPS + 1):
    error = render(params, SIZE) - photograph
    loss = (error * error).mean()
    loss.backward()
    rate = 0.015 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(params, params.grad, *moments, lr=rate, step=step)
    params.grad = None
    losses.append(float(loss.to_numpy()))

fitted = params.to_numpy()
print(f"loss {losses[0]:.1e} -> {losses[-1]:.1e}; "
      f"largest error of a parameter {abs(fitted - TRUTH).max():.1e}")

# %%
# The same function renders larger pictures.

figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
scenes = {"first guess": GUESS, "fitted": fitted, "photograph": TRUTH}
for panel, (title, scene) in zip(axes.flat, scenes.items(), strict=False):
    image = render(nf.array(scene, device=DEVICE), 3 * SIZE)
    panel.imshow(nf.to_numpy(image), cmap="bone", vmin=0, vmax=1)
    panel.set_title(title)
    panel.set_axis_off()
axes[1, 1].semilogy(losses, color="#d55e00", linewidth=2)
axes[1, 1].set_title("loss over the steps")
axes[1, 1].grid(alpha=0.3)
plt.show()
