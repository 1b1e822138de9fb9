"""
Where the heat was: an initial state, fitted to a later one
===========================================================

A kernel of threads takes one step of the heat equation; calling it again and again is
a simulation.  The gradient goes back through all the steps, and finds the state that
they began with.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 64  # cells on each side
TIMES = 24  # steps of the simulation
STEPS = 200  # of the optimiser
RATE = 0.2  # diffusivity, in cells² a step
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# Nothing leaves the plate: beyond its edge the temperature is that of the edge.

BLOCK = (16, 8)


@nf.rawkernel(differentiable=True)
def diffuse(now, later):
    """One explicit step of the heat equation."""
    column, row = nf.grid(2)
    rows, columns = now.shape
    if row < rows and column < columns:
        left, right = max(column - 1, 0), min(column + 1, columns - 1)
        above, below = max(row - 1, 0), min(row + 1, rows - 1)
        around = (now[row, left] + now[row, right]
                  + now[above, column] + now[below, column])
        later[row, column] = now[row, column] + RATE * (
            around - 4.0 * now[row, column])


step_once = diffuse.as_op(outputs={"later": "now"}, block=BLOCK,
                          grid=tuple(-(-SIZE // threads) for threads in BLOCK))


def simulate(state):
    """The temperatures after all steps."""
    for _ in range(TIMES):
        state = step_once(state)
    return state


# %%
# A ring and three spots of heat are left alone for a while, and then measured.

y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1) * 2 - 1
ring = abs(np.hypot(x, y) - 0.68) < 0.06
spots = sum(np.hypot(x - a, y - b) < 0.13
            for a, b in ((-0.22, -0.2), (0.26, -0.12), (-0.05, 0.27)))
truth = 0.8 * ring + spots
measured = simulate(nf.array(truth, device=DEVICE))

# %%
# Temperatures are positive, so what is fitted is their root: the fit can then not
# explain the measurement by heat and cold that cancel.

root = nf.Variable(nf.array(np.full((SIZE, SIZE), 0.3), device=DEVICE),
                   requires_grad=True)
moments = nf.zeros_like(root.data), nf.zeros_like(root.data)
losses = []
for step in range(1, STEPS + 1):
    error = simulate(root * root) - measured
    loss = (error * error).mean()
    loss.backward()
    rate = 0.03 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(root, root.grad, *moments, lr=rate, step=step)
    root.grad = None
    losses.append(float(loss.to_numpy()))

fitted = root.to_numpy() ** 2
print(f"loss {losses[0]:.1e} -> {losses[-1]:.1e}; "
      f"heat at the beginning {truth.sum():.1f}, found {fitted.sum():.1f}")

# %%
# What was measured, and what it came from.

figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
states = {"measured": nf.to_numpy(measured), "fitted beginning": fitted,
          "true beginning": truth}
for panel, (title, state) in zip(axes.flat, states.items(), strict=False):
    panel.imshow(state, cmap="inferno", vmin=0, vmax=1)
    panel.set_title(title)
    panel.set_axis_off()
axes[1, 1].semilogy(losses, color="#d55e00", linewidth=2)
axes[1, 1].set_title("loss over the steps")
axes[1, 1].grid(alpha=0.3)
plt.show()
