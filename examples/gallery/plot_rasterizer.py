"""
Triangles, fitted through a soft rasteriser
===========================================

One thread for each pixel looks at every triangle.  The backward kernel is made from
this one: each load becomes an atomic addition to the gradient of the triangles.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 96  # pixels on each side
STEPS = 300  # of the optimiser
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# A triangle is its three corners, counter-clockwise, and its brightness.  Near an edge
# it covers a pixel in part, which is what makes the picture differentiable.

SHARPNESS = 25.0  # of the edges
BLOCK = (16, 8)


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


# %%
# ``as_op`` makes an operation of the kernel: it says which arrays are results, and on
# how many threads it runs.


def paint(triangles, size=SIZE):
    """An image of ``(size, size)`` pixels, from -1 to 1 both ways."""
    blocks = tuple(-(-size // threads) for threads in BLOCK)
    operation = rasterize.as_op(outputs={"image": ((size, size), "float64")},
                                grid=blocks, block=BLOCK)
    return operation(triangles, SHARPNESS)


TRUTH = np.array([[-0.6, -0.5, 0.1, -0.6, -0.2, 0.3, 0.9],
                  [-0.1, -0.2, 0.7, 0.0, 0.1, 0.6, 0.6],
                  [-0.8, 0.2, -0.3, 0.5, -0.7, 0.8, 0.75]])
GUESS = np.array([[-0.4, -0.4, 0.0, -0.4, -0.2, 0.0, 0.5],
                  [0.0, 0.0, 0.5, 0.1, 0.2, 0.4, 0.5],
                  [-0.7, 0.4, -0.4, 0.5, -0.6, 0.7, 0.5]])

target = paint(nf.array(TRUTH, device=DEVICE))
triangles = nf.Variable(nf.array(GUESS, device=DEVICE), requires_grad=True)
moments = nf.zeros_like(triangles.data), nf.zeros_like(triangles.data)
losses = []
for step in range(1, STEPS + 1):
    error = paint(triangles) - target
    loss = (error * error).mean()
    loss.backward()
    rate = 0.015 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(triangles, triangles.grad, *moments, lr=rate, step=step)
    triangles.grad = None
    losses.append(float(loss.to_numpy()))

fitted = triangles.to_numpy()
print(f"loss {losses[0]:.1e} -> {losses[-1]:.1e}; "
      f"largest error of a number {abs(fitted - TRUTH).max():.1e}")

# %%
# Corners and shades are found again.  The corners are drawn over the pictures.

figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
scenes = {"first guess": GUESS, "fitted": fitted, "target": TRUTH}
for panel, (title, scene) in zip(axes.flat, scenes.items(), strict=False):
    image = paint(nf.array(scene, device=DEVICE), 3 * SIZE)
    panel.imshow(nf.to_numpy(image), cmap="bone", vmin=0, vmax=1,
                 extent=(-1, 1, 1, -1))
    for x, y in scene[:, :6].reshape(-1, 3, 2).transpose(0, 2, 1):
        panel.plot([*x, x[0]], [*y, y[0]], "o-", color="#e69f00", markersize=3,
                   linewidth=0.8)
    panel.set_title(title)
    panel.set_axis_off()
axes[1, 1].semilogy(losses, color="#d55e00", linewidth=2)
axes[1, 1].set_title("loss over the steps")
axes[1, 1].grid(alpha=0.3)
plt.show()
