"""Programs that fit: the loss falls, and the truth is found again."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf


def shifted(image, radius, mode="edge"):
    """The offsets of the pixels around each one, and the images of those pixels."""
    size = len(image)
    padded = np.pad(image, radius, mode=mode) if mode else np.pad(
        image, radius, constant_values=np.nan)
    for r in range(2 * radius + 1):
        for c in range(2 * radius + 1):
            yield (r - radius, c - radius), padded[r:r + size, c:c + size]


@pytest.mark.variants
def test_sphere_tracing_finds_the_scene(run):
    found = run("sphere_tracing", size=32, steps=100)
    assert found.losses[-1] < 1e-2 * found.losses[0]
    np.testing.assert_allclose(found.fitted, found.TRUTH, atol=0.02)


@pytest.mark.variants
def test_rasterizer_finds_the_triangles(run):
    found = run("rasterizer", size=32)
    np.testing.assert_allclose(found.fitted, found.TRUTH, atol=1e-3)


def test_box_filter_sharpens_with_either_rule(run):
    found = run("box_filter", size=32, steps=200)
    photograph = found.photograph
    means = np.nanmean([image for _, image in shifted(photograph, 1, None)], axis=0)
    np.testing.assert_allclose(found.blurred, means, rtol=1e-12)
    assert np.linalg.norm(found.sharp - photograph) < 0.5 * np.linalg.norm(
        means - photograph)
    np.testing.assert_allclose(found.other, found.sharp, atol=1e-6)


def test_deblur_finds_the_truth(run, device):
    found = run("deblur", size=32, steps=150)
    weights = {offset: (3 - abs(offset[0])) * (3 - abs(offset[1])) / 81
               for offset, _ in shifted(found.truth, 2)}
    oracle = sum(weights[offset] * image for offset, image in shifted(found.truth, 2))
    seen = nf.to_numpy(found.blurred(nf.array(found.truth, device=device)))
    np.testing.assert_allclose(seen, oracle, rtol=1e-12)
    before, after = (abs(x - found.truth).mean() for x in (oracle, found.sharp))
    assert after < before / 3
    assert 0 <= found.sharp.min() <= found.sharp.max() <= 1
    image = np.random.default_rng(0).uniform(size=(4, 4))
    nf.testing.gradcheck(found.blurred, [image],
                         place=lambda x: nf.array(x, device=device))


def test_bezier_finds_corners_and_handles(run):
    found = run("bezier", count=60, steps=150, noise=0.01)
    assert found.losses[-1] < 1.1 * 0.01**2 < found.losses[0] / 100
    np.testing.assert_allclose(found.fitted, found.HEART, atol=0.04)
    pieces = found.outline(found.HEART, np.linspace(0, 1, 5))
    np.testing.assert_array_equal(pieces[:, 0], found.HEART[::3])
    np.testing.assert_array_equal(pieces[:, -1],
                                  np.roll(found.HEART[::3], -1, axis=0))
    # de Casteljau at one half: (a + 3b + 3c + d) / 8
    np.testing.assert_allclose(
        pieces[0, 2], np.array([1, 3, 3, 1]) @ found.HEART[:4] / 8)


def test_heat_decays_as_it_has_to_and_is_found_again(run, device):
    found = run("heat", size=24, times=4, steps=300)
    # Waves that fit on a plate that lets nothing out keep their shape.
    ticks = np.pi * (np.arange(24) + 0.5) / 24
    wave = np.cos(3 * ticks)[:, None] * np.cos(2 * ticks)
    after = nf.to_numpy(found.simulate(nf.array(wave, device=device)))
    factor = 1 - 2 * 0.2 * (2 - np.cos(3 * np.pi / 24) - np.cos(2 * np.pi / 24))
    np.testing.assert_allclose(after, factor**4 * wave, rtol=1e-9, atol=1e-12)
    assert factor**4 == pytest.approx(  # of the equation without a grid
        np.exp(-0.2 * 4 * (3**2 + 2**2) * (np.pi / 24) ** 2), rel=0.02)
    measured = nf.to_numpy(found.measured)
    assert measured.sum() == pytest.approx(found.truth.sum(), rel=1e-12)
    assert found.losses[-1] < 1e-2 * found.losses[0]
    assert np.linalg.norm(found.fitted - found.truth) < 0.5 * np.linalg.norm(
        measured - found.truth)


@pytest.mark.variants
def test_robust_regression_agrees_with_scipy(run):
    optimize = pytest.importorskip("scipy.optimize")
    found = run("robust_regression", count=120, outliers=30)

    def residuals(params):
        height, pitch, phase, slope = params
        return height * np.sin(pitch * found.x + phase) + slope * found.x - found.y

    for mine, loss in ((found.by_squares, "linear"), (found.by_cauchy, "cauchy")):
        best = optimize.least_squares(residuals, found.GUESS, loss=loss, f_scale=0.1)
        np.testing.assert_allclose(mine, best.x, atol=1e-3)
    assert abs(found.by_cauchy - found.TRUTH).max() < 0.1
    assert abs(found.by_squares - found.TRUTH).max() > 0.2


def test_bilateral_filter_is_that_of_numpy(run, device):
    found = run("bilateral", size=48, steps=15)
    around = dict(shifted(found.noisy, 5))

    def filtered(near, alike):
        weights = {
            (r, c): np.exp(-0.5 * ((r * r + c * c) / near**2
                                   + ((image - found.noisy) / alike) ** 2))
            for (r, c), image in around.items()}
        return sum(weights[at] * around[at] for at in around) / sum(weights.values())

    np.testing.assert_allclose(found.smoothed, filtered(found.near, found.alike),
                               rtol=1e-10)
    noise, left = (np.linalg.norm(image - found.clean)
                   for image in (found.noisy, found.smoothed))
    assert left < 0.6 * noise
    assert found.losses[-1] < found.losses[0]
    image = nf.array(found.noisy[:6, :6].copy(), device=device)
    nf.testing.gradcheck(lambda widths: found.smooth(image, widths),
                         [np.array([1.5, 0.3])],
                         place=lambda x: nf.array(x, device=device))
