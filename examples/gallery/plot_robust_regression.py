"""
A regression that outliers do not bend
======================================

The loss of a residual is a scalar function; as the map of a reduction it is one kernel,
and its gradient another.  Changing the loss is changing one line.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

COUNT = 240  # points
OUTLIERS = 60  # of them
STEPS = 400  # of the optimiser
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# The curve, and two losses of its residuals.  Cauchy's grows as a logarithm, so that a
# point far away hardly pulls.


@nf.func
def curve(x, height, pitch, phase, slope):
    """A wave on a line."""
    return height * math.sin(pitch * x + phase) + slope * x


@nf.reduction(combine="sum")
def squares(x, y, height, pitch, phase, slope):
    """The sum of squared residuals."""
    residual = y - curve(x, height, pitch, phase, slope)
    return residual * residual


@nf.reduction(combine="sum")
def cauchy(x, y, height, pitch, phase, slope):
    """Cauchy's loss, for residuals of about 0.1."""
    residual = (y - curve(x, height, pitch, phase, slope)) / 0.1
    return math.log1p(residual * residual)


# %%
# A quarter of the points is somewhere else.

TRUTH = np.array([1.0, 2.0, 0.5, 0.4])

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3, 3, COUNT))
y = TRUTH[0] * np.sin(TRUTH[1] * x + TRUTH[2]) + TRUTH[3] * x
y += 0.1 * rng.standard_normal(COUNT)
wrong = rng.choice(COUNT, OUTLIERS, replace=False)
y[wrong] = rng.uniform(1.5, 4.5, OUTLIERS)

# %%
# Both fits begin at the same guess and take their steps side by side.

GUESS = np.array([0.6, 1.8, 0.2, 0.0])
points = nf.array(x, device=DEVICE), nf.array(y, device=DEVICE)
fits = [nf.Variable(nf.array(GUESS, device=DEVICE), requires_grad=True)
        for _ in range(2)]
moments = [(nf.zeros_like(params.data), nf.zeros_like(params.data)) for params in fits]
for step in range(1, STEPS + 1):
    rate = 0.025 * (1 + math.cos(math.pi * step / STEPS))
    for loss, params, (m, v) in zip((squares, cauchy), fits, moments, strict=True):
        loss(*points, *(params[k] for k in range(4))).backward()
        nf.ops.adam_step(params, params.grad, m, v, lr=rate, step=step)
        params.grad = None

by_squares, by_cauchy = (params.to_numpy() for params in fits)
print(f"largest error of a parameter: {abs(by_squares - TRUTH).max():.3f} by squares, "
      f"{abs(by_cauchy - TRUTH).max():.3f} by Cauchy's loss")

# %%
# The dashed line is where the points come from.

figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
axes.plot(x, y, "o", color="#999999", markersize=3.5)
ticks = np.linspace(-3, 3, 400)


def draw(params, **style):
    """Draw a curve."""
    height, pitch, phase, slope = params
    axes.plot(ticks, height * np.sin(pitch * ticks + phase) + slope * ticks, **style)


draw(by_squares, color="#d55e00", linewidth=2.5, label="least squares")
draw(by_cauchy, color="#0072b2", linewidth=2.5, label="Cauchy's loss")
draw(TRUTH, color="black", linewidth=1, linestyle="--", label="truth")
axes.legend(frameon=False, loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
