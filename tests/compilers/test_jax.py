"""Operations inside JAX's transforms, against JAX's own functions."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError
from tests.refusal import refused

jax = pytest.importorskip("jax")
jnp = jax.numpy

ROOT = Path(nf.__file__).parent.parent
X = np.linspace(-2.0, 2.0, 24).reshape(6, 4)
LABELS = np.arange(6) % 4


@nf.elementwise
def damped(x, y):
    if x > y:
        return x * math.exp(-y)
    return math.sin(x)


@nf.reduction(combine="sum", post=math.sqrt)
def norm(x):
    return x * x


@nf.fuse
def fused(x, y):
    return (ops.tanh(x * y + x) * 2.0).sum(-1)


@nf.fuse
def tanh_twice(x):
    return np.tanh(x) * 2


def layer_norm(x, scale, shift):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


#: By name: a function of an array, and the same of JAX.
CASES = {
    "swish": (ops.swish, jax.nn.silu),
    "number": (lambda x: ops.swish(x, 2.0), lambda x: x * jax.nn.sigmoid(2 * x)),
    "mine": (lambda x: damped(x, x * x),
             lambda x: jnp.where(x > x * x, x * jnp.exp(-x * x), jnp.sin(x))),
    "reduction": (lambda x: norm(x, axis=0), lambda x: jnp.sqrt((x * x).sum(0))),
    "maximum": (lambda x: ops.max(x, axis=1), lambda x: x.max(1)),
    "softmax": (ops.softmax, jax.nn.softmax),
    "layer_norm": (lambda x: ops.layer_norm(x, x[0], x[1]),
                   lambda x: layer_norm(x, x[0], x[1])),
    "product": (lambda x: ops.matmul(x, x.T, bias=x[:, 0], epilogue="tanh"),
                lambda x: jnp.tanh(x @ x.T + x[:, 0])),
    "labels": (lambda x: ops.cross_entropy(x, jnp.asarray(LABELS), reduction="none"),
               lambda x: -jax.nn.log_softmax(x)[jnp.arange(6), LABELS]),
    "take": (lambda x: ops.take(x, jnp.asarray([0, 2]), axis=0),
             lambda x: x[jnp.asarray([0, 2])]),
    "views": (lambda x: ops.transpose(ops.reshape(x, (-1, 2)))[:, 1:],
              lambda x: x.reshape(-1, 2).T[:, 1:]),
    "backwards": (lambda x: ops.getitem(x, (slice(None, None, -2),)),
                  lambda x: x[::-2]),
    "concatenate": (lambda x: ops.concatenate((x, x * 2), axis=0),
                    lambda x: jnp.concatenate([x, x * 2])),
    "fused": (lambda x: fused(x, x),
              lambda x: (jnp.tanh(x * x + x) * 2).sum(-1)),
    "alias": (lambda x: ops.abs(x - 0.1), lambda x: jnp.abs(x - 0.1)),
    "like": (lambda x: ops.add(x, ops.ones_like(x)), lambda x: x + 1),
    "broadcast": (lambda x: ops.multiply(x, x[0]), lambda x: x * x[0]),
}


@pytest.fixture(autouse=True)
def _on_the_host_in_64_bits():
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        yield


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    ours, theirs = CASES[name]
    x = jnp.asarray(X)

    def loss(f):
        return lambda x: (f(x) ** 2).sum()

    close(jax.jit(ours)(x), theirs(x))
    close(jax.grad(loss(ours))(x), jax.grad(loss(theirs))(x))
    close(jax.jit(jax.grad(loss(ours)))(x), jax.grad(loss(theirs))(x))
    direction = jnp.cos(x)
    for got, want in zip(jax.jvp(ours, (x,), (direction,)),
                         jax.jvp(theirs, (x,), (direction,)), strict=True):
        close(got, want)


@pytest.mark.parametrize("name", ["swish", "mine", "softmax", "product", "reduction"])
def test_second_derivatives(name):
    ours, theirs = CASES[name]
    x = jnp.asarray(X)

    def curvature(f):
        return jax.grad(lambda x: (jax.grad(lambda t: (f(t) ** 2).sum())(x) ** 3).sum())

    close(jax.jit(curvature(ours))(x), curvature(theirs)(x))
    close(jax.jacfwd(jax.grad(lambda x: (ours(x) ** 2).sum()))(x),
          jax.jacfwd(jax.grad(lambda x: (theirs(x) ** 2).sum()))(x))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["swish", "softmax", "reduction"])
def test_samples(name, axis):
    ours, theirs = CASES[name]
    x = jnp.asarray(np.stack([X, 2 * X, X - 1], axis))
    close(jax.jit(jax.vmap(ours, axis))(x), jax.vmap(theirs, axis)(x))
    close(jax.vmap(jax.grad(lambda x: ours(x).sum()), axis)(x),
          jax.vmap(jax.grad(lambda x: theirs(x).sum()), axis)(x))


def test_scans():
    def steps(f):
        def run(x):
            return jax.lax.scan(lambda c, t: (f(c) + t, c), x, jnp.ones((5, 6, 4)))[0]
        return run

    x = jnp.asarray(X)
    close(steps(ops.swish)(x), steps(jax.nn.silu)(x))
    close(jax.grad(lambda x: steps(ops.swish)(x).sum())(x),
          jax.grad(lambda x: steps(jax.nn.silu)(x).sum())(x))


def test_numbers_that_are_traced():
    found = jax.jit(jax.grad(lambda x, beta: ops.swish(x, beta).sum(), 1))(
        jnp.asarray(X), 2.0)
    close(found, jax.grad(lambda x, beta: (x * jax.nn.sigmoid(beta * x)).sum(), 1)(
        jnp.asarray(X), 2.0))


@pytest.mark.parametrize(("ours", "theirs"), [
    (ops.swish, jax.nn.silu), (ops.exp, jnp.exp),
    (lambda x: ops.multiply(x, jnp.asarray(2.0)), lambda x: x * 2.0),
    (tanh_twice, lambda x: jnp.tanh(x) * 2)],
    ids=["swish", "exp", "product", "fused"])
def test_derivatives_at_numbers_of_python(ours, theirs):
    close(jax.grad(ours)(1.5), jax.grad(theirs)(1.5))
    close(jax.grad(jax.grad(ours))(1.5), jax.grad(jax.grad(theirs))(1.5))
    for a, b in zip(jax.jvp(ours, (1.5,), (2.0,)), jax.jvp(theirs, (1.5,), (2.0,)),
                    strict=True):
        close(a, b)


def test_complex_gradients_are_jaxs():
    z = jnp.asarray(X + 1j * X[::-1])
    close(jax.grad(lambda z: jnp.abs(ops.multiply(z, z)).sum())(z),
          jax.grad(lambda z: jnp.abs(z * z).sum())(z))


def test_a_call_is_one_foreign_call_of_xla():
    text = jax.jit(ops.layer_norm).lower(
        jnp.asarray(X), jnp.ones(4), jnp.ones(4)).as_text()
    assert text.count("stablehlo.custom_call @nbfused") == 1
    assert text.count("stablehlo.add") == 0
    assert "nbfused_call[bound=swish(beta=1.0)]" in str(
        jax.make_jaxpr(ops.swish)(jnp.ones(3)))


def test_many_threads():
    run = jax.jit(lambda x: ops.softmax(ops.swish(x)))
    x = jnp.asarray(X)
    expected = run(x)
    found = [None] * 8

    def work(k):
        with jax.enable_x64(True):  # a setting of the thread
            for _ in range(20):
                found[k] = run(x + k * 0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    for y in found:
        close(y, expected)


def test_32_bits_mode():
    with jax.enable_x64(False):
        x = jnp.asarray(X, jnp.float32)
        assert jax.jit(ops.swish)(x).dtype == jnp.float32
        assert jax.jit(lambda x: ops.argmax(x, axis=0))(x).dtype == jnp.int32
        assert jax.jit(ops.mean)(jnp.arange(5)).dtype == jnp.float32
        with pytest.raises(KernelTypeError, match=r"float64, of which JAX.*astype"):
            jax.jit(lambda x: ops.add(x, np.ones(4)))(x)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: ops.exp(x, out=x), "out: exp is traced by JAX"),
    (lambda x: nf.Variable(x), "is a JAX tracer"),
    (lambda x: ops.softmax(x, axis=5), "axis 5 is out of bounds"),
    (lambda x: ops.matmul(x, x), "expected equal extents"),
])
def test_refusals_say_why(function, message):
    with pytest.raises(Exception, match=message):
        jax.jit(function)(jnp.asarray(X))


def test_tensors_beside_traced_values():
    torch = pytest.importorskip("torch")
    with pytest.raises(KernelTypeError, match="beside a value that JAX traces"):
        jax.jit(lambda x: ops.add(x, torch.ones(4)))(jnp.asarray(X))


def test_what_a_kernel_raises_is_an_error_of_xla(monkeypatch):
    from nbfused.autograd.compilers.jax import kernels

    def broken(*args, **options):
        raise ValueError("no kernel today")

    run = jax.jit(lambda x: ops.swish(x, 3.25))
    monkeypatch.setattr(kernels, "run", broken)
    with pytest.raises(Exception, match="ValueError: no kernel today"):
        run(jnp.asarray(X)).block_until_ready()


def test_without_a_door_for_foreign_functions(monkeypatch):
    from nbfused.errors import NbFusedPerformanceWarning

    monkeypatch.delattr(jax, "ffi")
    x = jnp.asarray(X)
    with pytest.warns(NbFusedPerformanceWarning, match=r"jax\.pure_callback"):
        found = jax.jit(lambda x: ops.swish(x))(x)
    close(found, jax.nn.silu(x))
    close(jax.grad(lambda x: ops.softmax(x - 1)[0, 0])(x),  # without a second warning
          jax.grad(lambda x: jax.nn.softmax(x - 1)[0, 0])(x))
    for _ in range(4):
        close(jax.jit(lambda x: fused(x, x - 2))(x),
              (jnp.tanh(x * (x - 2) + x) * 2).sum(-1))


def test_a_compiled_program_from_another_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"""\
import jax, jax.numpy as jnp, numpy as np, nbfused as nf
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_compilation_cache_dir", {str(tmp_path / "jax")!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
x = jnp.linspace(-1, 1, 8)
assert np.allclose(jax.jit(nf.ops.swish)(x), jax.nn.silu(x), atol=1e-6)
""")
    for _ in range(2):
        subprocess.run([sys.executable, program], check=True, timeout=120,
                       env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_parts_of_a_sharded_array(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import jax, jax.numpy as jnp, numpy as np, nbfused as nf
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices("cpu")), ("i",))
assert mesh.size == 4
x = jnp.linspace(-2, 2, 64).reshape(8, 8)
parts = jax.device_put(x, NamedSharding(mesh, P("i")))
fused = nf.fuse(lambda v: v * (1 / (1 + np.exp(-v))))
run = jax.shard_map(lambda v: nf.ops.softmax(fused(v)), mesh=mesh,
                    in_specs=P("i"), out_specs=P("i"), check_vma=False)
plain = lambda v: jax.nn.softmax(jax.nn.silu(v))
y = jax.jit(run)(parts)
assert y.sharding.spec == P("i")
np.testing.assert_allclose(y, plain(x), atol=1e-6)
np.testing.assert_allclose(jax.jit(jax.grad(lambda v: (run(v) ** 2).sum()))(parts),
                           jax.grad(lambda v: (plain(v) ** 2).sum())(x), atol=1e-6)
np.testing.assert_allclose(
    jax.jit(lambda v: nf.ops.softmax(nf.ops.swish(v)))(parts), plain(x), atol=1e-6)
""")
    _run_on_four_devices(program)


