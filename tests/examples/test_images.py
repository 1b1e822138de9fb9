"""The programs that fit images, at small size: the loss falls, the truth is found."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from examples import box_filter, rasterizer, sphere_tracing

pytest.importorskip("matplotlib", reason="the pictures of the examples")


def test_sphere_tracing_finds_the_scene(device, tmp_path):
    found = sphere_tracing.run(32, 100, device, tmp_path / "spheres.png")
    assert found.loss[-1] < 1e-2 * found.loss[0]
    np.testing.assert_allclose(found.params, sphere_tracing.TRUTH, atol=0.02)
    assert (tmp_path / "spheres.png").stat().st_size > 5000


def test_rasterizer_finds_the_triangles(device, tmp_path):
    found = rasterizer.run(32, 300, device, tmp_path / "triangles.png")
    np.testing.assert_allclose(found.params, rasterizer.TRUTH, atol=1e-3)
    assert (tmp_path / "triangles.png").stat().st_size > 5000


def test_box_filter_sharpens_with_either_rule(device, tmp_path):
    sharp = box_filter.photograph(32)
    found = box_filter.run(32, 200, device, tmp_path / "box.png")
    other = box_filter.run(32, 200, device, kernel=box_filter.gathered)
    blurred = np.sqrt(np.mean((_blur(sharp) - sharp)**2))
    assert np.sqrt(np.mean((found.params - sharp)**2)) < 0.5 * blurred
    np.testing.assert_allclose(other.params, found.params, atol=1e-6)
    assert (tmp_path / "box.png").stat().st_size > 5000


def _blur(image: np.ndarray) -> np.ndarray:
    """The means by slices of NaN-padded images."""
    padded = np.pad(image, 1, constant_values=np.nan)
    size = len(image)
    return np.nanmean([padded[r:r + size, c:c + size]
                       for r in range(3) for c in range(3)], axis=0)


def test_box_filter_is_the_mean_of_the_neighbours(device):
    image = box_filter.photograph(20)
    out = nf.zeros((20, 20), device=device)
    box_filter.box((2, 3), (16, 8), (nf.array(image, device=device), out))
    np.testing.assert_allclose(nf.to_numpy(out), _blur(image), rtol=1e-12)


@pytest.mark.parametrize("program", [box_filter, rasterizer, sphere_tracing],
                         ids=lambda p: p.__name__)
def test_runs_from_the_command_line(program, tmp_path, capsys):
    picture = tmp_path / "out" / "picture.png"
    program.main(["--size", "16", "--steps", "3", "--picture", str(picture)])
    assert "loss" in capsys.readouterr().out
    assert picture.exists()
