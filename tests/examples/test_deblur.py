"""The image comes out sharp, through the gradient of a kernel string."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from examples import deblur


def oracle(image):
    """The blur by sums of shifted images."""
    size, radius = image.shape[0], deblur.RADIUS
    padded = np.pad(image, radius, mode="edge")
    weights = radius + 1 - abs(np.arange(-radius, radius + 1))
    grid = np.outer(weights, weights) / weights.sum() ** 2
    return sum(grid[r, c] * padded[r:r + size, c:c + size]
               for r in range(len(weights)) for c in range(len(weights)))


def test_the_kernel_string_blurs(device):
    image = np.random.default_rng(0).uniform(size=(9, 9))
    found = nf.to_numpy(deblur.blurred(nf.array(image, device=device)))
    np.testing.assert_allclose(found, oracle(image), rtol=1e-12)


def test_and_has_a_gradient(device):
    image = np.random.default_rng(0).uniform(size=(4, 4))
    nf.testing.gradcheck(deblur.blurred, [image],
                         place=lambda x: nf.array(x, device=device))


def test_the_image_is_sharpened(device, tmp_path):
    picture = None
    if device == "cpu":
        pytest.importorskip("matplotlib")
        picture = tmp_path / "deblur.png"
    found = deblur.run(size=32, steps=150, device=device, picture=picture)
    assert found.loss[-1] < found.loss[0] / 5
    truth = deblur.scene(32)
    before, after = (np.abs(x - truth).mean() for x in (oracle(truth), found.params))
    assert after < before / 3
    assert found.params.min() >= 0
    assert found.params.max() <= 1
    if picture is not None:
        assert picture.read_bytes().startswith(b"\x89PNG")