def test_the_interpreter_ends_after_calls_that_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import itertools, time
import jax, jax.numpy as jnp, numpy as np, nbfused as nf
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from nbfused.autograd.compilers.jax import kernels

mesh = Mesh(np.array(jax.devices("cpu")), ("i",))
parts = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("i")))
count, run = itertools.count(), kernels._run_placed

def run_slowly(*call):
    time.sleep(next(count) % mesh.size / 4)
    run(*call)
    print("done", flush=True)

kernels._run_placed = run_slowly
# Each device computes the whole; one of them is waited for.
np.asarray(jax.jit(lambda v: nf.ops.softmax(nf.ops.swish(v)))(parts))
""")
    assert _run_on_four_devices(program).split() == ["done"] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_waits_for_no_call_of_its_parent(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""\
import os, sys
import jax, jax.numpy as jnp, nbfused as nf
from nbfused.autograd.compilers.jax import ffi
jax.jit(nf.ops.swish)(jnp.ones(3)).block_until_ready()
ffi._RUNNING.append(None)  # as if a thread were in it
child = os.fork()
if not child:
    ffi._finish(os.getppid())
    os._exit(0)  # JAX's own tidying up is a segmentation fault in a fork
else:
    ffi._RUNNING.pop()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert _run_on_four_devices(program).split() == ["0"]


def _run_on_four_devices(program):
    return subprocess.run([sys.executable, program], check=True, timeout=120, text=True,
                          stdout=subprocess.PIPE, env={
        **os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}).stdout


def test_a_seed_may_be_traced():
    x = jnp.ones((3, 4), jnp.float32)
    seeds = jnp.arange(3, dtype=jnp.uint32)
    masks = [ops.dropout(np.ones(4, "f4"), 0.5, k) for k in range(3)]
    run = jax.jit(jax.vmap(jax.grad(lambda x, s: ops.dropout(x, 0.5, s).sum())))
    np.testing.assert_array_equal(run(x, seeds), masks)
    with refused(KernelTypeError, "dropout: 'seed'", "shape (3,)", "random.bits"):
        jax.jit(lambda s: ops.dropout(x, 0.5, s))(seeds)


@pytest.mark.parametrize(("total", "own", "shape"), [
    (lambda x: ops.sum(ops.swish(x)), lambda x: jax.nn.silu(x).sum(), ()),
    (lambda x: ops.sum(ops.mean(ops.swish(x), axis=1)),
     lambda x: jax.nn.silu(x).mean(1).sum(), (6, 1))])
def test_the_cotangent_of_a_sum_is_not_stored_for_each_element(total, own, shape):
    x = jnp.asarray(X, jnp.float32)
    calls = [e for e in jax.make_jaxpr(jax.grad(total))(x).eqns
             if "swish_vjp" in str(e.params)]
    assert [v.aval.shape for v in calls[0].invars] == [(6, 4), shape]
    for f, g in ((total, own), (jax.grad(total), jax.grad(own))):
        np.testing.assert_allclose(jax.jit(f)(x), jax.jit(g)(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.hessian(total))(x), jax.hessian(own)(x),
                               rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(total))(x[None]),
                               jax.grad(own)(x)[None], rtol=1e-5, atol=1e-6)
