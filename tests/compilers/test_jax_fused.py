"""A fused function inside JAX's transforms: one primitive, one for its gradient."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from tests.compilers.jax_values import W, X, arrays, close

jax = pytest.importorskip("jax")
jnp = jax.numpy

ROOT = Path(nf.__file__).parent.parent


@pytest.fixture(autouse=True)
def _on_the_host_in_64_bits():
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        yield


@nf.fuse
def by_numpy(x, w):
    y = np.tanh(x*w + 1)
    return y - y.mean(axis=-1, keepdims=True), (y*y).sum()


@nf.fuse
def by_ops(x, w):
    y = ops.tanh(ops.add(ops.multiply(x, w), 1.0))
    return ops.subtract(y, ops.mean(y, axis=-1, keepdims=True)), ops.sum(y*y)


def plain(x, w):
    y = jnp.tanh(x*w + 1)
    return y - y.mean(-1, keepdims=True), (y*y).sum()


def program(function):
    def run(x, w):
        centred, total = function(jnp.sin(x), w)
        return (centred**3).sum() + total

    return run


def calls(function, *args):
    """How often a compiled program calls us."""
    text = jax.jit(function).lower(*args).as_text()
    return text.count("custom_call @nbfused")


@pytest.mark.parametrize("function", [by_numpy, by_ops], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_one_call_forward_and_one_backward(function, dtype, rtol):
    x, w = arrays(dtype)
    gradient = jax.value_and_grad(program(function), (0, 1))
    assert calls(function, x, w) == 1
    assert calls(gradient, x, w) == 2
    expected = jax.value_and_grad(program(plain), (0, 1))
    run, compiled = jax.jit(function), jax.jit(gradient)
    for k in range(4):  # the later runs are prepared
        close(run(x + k, w), plain(x + k, w), rtol)
        close(compiled(x - k, w), expected(x - k, w), rtol)
    close(gradient(x, w), expected(x, w), rtol)


def test_32_bits_mode():
    with jax.enable_x64(False):
        x, w = (jnp.asarray(a, jnp.float32) for a in (X, W))
        close(jax.jit(by_numpy)(x, w), plain(x, w), 2e-5)
        mean = nf.fuse(lambda n: (n.mean(), np.argmax(n, axis=0), n.sum()*2))
        n = jnp.arange(12).reshape(3, 4)
        assert calls(mean, n) == 1
        close(jax.jit(mean)(n), (n.mean(), n.argmax(0).astype("int32"), n.sum()*2))
        close(jax.grad(lambda x: mean(x)[0])(x), jax.grad(lambda x: x.mean())(x))


@pytest.mark.parametrize("function", [by_numpy, by_ops], ids=lambda f: f.__name__)
def test_derivatives_of_higher_order(function):
    x, w = arrays()

    def orders(f):
        f = program(f)
        bent = jax.grad(lambda x, w: (jax.grad(f)(x, w)**3).sum(), (0, 1))
        return (jax.jvp(f, (x, w), (w*x, jnp.cos(w))), jax.hessian(f)(x, w),
                jax.jacrev(jax.grad(f, 1), 1)(x, w), jax.jit(bent)(x, w),
                jax.linearize(f, x, w)[1](x, w))

    close(orders(function), orders(plain), 1e-9)


@pytest.mark.parametrize("axes", [(0, None), (1, None), (None, 0), (2, 0)])
def test_samples(axes):
    x, w = arrays()
    given = [a if axis is None else jnp.stack([a, 2*a, a - 1], axis)
             for a, axis in zip((x, w), axes, strict=True)]
    assert calls(jax.vmap(by_numpy, axes), *given) == 1
    close(jax.jit(jax.vmap(by_numpy, axes))(*given), jax.vmap(plain, axes)(*given))

    def by_sample(f):
        return jax.vmap(jax.grad(program(f), (0, 1)), axes)(*given)

    close(by_sample(by_numpy), by_sample(plain))

    def summed(f):
        return jax.grad(lambda x, w: jax.vmap(program(f), axes)(x, w).sum(), (0, 1))

    close(summed(by_numpy)(*given), summed(plain)(*given))


def test_loops():
    def steps(f):
        def run(x, w):
            def step(carry, shift):
                centred, total = f(carry + shift, w)
                return centred, total

            return jax.lax.scan(step, x, jnp.ones((5, 6, 4)))

        return run

    x, w = arrays()
    close(jax.jit(steps(by_numpy))(x, w), steps(plain)(x, w))

    def loss(f):
        return jax.grad(lambda x, w: steps(f)(x, w)[1].sum(), (0, 1))(x, w)

    close(loss(by_numpy), loss(plain))
    close(jax.checkpoint(program(by_numpy))(x, w), program(plain)(x, w))
    close(jax.lax.cond(x[0, 0] > 9, by_numpy, lambda x, w: by_numpy(x*2, w), x, w),
          plain(x*2, w))


def test_trees_and_numbers():
    @nf.fuse
    def update(state, gradients, rate, *, decay=0.0):
        new = {k: (1 - decay)*w - rate*gradients[k] for k, w in state.items()}
        return new, {"size": [ops.sum(new["a"]**2)], "none": None}

    def expected(state, gradients, rate, decay=0.0):
        new = {k: (1 - decay)*w - rate*gradients[k] for k, w in state.items()}
        return new, {"size": [jnp.sum(new["a"]**2)], "none": None}

    x, w = arrays()
    state, gradients = {"a": x, "b": w}, {"a": jnp.cos(x), "b": jnp.sin(w)}
    for rate in (0.5, 0.25):
        found = jax.jit(partial(update, rate=rate, decay=0.125))(state, gradients)
        close(found, expected(state, gradients, rate, 0.125))
    assert calls(lambda s, g: update(s, g, 0.5), state, gradients) == 1
    assert found[1]["none"] is None
    close(jax.jit(update)(state, gradients, 0.5), expected(state, gradients, 0.5))
    close(jax.grad(lambda s: update(s, gradients, 0.5)[1]["size"][0])(state),
          jax.grad(lambda s: expected(s, gradients, 0.5)[1]["size"][0])(state))


def test_nothing_keeps_what_jax_traces():
    twice = nf.fuse(lambda x: np.tanh(x)*2)
    with jax.checking_leaks():
        x, _ = arrays()
        close(jax.jit(lambda x: twice(x + 1))(x), jnp.tanh(x + 1)*2)
        close(jax.grad(lambda x: twice(x).sum())(x), 2/jnp.cosh(x)**2)


def test_arrays_of_closures():
    table, offset = np.arange(4.0), jnp.full(4, 0.25)

    @nf.fuse
    def shifted(x):
        return np.exp(x*table + offset) - x.max(axis=0)

    def expected(x):
        return jnp.exp(x*table + offset) - x.max(0)

    x, _ = arrays()
    assert calls(shifted, x) == 1
    close(jax.jit(shifted)(x), expected(x))
    close(jax.jit(jax.grad(lambda x: shifted(x).sum()))(x),
          jax.grad(lambda x: expected(x).sum())(x))

    def inside(w):  # the closure holds a value that is traced
        return nf.fuse(lambda x: np.tanh(x*w))(x).sum()

    close(jax.jit(jax.grad(inside))(offset),
          jax.grad(lambda w: jnp.tanh(x*w).sum())(offset))


def test_integers_and_booleans():
    @nf.fuse
    def counted(x, labels):
        mask = labels > 1
        return np.where(mask, x, -x).sum(), labels*2, mask

    def expected(x, labels):
        return jnp.where(labels > 1, x, -x).sum(), labels*2, labels > 1

    x, labels = jnp.asarray(W), jnp.asarray([0, 1, 2, 3], jnp.int32)
    close(jax.jit(counted)(x, labels), expected(x, labels))
    close(jax.jit(jax.grad(lambda x: counted(x, labels)[0]))(x),
          jax.grad(lambda x: expected(x, labels)[0])(x))
    close(jax.jit(jax.vmap(counted, (None, 0)))(x, jnp.stack([labels, labels[::-1]])),
          jax.vmap(expected, (None, 0))(x, jnp.stack([labels, labels[::-1]])))


@nf.fuse
def square(z):
    return np.abs(z*z + z)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.complex128])
def test_other_dtypes(dtype):
    x, _ = arrays()
    z = x + 1j*x[::-1] if dtype == jnp.complex128 else x.astype(dtype)
    found = jax.jit(square)(z)
    wanted = jnp.abs(z*z + z)
    rtol = 1e-10 if dtype == jnp.complex128 else 3*float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(found, np.float64),
                               np.asarray(wanted, np.float64), rtol=rtol, atol=rtol)
    if dtype == jnp.complex128:
        close(jax.grad(lambda z: square(z).sum())(z),
              jax.grad(lambda z: jnp.abs(z*z + z).sum())(z))


def test_a_donated_buffer():
    x, w = arrays()
    expected = plain(x, w)
    run = jax.jit(by_numpy, donate_argnums=0)
    for _ in range(4):
        close(run(jnp.array(X), w), expected)


def test_arrays_without_elements():
    x = jnp.zeros((0, 4))
    close(jax.jit(by_numpy)(x, jnp.asarray(W)), plain(x, jnp.asarray(W)))


def test_methods_and_arrays_of_objects():
    class Model:
        def __init__(self, weight):
            self.weight, self.scale = weight, 2.0

        @nf.fuse
        def __call__(self, x):
            return np.tanh(x*self.weight)*self.scale

    x, w = arrays()

    def loss(weight):
        return Model(weight)(x).sum()

    assert calls(jax.grad(loss), w) == 1
    close(jax.jit(lambda x: Model(w)(x))(x), jnp.tanh(x*w)*2)
    close(jax.grad(loss)(w), (2*x/jnp.cosh(x*w)**2).sum(0))


def test_a_rule_of_the_users_inside():
    @nf.custom_vjp
    def steep(x):
        return np.sin(x)

    steep.defvjp(lambda x: (np.sin(x), x), lambda x, g: (3*g*np.cos(x),))
    twice = nf.fuse(lambda x: steep(x)*2 + nf.stop_gradient(np.exp(x)))
    x, _ = arrays()
    close(jax.jit(twice)(x), jnp.sin(x)*2 + jnp.exp(x))
    close(jax.grad(lambda x: twice(x).sum())(x), 6*jnp.cos(x))


def test_arguments_and_views_among_the_results():
    @nf.fuse
    def several(x):
        y = np.tanh(x)
        return y, y, x, y.T, y[1:]

    x, _ = arrays()
    y = jnp.tanh(x)
    assert calls(several, x) == 1
    for _ in range(4):
        close(jax.jit(several)(x), (y, y, x, y.T, y[1:]))
    close(jax.grad(lambda x: sum((a**2).sum() for a in several(x)))(x),
          jax.grad(lambda x: sum((a**2).sum() for a in (
              jnp.tanh(x), jnp.tanh(x), x, jnp.tanh(x), jnp.tanh(x)[1:])))(x))


def test_tangents_of_integers_are_left_out():
    scaled = nf.fuse(lambda x, n: np.tanh(x)*n)
    x, n = arrays()[0], jnp.arange(4)
    none = np.zeros(4, jax.dtypes.float0)
    close(jax.jvp(scaled, (x, n), (x, none))[1], n*x/jnp.cosh(x)**2)


def test_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    x, w = arrays()
    run = jax.jit(by_numpy)

    def work(k):
        with jax.enable_x64(True):  # a setting of the thread
            return [run(x + k, w) for _ in range(10)]

    with ThreadPoolExecutor(8) as pool:
        for k, found in enumerate(pool.map(work, range(8))):
            for one in found:
                close(one, plain(x + k, w))


def test_a_compiled_program_from_another_process(tmp_path):
    text = tmp_path / "program.py"
    text.write_text(f"""\
import sys, jax, jax.numpy as jnp, numpy as np, nbfused as nf
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_compilation_cache_dir", {str(tmp_path / "jax")!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(
    lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)

@nf.fuse
def f(x, rate):
    y = np.tanh(x*rate)
    return (y - y.mean()).sum(axis=0)

x = jnp.linspace(-1, 1, 8).reshape(2, 4)
gradient = jax.jit(jax.grad(lambda x: (f(x, 0.5)**2).sum()))
y = np.tanh(np.asarray(x)*0.5)
np.testing.assert_allclose(jax.jit(lambda x: f(x, 0.5))(x), (y - y.mean()).sum(0),
                           atol=1e-6)
print(len(hits), np.asarray(gradient(x)).tobytes().hex())
""")
    counts, values = [], []
    for _ in range(2):
        done = subprocess.run([sys.executable, text], check=True, timeout=120,
                              capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})
        count, value = done.stdout.split()
        counts.append(int(count))
        values.append(value)
    assert counts[1] > counts[0]
    assert values[0] == values[1]
