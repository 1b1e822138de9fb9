"""
A curve through noisy points
============================

An outline of four cubic Bézier curves is fitted to points.  The pieces share their
corners, so that the gradient of a corner is the sum over both: slices and
concatenations of a `Variable` see to that.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

COUNT = 200  # points on each piece
STEPS = 400  # of the optimiser
NOISE = 0.02  # of the points
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# A point of a curve is a scalar function of ``t`` and of one coordinate of the four
# control points.


@nf.elementwise
def cubic(t, a, b, c, d):
    """The point at `t` by de Casteljau: lines between points on lines."""
    ab, bc, cd = a + t * (b - a), b + t * (c - b), c + t * (d - c)
    abc, bcd = ab + t * (bc - ab), bc + t * (cd - bc)
    return abc + t * (bcd - abc)


def outline(points, t):
    """Points on every piece, of shape (pieces, len(t), 2)."""
    ring = nf.ops.concatenate([points, points[:1]])  # ends where it began
    a, b, c, d = (nf.ops.reshape(ring[k : ring.shape[0] - 3 + k : 3], (-1, 1, 2))
                  for k in range(4))
    return cubic(nf.ops.reshape(t, (-1, 1)), a, b, c, d)


# %%
# The loss is a reduction: a scalar function of each element, and how they combine.


@nf.reduction(combine="sum")
def squared_distance(x, y):
    """The squared distance between points."""
    return (x - y) * (x - y)


# %%
# Corner, handle, handle, corner, …: the points of a heart, with noise.

HEART = np.array([
    [0.0, -0.9], [-0.5, -0.5], [-1.0, -0.1], [-0.9, 0.4],
    [-0.8, 0.9], [-0.2, 0.9], [0.0, 0.4], [0.2, 0.9],
    [0.8, 0.9], [0.9, 0.4], [1.0, -0.1], [0.5, -0.5]])

t = nf.array(np.linspace(0, 1, COUNT), device=DEVICE)
exact = nf.to_numpy(outline(nf.array(HEART, device=DEVICE), t))
samples = exact + NOISE * np.random.default_rng(0).standard_normal(exact.shape)

# %%
# The first guess is straight lines between the first points of the pieces.

corners = samples[:, 0]
sides = np.roll(corners, -1, axis=0) - corners
guess = np.stack([corners, corners + sides / 3, corners + sides * 2 / 3],
                 axis=1).reshape(-1, 2)

target = nf.array(samples, device=DEVICE)
points = nf.Variable(nf.array(guess, device=DEVICE), requires_grad=True)
moments = nf.zeros_like(points.data), nf.zeros_like(points.data)
losses = []
for step in range(1, STEPS + 1):
    loss = squared_distance(outline(points, t), target) * (1 / samples.size)
    loss.backward()
    rate = 0.025 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(points, points.grad, *moments, lr=rate, step=step)
    points.grad = None
    losses.append(float(loss.to_numpy()))

fitted = points.to_numpy()
print(f"loss {losses[0]:.1e} -> {losses[-1]:.1e}, that of the noise {NOISE**2:.1e}; "
      f"largest error of a coordinate {abs(fitted - HEART).max():.1e}")

# %%
# Corners and handles in orange.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for panel, (title, control) in zip(
        axes, {"first guess": guess, "fitted": fitted}.items(), strict=False):
    panel.plot(*samples.reshape(-1, 2).T, ".", color="#bbbbbb", markersize=2)
    for piece in outline(control, np.linspace(0, 1, 50)):
        panel.plot(*piece.T, color="#0072b2", linewidth=2.5)
    panel.plot(*np.vstack([control, control[:1]]).T, "o--", color="#d55e00",
               markersize=4, linewidth=0.7)
    panel.set_title(title)
    panel.set_aspect("equal")
    panel.set_axis_off()
axes[2].semilogy(losses, color="#d55e00", linewidth=2)
axes[2].set_title("loss over the steps")
axes[2].grid(alpha=0.3)
plt.show()
