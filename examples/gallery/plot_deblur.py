"""
Deblurring, with kernels written for CuPy
=========================================

CuPy runs these kernels on a GPU.  Here they also run on the CPU, and have gradients:
the blur that a kernel string computes is undone by descending the gradient of that
string.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

SIZE = 96  # pixels on each side
STEPS = 400  # of the optimiser
WEIGHT = 2e-4  # of the edges in the loss
RADIUS = 2  # of the blur
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# This cell is a program for CuPy; only the import is another.

cp = nf  # import cupy as cp

blur = cp.ElementwiseKernel(
    'raw T image, int32 rows, int32 columns, int32 radius', 'T y',
    '''
        int row = i / columns;
        int column = i % columns;
        T total = 0;
        T weights = 0;
        for (int dy = -radius; dy <= radius; dy++) {
            for (int dx = -radius; dx <= radius; dx++) {
                int r = min(max(row + dy, 0), rows - 1);
                int c = min(max(column + dx, 0), columns - 1);
                T weight = (radius + 1 - abs(dy)) * (radius + 1 - abs(dx));
                total += weight * image[r * columns + c];
                weights += weight;
            }
        }
        y = total / weights;
    ''', 'blur')

squared_error = cp.ReductionKernel(
    'T x, T y', 'T z', '(x - y) * (x - y)', 'a + b', 'z = a', '0', 'squared_error')


@cp.fuse()
def edge(x, y):
    """The size of a step between neighbours, smooth at 0."""
    return cp.sqrt((x - y) ** 2 + 1e-4)


# %%
# What CuPy cannot do with them is a gradient.  The loss is the distance to what was
# seen, and the length of all edges.


def blurred(image):
    """The image behind a lens that is out of focus."""
    rows, columns = image.shape
    flat = blur(image, rows, columns, RADIUS, size=rows * columns)
    return nf.ops.reshape(flat, (rows, columns))


def loss(image, seen):
    """How far the image is from one that explains what was seen."""
    edges = edge(image[1:], image[:-1]).sum() + edge(image[:, 1:], image[:, :-1]).sum()
    return squared_error(blurred(image), seen) + WEIGHT * edges


# %%
# A disc and a frame on a slope, out of focus and with some noise.

y, x = np.mgrid[:SIZE, :SIZE] / (SIZE - 1) * 2 - 1
truth = 0.15 + 0.1 * x
truth[np.hypot(x + 0.25, y + 0.2) < 0.4] = 0.9
frame = np.maximum(abs(x - 0.35), abs(y - 0.4))
truth[(frame > 0.25) & (frame < 0.42)] = 0.65
noise = 0.002 * np.random.default_rng(0).standard_normal(truth.shape)
seen = nf.to_numpy(blurred(nf.array(truth, device=DEVICE))) + noise

target = nf.array(seen, device=DEVICE)
image = nf.Variable(nf.array(seen, device=DEVICE), requires_grad=True)
moments = nf.zeros_like(target), nf.zeros_like(target)
losses = []
for step in range(1, STEPS + 1):
    value = loss(image, target)
    value.backward()
    rate = 0.01 * (1 + math.cos(math.pi * step / STEPS))
    nf.ops.adam_step(image, image.grad, *moments, lr=rate, step=step)
    image.grad = None
    losses.append(float(value.to_numpy()))

sharp = nf.to_numpy(nf.ops.clip(image.data, 0.0, 1.0))
print(f"distance to the truth {np.linalg.norm(seen - truth) / SIZE:.3f} -> "
      f"{np.linalg.norm(sharp - truth) / SIZE:.3f}")

# %%
# Edges are back where they were.

figure, axes = plt.subplots(2, 2, figsize=(8, 7.4), layout="constrained")
images = {"seen": seen, "sharpened": sharp, "truth": truth}
for panel, (title, picture) in zip(axes.flat, images.items(), strict=False):
    panel.imshow(picture, cmap="bone", vmin=0, vmax=1)
    panel.set_title(title)
    panel.set_axis_off()
axes[1, 1].semilogy(losses, color="#d55e00", linewidth=2)
axes[1, 1].set_title("loss over the steps")
axes[1, 1].grid(alpha=0.3)
plt.show()
