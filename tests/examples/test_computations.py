"""Programs that compute: their numbers are those of formulas and of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf


def test_black_scholes_greeks_are_those_of_the_formulas(run):
    normal = pytest.importorskip("scipy.stats").norm
    found = run("black_scholes", count=41)
    s, t, v = found.spot, found.years[:, None], 0.25
    k, r = 100.0, 0.03
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    d2 = d1 - v * np.sqrt(t)
    expected = {
        "price": s * normal.cdf(d1) - k * np.exp(-r * t) * normal.cdf(d2),
        "delta": normal.cdf(d1),
        "gamma": normal.pdf(d1) / (s * v * np.sqrt(t)),
        "vega": s * np.sqrt(t) * normal.pdf(d1),
        "growth with time": (s * normal.pdf(d1) * v / (2 * np.sqrt(t))
                             + r * k * np.exp(-r * t) * normal.cdf(d2))}
    assert found.greeks.keys() == expected.keys()
    for name, greek in found.greeks.items():
        np.testing.assert_allclose(greek, expected[name], rtol=1e-9, atol=1e-10,
                                   err_msg=name)
    np.testing.assert_allclose(found.volatilities, found.smile, rtol=1e-9)


def test_mandelbrot_is_that_of_complex_numbers(run):
    found = run("mandelbrot", width=120, most=60)
    steps = nf.to_numpy(found.steps)
    pixel = 3.0 / 120
    points = (-2.1 + pixel * np.arange(120)) + 1j * (
        1.0 - pixel * np.arange(80)[:, None])
    root = np.sqrt(1 - 4 * points)
    cardioid = abs(1 - root) < 1
    assert cardioid.sum() > 500
    assert (steps[cardioid | (abs(points + 1) < 0.25)] == 60).all()
    z, expected = np.zeros_like(points), np.full(points.shape, np.nan)
    for n in range(1, 15):
        z = np.where(np.isnan(expected), z * z + points, z)
        out = np.isnan(expected) & (abs(z) >= 8)
        expected[out] = n + 3 - np.log2(np.log2(abs(z[out])))
    early = ~np.isnan(expected)
    assert early.sum() > 4000
    np.testing.assert_allclose(steps[early], expected[early], rtol=1e-4)
    assert (steps[~early] > 14).all()


def test_lattice_boltzmann_keeps_mass_and_loses_speed_by_its_viscosity(run, device):
    found = run("lattice_boltzmann", size=48, steps=60, viscosity=0.02)
    kept = found.at_rest(found.SPEED * np.tanh(80 * np.where(
        found.y < 0.5, found.y - 0.25, 0.75 - found.y)),
        0.05 * found.SPEED * np.sin(2 * np.pi * (found.x + 0.25)))
    for weights in (np.ones(9), found.DX, found.DY):  # mass, momentum both ways
        np.testing.assert_allclose(np.tensordot(weights, found.fluid, 1).sum(),
                                   np.tensordot(weights, kept, 1).sum(), atol=1e-8)
    # Taylor and Green's vortices fade by exp(-2 ν k² t) and keep their shape.
    wave = 2 * np.pi / 48
    y, x = np.mgrid[:48, :48] * wave
    u, v = -0.02 * np.cos(x) * np.sin(y), 0.02 * np.sin(x) * np.cos(y)
    rest = found.at_rest(5 * u, 5 * v)
    np.testing.assert_allclose(rest.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(np.tensordot(found.DX, rest, 1), 5 * u, atol=1e-14)
    np.testing.assert_allclose(np.tensordot(found.DY, rest, 1), 5 * v, atol=1e-14)
    now = nf.array(found.at_rest(u, v), device=device)
    later = nf.zeros_like(now)
    for _ in range(200):
        found.stream_and_collide[found.grid, found.block](now, later)
        now, later = later, now
    fluid = nf.to_numpy(now)
    faded = np.exp(-2 * 0.02 * wave**2 * 200)
    flow = np.tensordot(found.DX, fluid, 1) / fluid.sum(axis=0)
    assert np.linalg.norm(flow - faded * u) < 0.01 * np.linalg.norm(u)
    assert 0.8 < faded < 0.9
