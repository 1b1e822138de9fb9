"""
A bilateral filter, pasted from CuPy
====================================

The filter smooths an image and keeps its edges: a neighbour counts less the farther it
is, and the more its brightness differs.  The kernel is one for CuPy, as it stands.  Its
two widths are then chosen by descending the gradient of the string.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 160  # pixels on each side
STEPS = 40  # of the optimiser
RADIUS = 5  # of the neighbourhood
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# A kernel string for CuPy; here it runs on the CPU too.

cp = nf  # import cupy as cp

bilateral = cp.ElementwiseKernel(
    'raw T image, raw T widths, int32 rows, int32 columns, int32 radius', 'T y',
    '''
        int row = i / columns;
        int column = i % columns;
        T near = widths[0];
        T alike = widths[1];
        T here = image[i];
        T total = 0;
        T weights = 0;
        for (int dy = -radius; dy <= radius; dy++) {
            for (int dx = -radius; dx <= radius; dx++) {
                int r = min(max(row + dy, 0), rows - 1);
                int c = min(max(column + dx, 0), columns - 1);
                T there = image[r * columns + c];
                T step = (there - here) / alike;
                T weight = exp(-0.5 * ((dx * dx + dy * dy) / (near * near)
                                       + step * step));
                total += weight * there;
                weights += weight;
            }
        }
        y = total / weights;
    ''', 'bilateral')


def smooth(image, widths):
    """The image, smoothed where it is smooth."""
    rows, columns = image.shape
    flat = bilateral(image, widths, rows, columns, RADIUS, size=rows * columns)
    return nf.ops.reshape(flat, (rows, columns))


# %%
# A picture with edges and slopes, and the same with noise.

y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1) * 2 - 1
angle = np.arctan2(y, x)
clean = 0.25 + 0.15 * x * y
petals = np.hypot(x, y) < 0.62 + 0.22 * np.cos(5 * angle)
clean[petals] = (1.0 - 0.35 * np.hypot(x, y))[petals]
clean[np.hypot(x, y) < 0.22] = 0.3
noisy = clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)

# %%
# The logarithms of the two widths are fitted, so that the widths stay positive.

image, target = nf.array(noisy, device=DEVICE), nf.array(clean, device=DEVICE)
logs = nf.Variable(nf.array(np.log([1.0, 0.05]), device=DEVICE), requires_grad=True)
moments = nf.zeros_like(logs.data), nf.zeros_like(logs.data)
losses = []
for step in range(1, STEPS + 1):
    error = smooth(image, nf.ops.exp(logs)) - target
    loss = (error * error).mean()
    loss.backward()
    rate = 0.1 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(logs, logs.grad, *moments, lr=rate, step=step)
    logs.grad = None
    losses.append(float(loss.to_numpy()))

widths = nf.ops.exp(logs.data)
near, alike = nf.to_numpy(widths)
smoothed = nf.to_numpy(smooth(image, widths))
print(f"widths {near:.2f} pixels and {alike:.2f} of brightness; distance to the clean "
      f"image {np.linalg.norm(noisy - clean) / SIZE:.3f} -> "
      f"{np.linalg.norm(smoothed - clean) / SIZE:.3f}")

# %%
# The noise is gone, the edges are not.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
images = {"noisy": noisy, "filtered": smoothed, "clean": clean}
for panel, (title, picture) in zip(axes, images.items(), strict=True):
    panel.imshow(picture, cmap="bone", vmin=0, vmax=1)
    panel.set_title(title)
    panel.set_axis_off()
plt.show()
