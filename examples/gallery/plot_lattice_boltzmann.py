"""
Vortices, by the lattice Boltzmann method
=========================================

A fluid as particles on a lattice: in each step they move to the neighbouring cells and
collide.  Both happen in one kernel of threads, where a thread keeps the nine
populations of its cell in registers.
"""

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 192  # cells on each side
STEPS = 2600  # of the simulation
VISCOSITY = 0.0015  # in cells² a step
SPEED = 0.1  # of the streams, in cells a step
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# The nine velocities of a cell and their weights.  A thread reads the populations that
# flow to its cell, each from the cell where it comes from, and relaxes them towards the
# equilibrium of their density and velocity.

DX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
DY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
RELAXATION = 1 / (3 * VISCOSITY + 0.5)


@nf.func
def equilibrium(k, density, u, v):
    """How many particles of a cell move along direction `k`, at rest with itself."""
    along = 3.0 * (DX[k] * u + DY[k] * v)
    return WEIGHTS[k] * density * (
        1.0 + along + 0.5 * along * along - 1.5 * (u * u + v * v))


@nf.rawkernel
def stream_and_collide(now, later):
    """One step of a fluid on a torus; arrays of (direction, row, column)."""
    column, row = nf.grid(2)
    rows, columns = now.shape[1], now.shape[2]
    if row >= rows or column >= columns:
        return
    cell = nf.local(9)
    density = u = v = 0.0
    for k in nf.unroll(range(9)):
        r = row - DY[k]
        c = column - DX[k]
        r += rows if r < 0 else (-rows if r == rows else 0)
        c += columns if c < 0 else (-columns if c == columns else 0)
        cell[k] = now[k, r, c]
        density += cell[k]
        u += DX[k] * cell[k]
        v += DY[k] * cell[k]
    u /= density
    v /= density
    for k in nf.unroll(range(9)):
        rest = equilibrium(k, density, u, v)
        later[k, row, column] = cell[k] + RELAXATION * (rest - cell[k])


# %%
# Two streams pass one another.  A ripple across them is enough: the layers between them
# roll up into vortices.


def at_rest(u, v):
    """Populations of a fluid of density 1 that flows with these velocities."""
    return np.stack([w * (1 + 3 * (a * u + b * v) + 4.5 * (a * u + b * v) ** 2
                          - 1.5 * (u * u + v * v))
                     for a, b, w in zip(DX, DY, WEIGHTS, strict=True)])


y, x = (np.mgrid[:SIZE, :SIZE] + 0.5) / SIZE
u = SPEED * np.tanh(80 * np.where(y < 0.5, y - 0.25, 0.75 - y))
v = 0.05 * SPEED * np.sin(2 * np.pi * (x + 0.25))

now = nf.array(at_rest(u, v), device=DEVICE)
later = nf.zeros_like(now)
block = (32, 8)
grid = (-(-SIZE // block[0]), -(-SIZE // block[1]))
before = nf.to_numpy(now).sum()
for _ in range(STEPS):
    stream_and_collide[grid, block](now, later)
    now, later = later, now

# %%
# The populations are an array of NumPy, and so is what follows from them.

fluid = nf.to_numpy(now)
density = fluid.sum(axis=0)
u = np.tensordot(DX, fluid, axes=1) / density
v = np.tensordot(DY, fluid, axes=1) / density
curl = (np.roll(v, -1, 1) - np.roll(v, 1, 1)) - (np.roll(u, -1, 0) - np.roll(u, 1, 0))
print(f"{STEPS} steps; mass changed by {abs(fluid.sum() / before - 1):.0e} of itself")

figure, axes = plt.subplots(figsize=(7, 7), layout="constrained")
most = np.quantile(abs(curl), 0.995)
axes.imshow(curl, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="bilinear")
axes.set_axis_off()
plt.show()
