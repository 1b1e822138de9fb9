"""
The Mandelbrot set, one thread for each pixel
=============================================

A kernel of threads is an ordinary function: every thread runs it for its own place in
the grid.  The loop ends after as many steps as its own pixel takes.
"""

# %%
# `nf.grid(2)` is the place of a thread in the grid, ``x`` first.  Threads beyond the
# picture's edge have nothing to do.

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

WIDTH = 900  # pixels
MOST = 200  # steps for a pixel
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm


@nf.rawkernel
def mandelbrot(steps, left, top, pixel):
    """Count the steps until a point escapes."""
    i, j = nf.grid(2)
    if i < steps.shape[1] and j < steps.shape[0]:
        a = left + i * pixel
        b = top - j * pixel
        x = 0.0
        y = 0.0
        n = 0
        while n < MOST and x * x + y * y < 64.0:
            x, y = x * x - y * y + a, 2.0 * x * y + b
            n += 1
        smooth = float(n)
        if n < MOST:
            smooth = n + 3.0 - np.log2(0.5 * np.log2(x * x + y * y))
        steps[j, i] = smooth


# %%
# A launch names the blocks of the grid and the threads of a block, as in CUDA.

height = WIDTH * 2 // 3
steps = nf.zeros((height, WIDTH), dtype="float32", device=DEVICE)
block = (16, 16)
grid = (-(-WIDTH // block[0]), -(-height // block[1]))
mandelbrot[grid, block](steps, -2.1, 1.0, 3.0 / WIDTH)

# %%
# The result is an array of NumPy on the CPU; elsewhere ``nf.to_numpy`` copies it.

figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
axes.imshow(np.log1p(nf.to_numpy(steps)), cmap="twilight_shifted")
axes.set_axis_off()
plt.show()
