"""Optimiser steps against the formulas of their papers, in NumPy."""

import numpy as np
import pytest

import nbfused as nf

pytestmark = pytest.mark.interpreted


def adam(p, grads, lr, beta1, beta2, eps, decay):
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * abs(g) ** 2
        step = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
        p = p - lr * (step + decay * p)
    return p


@pytest.mark.parametrize(("dtype", "tolerance"),
                         [("float32", 1e-5), ("float64", 1e-12)])
def test_adam_follows_its_paper(dtype, tolerance, device):
    rng = np.random.default_rng(0)
    start, grads = rng.normal(size=(5, 7)), rng.normal(size=(4, 5, 7))
    p, m, v = (nf.array(a.astype(dtype), device=device)
               for a in (start, 0 * start, 0 * start))
    for t, g in enumerate(grads, 1):
        nf.ops.adam_step(p, nf.array(g.astype(dtype), device=device), m, v, lr=0.1,
                         beta1=0.8, beta2=0.95, eps=1e-7, step=t, weight_decay=0.01)
    expected = adam(start, grads, 0.1, 0.8, 0.95, 1e-7, 0.01)
    np.testing.assert_allclose(nf.to_numpy(p), expected, atol=tolerance, rtol=tolerance)


def test_a_step_is_one_launch_and_new_numbers_do_not_compile(device):
    p, m, v, g = (nf.array(np.ones(9, np.float32), device=device) for _ in range(4))
    nf.ops.adam_step(p, g, m, v, lr=0.1, step=1)
    before = nf.cache.stats()
    with nf.trace_launches() as launches:
        nf.ops.adam_step(p, g, m, v, lr=0.05, beta1=0.5, step=2)
    assert len(launches) == 1
    assert nf.cache.stats().compilations == before.compilations


def test_sgd_with_momentum(device):
    p, v = np.array([1.0, 2.0]), np.zeros(2)
    q, w = (nf.array(a.copy(), device=device) for a in (p, v))
    for g in (np.array([1.0, -1.0]), np.array([0.5, 0.25])):
        v = 0.9 * v + (g + 0.1 * p)
        p = p - 0.01 * v
        nf.ops.sgd_step(q, nf.array(g, device=device), w, lr=0.01, momentum=0.9,
                        weight_decay=0.1)
    np.testing.assert_allclose(nf.to_numpy(q), p, rtol=1e-14)
    np.testing.assert_allclose(nf.to_numpy(w), v, rtol=1e-14)


def test_a_step_on_variables_is_not_recorded():
    p = nf.Variable(np.ones(3), requires_grad=True)
    nf.ops.sum(nf.ops.square(p)).backward()
    nf.ops.sgd_step(p, p.grad, lr=0.5)
    assert p.is_leaf
    np.testing.assert_allclose(p.data, 0.0)


def test_squares_of_integer_gradients_do_not_wrap_around():
    p, m, v = np.ones(2), np.zeros(2), np.zeros(2)
    nf.ops.adam_step(p, np.array([100, -100], np.int8), m, v, lr=0.1, step=1)
    np.testing.assert_allclose(v, 10.0)
    np.testing.assert_allclose(p, [0.9, 1.1])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_second_moments_of_complex_numbers_are_those_of_their_sizes(dtype, device):
    rng = np.random.default_rng(1)
    start, *grads = rng.normal(size=(4, 6)) + 1j * rng.normal(size=(4, 6))
    p, m, v = (nf.array(a, device=device)
               for a in (start, 0 * start, np.zeros(6, dtype)))
    for t, g in enumerate(grads, 1):
        nf.ops.adam_step(p, nf.array(g, device=device), m, v, lr=0.1, step=t)
    np.testing.assert_allclose(
        nf.to_numpy(p), adam(start, grads, 0.1, 0.9, 0.999, 1e-8, 0.0), rtol=1e-12)


@pytest.mark.parametrize("fused", [False, True])
def test_the_norm_of_complex_gradients_is_that_of_their_sizes(fused):
    real, number = np.array([1.0, 2.0]), np.array([2.0 - 4.0j])

    def clip(*grads):
        return nf.ops.clip_by_global_norm(grads, 1.0)

    assert (nf.fuse(clip) if fused else clip)(real, number) == 5.0
    np.testing.assert_allclose([*real, *number], [0.2, 0.4, 0.4 - 0.8j], rtol=1e-6)


def test_complex_parameters_descend_against_the_conjugate():
    p, goal = np.array([1 + 2j, 3.0]), np.array([1 - 1j, 0.5j])
    for _ in range(60):
        grad = nf.grad(lambda z: np.sum(abs(z - goal) ** 2))(p)
        nf.ops.sgd_step(p, grad.conj(), lr=0.2)
    np.testing.assert_allclose(p, goal, atol=1e-9)
