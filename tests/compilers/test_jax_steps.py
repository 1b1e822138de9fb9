"""Fused functions inside JAX's transforms that are no single call, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError
from tests.compilers.jax_values import arrays, close

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _on_the_host_in_64_bits():
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        yield


def product(x):
    return np.matmul(x, x.T) + 1


def changed(x):
    x += 1
    return x*2


def foreign(x):
    return jnp.tanh(x) * 2


def with_number(x):
    return x*2 + 1, 3.0


def test_functions_of_jax_are_refused_by_name_outside_of_its_transforms():
    with pytest.raises(KernelTypeError, match=r"function of JAX.*nf\.callback"):
        nf.fuse(foreign)(jnp.ones(3))


@pytest.mark.parametrize(("function", "expected"), [
    (product, lambda x: x @ x.T + 1), (changed, lambda x: (x + 1)*2),
    (foreign, lambda x: jnp.tanh(x)*2), (with_number, lambda x: (x*2 + 1, 3.0))],
    ids=["products", "changes", "JAX's functions", "numbers"])
def test_what_is_no_single_call_is_traced_in_steps(function, expected):
    fused = nf.fuse(function)
    x, _ = arrays()
    assert "nbfused_fused" not in str(jax.make_jaxpr(fused)(x))
    found, wanted = jax.jit(fused)(x), expected(x)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


@nf.fuse
def changed_between(x):
    y = x*2
    y[1:] += y[:-1]
    return y @ y.T


def changed_between_by_jax(x):
    y = x*2
    y = y.at[1:].add(y[:-1])
    return y @ y.T


@pytest.mark.parametrize("transform", [
    lambda f: jax.jit(f), lambda f: jax.grad(lambda x: (f(x)**2).sum()),
    lambda f: jax.jit(jax.grad(lambda x: jnp.sin(f(x)).sum())),
    lambda f: jax.hessian(lambda x: jnp.sin(f(x)).sum()),
    lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x + 1])),
    lambda f: lambda x: jax.jvp(f, [x], [jnp.cos(x)])], ids=[
        "jit", "grad", "jit of grad", "hessian", "vmap", "jvp"])
def test_products_beside_changes_in_place_are_a_single_call(transform):
    """JAX's arrays cannot be changed in steps; the gradient computes products again."""
    x, _ = arrays()
    assert "nbfused_fused" in str(jax.make_jaxpr(changed_between)(x))
    close(transform(changed_between)(x), transform(changed_between_by_jax)(x))


def test_without_a_rule_for_samples_they_go_in_steps(monkeypatch):
    from nbfused.autograd.compilers.jax import whole_op

    def refused(*parts):
        raise TypeError("no rule")

    @nf.fuse
    def fresh(x):
        return np.tanh(x*0.75 + 1)

    monkeypatch.setattr(whole_op.Samples, "__call__", refused)
    x, _ = arrays()
    assert "nbfused_call" in str(jax.make_jaxpr(jax.vmap(fresh))(x))
    close(jax.vmap(fresh)(x), jnp.tanh(x*0.75 + 1))
    close(jax.vmap(jax.grad(lambda r: fresh(r).sum()))(x), 0.75/jnp.cosh(x*0.75 + 1)**2)


def test_without_a_gradient_of_its_own_it_is_that_of_the_steps(monkeypatch):
    from nbfused.autograd.compilers.jax import whole_op

    def refused(*parts):
        raise TypeError("no rule")

    monkeypatch.setattr(whole_op.Pull, "__call__", refused)
    monkeypatch.setattr(whole_op.Push, "__call__", refused)
    fresh = nf.fuse(lambda x: np.tanh(x*0.5).sum())
    x, _ = arrays()
    close(jax.grad(fresh)(x), 0.5/jnp.cosh(x*0.5)**2)
    close(jax.jvp(fresh, (x,), (x,))[1], (x*0.5/jnp.cosh(x*0.5)**2).sum())


SCALE = 2.0


def test_globals_are_those_of_the_trace(monkeypatch):
    @nf.fuse
    def scaled(x):
        return np.tanh(x*SCALE)

    x, _ = arrays()
    run = jax.jit(scaled)
    close(run(x), jnp.tanh(x*2))
    value, pull = jax.vjp(scaled, x)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    close(run(x), jnp.tanh(x*2))  # as JAX has it
    close(jax.jit(lambda x: scaled(x))(x), jnp.tanh(x*3))
    close(pull(value)[0], value*2/jnp.cosh(x*2)**2)


def test_a_derivative_is_not_of_another_function(monkeypatch):
    @nf.fuse
    def scaled(x):
        return np.exp(x*SCALE)

    x, _ = arrays()
    _, moved = jax.linearize(scaled, x)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    with pytest.raises(KernelTypeError, match=r"scaled reads outside has changed"):
        moved(x)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    close(moved(x), 2*x*jnp.exp(x*2))


def test_random_numbers_are_drawn_where_it_is_traced():
    noisy = nf.fuse(lambda x: np.tanh(x*np.random.default_rng(3).standard_normal(4)))
    x, _ = arrays()
    expected = jnp.tanh(x*np.random.default_rng(3).standard_normal(4))
    close(jax.jit(noisy)(x), expected)


def test_labels_out_of_range_are_refused_when_it_runs():
    loss = nf.fuse(lambda x, labels: ops.cross_entropy(np.tanh(x), labels))

    def expected(x, labels):
        return -jax.nn.log_softmax(jnp.tanh(x))[jnp.arange(6), labels].mean()

    x, labels = arrays()[0], jnp.arange(6) % 4
    run = jax.jit(loss)
    for _ in range(4):
        close(run(x, labels), expected(x, labels))
    close(jax.jit(jax.grad(loss))(x, labels), jax.grad(expected)(x, labels))
    with pytest.raises(Exception, match=r"labels.*got 6, expected values in \[0, 4\)"):
        jax.block_until_ready(run(x, labels + 6))


def test_errors_are_those_of_the_function():
    @nf.fuse
    def wrong(x, w):
        return np.tanh(x + w[:3])

    with pytest.raises(ValueError, match="broadcast"):
        jax.jit(wrong)(*arrays())
    with pytest.raises(TypeError, match="missing a required argument: 'w'"):
        jax.jit(lambda x: wrong(x))(arrays()[0])
