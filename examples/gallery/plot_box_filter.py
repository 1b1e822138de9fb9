"""
A gradient rule of one's own, beside the generated one
======================================================

A kernel averages 3 x 3 pixels.  The backward kernel that is made from it turns the
nine loads of a thread into nine atomic additions.  A rule by hand can gather instead:
each thread collects what it is part of, and nobody adds to the same place.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 96  # pixels on each side
STEPS = 300  # of the optimiser
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# The filter, as a function of one thread.


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


# %%
# The same kernel twice: with the generated rule, and with one that gathers.

generated = nf.rawkernel(differentiable=True)(average)
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


# %%
# A photograph of rings and a bar is blurred; then Adam looks for the image whose blur
# that is, through either rule side by side.

BLOCK = (16, 8)
BLOCKS = tuple(-(-SIZE // threads) for threads in BLOCK)

ticks = np.linspace(-1, 1, SIZE)
x, y = ticks[None, :], ticks[:, None]
rings = 0.5 + 0.5 * np.cos(14 * np.hypot(x, y))
bar = (abs(x - y) < 0.12) & (x > 0)
photograph = np.where(bar, 1.0, np.where(x + y < 0.4, rings, 0.0))

blurs = [kernel.as_op(outputs={"blurred": "image"}, grid=BLOCKS, block=BLOCK)
         for kernel in (generated, gathered)]
target = blurs[0](nf.array(photograph, device=DEVICE))
images = [nf.Variable(nf.ops.add(target, 0.0), requires_grad=True) for _ in blurs]
moments = [(nf.zeros_like(target), nf.zeros_like(target)) for _ in blurs]
losses = []
for step in range(1, STEPS + 1):
    rate = 0.025 * (1 + math.cos(math.pi * step / STEPS))
    for blur, image, (m, v) in zip(blurs, images, moments, strict=True):
        error = blur(image) - target
        loss = (error * error).mean()
        loss.backward()
        nf.ops.adam_step(image, image.grad, m, v, lr=rate, step=step)
        image.grad = None
    losses.append(float(loss.to_numpy()))

blurred = nf.to_numpy(target)
sharp, other = (image.to_numpy() for image in images)
print("distance to the photograph "
      f"{np.linalg.norm(blurred - photograph) / SIZE:.3f} -> "
      f"{np.linalg.norm(sharp - photograph) / SIZE:.3f}; the two rules differ by "
      f"{abs(sharp - other).max():.0e}")

# %%
# Both rules give the same image.

figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
pictures = {"blurred": blurred, "sharpened": sharp, "photograph": photograph}
for panel, (title, picture) in zip(axes.flat, pictures.items(), strict=False):
    panel.imshow(picture, cmap="bone", vmin=0, vmax=1)
    panel.set_title(title)
    panel.set_axis_off()
axes[1, 1].semilogy(losses, color="#d55e00", linewidth=2)
axes[1, 1].set_title("loss over the steps")
axes[1, 1].grid(alpha=0.3)
plt.show()
