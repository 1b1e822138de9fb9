"""ROCm's fused Swish operator.

Each test is named for the line of the acceptance list that it holds.  What only a
device can show (streams, more than 2³¹ elements, speed) is marked ``gpu``.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from scipy.special import expit

import nbfused as nf
from nbfused import cache
from nbfused.arrays import describe
from nbfused.errors import DeviceError, KernelTypeError
from tests.plugin.nbfused_interpreter import InterpreterBackend

X = np.array([1.5409961, -0.2934289, -2.1787894, 0.56843126, -1.0845224])
Y = np.array([1.2691790, -0.1253424, -0.2215207, 0.3628872, -0.2740058])
DY = np.array([1.0474806, 0.3553640, -0.0973269, 0.7696207, 0.0478732])


def swish(x, beta=1.0):
    return x * expit(beta * x)


def slope(x):
    s = expit(x)
    return x * s + s * (1 - x * s)


def leaf(values, device, dtype="float64"):
    return nf.Variable(nf.array(values, dtype, device=device), requires_grad=True)


@pytest.mark.parametrize("op", [nf.ops.swish, nf.ops.silu])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-6), ("float64", 1e-6)])
def test_r01_swish_in_one_kernel(op, dtype, rtol, device):
    x = nf.array(X, dtype, device=device)
    with nf.trace_launches() as launches:
        found = op(x)
    assert [launch.kind for launch in launches] == ["Map"]
    assert nf.to_numpy(found).dtype == dtype
    np.testing.assert_allclose(nf.to_numpy(found), Y, rtol=rtol)


def test_r01_beta_is_a_number_or_an_array(device):
    x = nf.array(X, device=device)
    for beta in (1.7, 0.0, -2, np.float64(3.0)):
        np.testing.assert_allclose(nf.to_numpy(nf.ops.swish(x, beta=beta)),
                                   swish(X, beta), rtol=1e-14)
    betas = np.linspace(-1, 1, 3)[:, None]
    np.testing.assert_allclose(
        nf.to_numpy(nf.ops.swish(x, nf.array(betas, device=device))), swish(X, betas),
        rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_r02_derivative_in_one_kernel(dtype, device):
    x = leaf(X, device, dtype)
    y = nf.ops.swish(x)
    g = nf.full(5, 1.0, dtype, device=device)
    with nf.trace_launches() as launches:
        y.backward(g)
    assert [launch.kind for launch in launches] == ["Map"]
    np.testing.assert_allclose(nf.to_numpy(x.grad), DY, rtol=2e-6)
    if dtype == "float64":
        np.testing.assert_allclose(nf.to_numpy(x.grad), slope(X), rtol=1e-14)


def test_r02_beta_has_a_derivative(device):
    beta = leaf(1.0, device)
    nf.ops.swish(nf.array(X, device=device), beta).sum().backward()
    s = expit(X)
    np.testing.assert_allclose(nf.to_numpy(beta.grad), np.sum(X * X * s * (1 - s)),
                               rtol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 255, 256 * 256 + 1])
def test_r03_sizes(n, device):
    a = np.random.default_rng(n).normal(size=n).astype(np.float32)
    found = nf.to_numpy(nf.ops.swish(nf.array(a, device=device)))
    assert found.shape == (n,)
    np.testing.assert_allclose(found, swish(a.astype(float)), rtol=2e-6, atol=1e-7)


def skip_in_emulation(device):
    if device == "rocm" and nf.config.rocm_emulate == "1":
        pytest.skip("so many elements take minutes in emulation")


@pytest.mark.gpu
def test_r03_more_elements_than_an_int_counts(device):
    skip_in_emulation(device)
    n = 2**31 + 257
    x = nf.ops.broadcast_to(nf.array([0.5], "float16", device=device), (n,))
    y = nf.ops.swish(x)  # strided in, contiguous out
    z = nf.ops.swish(y)  # contiguous in
    once = np.float16(swish(0.5))
    twice = np.float16(swish(float(once)))
    for found, want in ((y, once), (z, twice)):
        wrong = nf.ops.sum(nf.ops.not_equal(found, float(want)))
        assert nf.to_numpy(wrong) == 0
        np.testing.assert_array_equal(nf.to_numpy(found[n - 3:]), [want] * 3)


def test_r04_float64_is_not_computed_in_float32(device):
    a = np.linspace(-30, 30, 1001)
    found = nf.to_numpy(nf.ops.swish(nf.array(a, device=device)))
    assert np.abs(found - swish(a)).max() < 1e-12


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_r04_narrow_floats_are_computed_in_float32(dtype, device):
    """Rounded once: equal to the rounded exact result, but for ties."""
    a = np.linspace(-12, 12, 2001).astype(dtype)
    found = nf.to_numpy(nf.ops.swish(nf.array(a, device=device)))
    assert found.dtype == dtype
    want = swish(a.astype(float)).astype(dtype)
    steps = np.abs(found.view(np.int16).astype(int) - want.view(np.int16).astype(int))
    assert steps.max() <= 1
    assert np.mean(steps > 0) < 0.01


class Elsewhere(InterpreterBackend):
    """A backend whose device is not the host."""

    name = "elsewhere"

    def owns(self, device):
        return device == "elsewhere:0"


def test_r06_host_array_to_another_device_is_refused():
    with nf.use_backend(Elsewhere()), pytest.raises(DeviceError,
                                                    match="'x' is on cpu"):
        nf.ops.swish(X)


@pytest.mark.gpu
def test_r06_host_array_to_a_device_backend_is_refused(device):
    with nf.use_backend(device), pytest.raises(DeviceError, match="'x' is on cpu"):
        nf.ops.swish(X)


@pytest.mark.gpu
def test_r06_host_and_device_arrays_do_not_mix(device):
    x = nf.array(X, device=device)
    with pytest.raises(KernelTypeError, match="'beta' is of numpy"):
        nf.ops.swish(x, X)


def test_r06_strided_arrays_are_taken(device):
    a = np.random.default_rng(0).normal(size=(6, 8))
    x = nf.array(a, device=device)
    for view in (lambda v: v.T, lambda v: v[::-1, ::2], lambda v: v[:, 3],
                 lambda v: v[1:, 1:]):
        with nf.trace_launches() as launches:
            found = nf.ops.swish(view(x))
        assert len(launches) == 1  # and no copy before
        np.testing.assert_allclose(nf.to_numpy(found), swish(view(a)), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32",
                                   "int64"])
def test_r07_every_dtype_has_a_kernel(dtype, device):
    found = nf.to_numpy(nf.ops.swish(nf.array([-3, -1, 0, 1, 2], dtype, device=device)))
    want = np.dtype("float64") if dtype.startswith("int") else np.dtype(dtype)
    assert found.dtype == want
    eps = float(ml_dtypes.finfo(want).eps)
    np.testing.assert_allclose(found.astype(float), swish(np.array([-3, -1, 0, 1, 2])),
                               rtol=2 * eps)


def test_r08_output_is_like_the_input(device):
    x = nf.array(np.ones((3, 4, 5)), "float32", device=device)
    y = nf.ops.swish(x)
    assert type(y) is type(x)
    a, b = describe(x), describe(y)
    assert (a.shape, a.dtype, a.device, a.strides) == (
        b.shape, b.dtype, b.device, b.strides)
    assert describe(nf.ops.swish(x.T)).strides == a.strides[::-1]


class CountedSwish(nf.Function):
    """Swish as one would write it for PyTorch."""

    backwards = 0
    needs = ()

    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return nf.ops.swish(x, beta)

    @staticmethod
    def backward(ctx, g):
        CountedSwish.backwards += 1
        CountedSwish.needs = ctx.needs_input_grad
        x, beta = ctx.saved_tensors
        s = nf.ops.sigmoid(beta * x)
        return g * (s + beta * x * s * (1.0 - s)), None


def test_r09_backward_runs_only_where_a_gradient_is_wanted(device, monkeypatch):
    monkeypatch.setattr(CountedSwish, "backwards", 0)
    one = nf.Variable(nf.array(1.0, device=device))
    plain = nf.Variable(nf.array(X, device=device))
    assert CountedSwish.apply(plain, one).grad_fn is None
    x = leaf(X, device)
    with nf.no_grad():
        assert CountedSwish.apply(x, one).grad_fn is None
    weight = leaf([1.0] * 5, device)
    (CountedSwish.apply(plain, one) * weight).sum().backward()
    assert CountedSwish.backwards == 0
    CountedSwish.apply(x, one).sum().backward()
    assert (CountedSwish.backwards, CountedSwish.needs) == (1, (True, False))
    np.testing.assert_allclose(nf.to_numpy(x.grad), slope(X), rtol=1e-14)


def test_r09_no_kernel_for_an_unwanted_gradient(device):
    """beta wants none: one launch, and it has one output."""
    x, beta = leaf(X, device), nf.array([1.0] * 5, device=device)
    y = nf.ops.swish(x, beta)
    g = nf.array([1.0] * 5, device=device)
    with nf.trace_launches() as launches:
        y.backward(g)
    assert [launch.kind for launch in launches] == ["Map"]
    assert not nf.ops.swish(nf.Variable(x.data), beta).requires_grad


def test_r10_cotangent_that_is_transposed_or_repeats_one_number(device):
    a = np.random.default_rng(1).normal(size=(3, 4))
    x = leaf(a, device)
    nf.ops.swish(x).T.sum().backward()
    np.testing.assert_allclose(nf.to_numpy(x.grad), slope(a), rtol=1e-14)


@pytest.mark.parametrize("form", [
    lambda v: v.T, lambda v: v[::-1, ::2], lambda v: v[:4, 4:]],
    ids=["transposed", "reversed", "window"])
def test_r10_cotangent_with_strides(form, device):
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(8, 8))
    g, a = form(wide), rng.normal(size=form(wide).shape)
    x = leaf(a, device)
    nf.ops.swish(x).backward(form(nf.array(wide, device=device)))
    np.testing.assert_allclose(nf.to_numpy(x.grad), g * slope(a), rtol=1e-13)


def test_r10_the_gradient_of_a_sum_is_stored_only_where_it_may_be_written_to(device):
    x = leaf(np.ones((50, 60)), device)
    x.sum().backward()
    assert describe(x.grad).strides == (60, 1)
    np.testing.assert_array_equal(nf.to_numpy(x.grad), np.ones((50, 60)))
    y = nf.ops.swish(x).sum()
    with nf.trace_launches() as launches:
        y.backward()
    assert [launch.kind for launch in launches] == ["Map", "Map"]  # the second one adds


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_r11_gradient_at_zero(dtype, device):
    x = leaf([0.0], device, dtype)
    nf.ops.swish(x).sum().backward()
    assert nf.to_numpy(x.grad).tolist() == [0.5]
    x = leaf([0.0], device, dtype)
    nf.ops.swish(x).backward()  # one element needs no cotangent
    assert nf.to_numpy(x.grad).tolist() == [0.5]


def test_r12_architecture_is_part_of_the_cache_key(monkeypatch):
    pytest.importorskip("cuda.bindings")
    from nbfused.cuda.runtime import compile as compiler

    keys = []
    monkeypatch.setattr(cache, "get", lambda key, parse: keys.append(key)
                        or b"machine code")
    kernel = compiler.Kernel("f", "def f(p): pass", ("*float32",), 32)
    for arch in ((7, 5), (8, 0), (9, 0), (9, 0)):
        assert compiler.assembly(kernel, SimpleNamespace(arch=arch)) == b"machine code"
    assert len(set(keys)) == 3
    assert keys[2] == keys[3]


def forward_and_backward(function, x, g):
    function(x).backward(g)
    x.zero_grad()


def seconds(function, x, g, rounds):
    nf.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        forward_and_backward(function, x, g)
    nf.synchronize()
    return time.perf_counter() - start


@pytest.mark.gpu
def test_r13_fused_is_faster_than_composed(device):
    """50 M float32, forward and backward: the original claims 2.11 times."""
    skip_in_emulation(device)
    n = 50_000_000
    x = leaf(np.ones(n, np.float32), device, "float32")
    g = nf.full(n, 1.0, "float32", device=device)
    functions = nf.ops.swish, lambda x: x * nf.ops.sigmoid(x)
    # In turns, and the least counts: other tests may use the GPU meanwhile.
    turns = [[seconds(f, x, g, 5) for f in functions] for _ in range(12)][2:]
    fused, composed = map(min, zip(*turns, strict=True))
    assert composed / fused >= 1.5, (composed, fused)


def test_r13_fused_launches_less_than_composed(device):
    counts = []
    for function in (nf.ops.swish, lambda x: x * nf.ops.sigmoid(x)):
        x = leaf(X, device)
        g = nf.full(5, 1.0, device=device)
        with nf.trace_launches() as launches:
            function(x).backward(g)
        counts.append(len(launches))
    assert counts[0] == 2
    assert counts[1] >= 4


class Counting(InterpreterBackend):
    """Adds up the bytes of what each launch reads and writes."""

    def __init__(self):
        self.moved = 0

    def build(self, spec, signature):
        launch = super().build(spec, signature)
        itemsize = sum(d.itemsize for d in signature.outputs) + sum(
            d.itemsize for d in signature.inputs if isinstance(d, np.dtype))

        def run(call):
            self.moved += int(np.prod(call.shape)) * itemsize
            launch(call)

        return run


def test_r14_each_element_is_read_and_written_once():
    backend = Counting()
    a = np.ones(1000, np.float32)
    with nf.use_backend(backend):
        nf.ops.swish(a)
    assert backend.moved == 2 * a.nbytes


@pytest.mark.gpu
def test_r15_runs_on_the_current_stream_of_torch(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or (device == "rocm" and not torch.version.hip):
        pytest.skip(f"this PyTorch has no {device}")
    x = torch.zeros(1 << 22, device="cuda")  # PyTorch for ROCm says so, too
    side = torch.cuda.Stream()
    y = nf.ops.swish(x)
    torch.cuda.synchronize()
    for k in range(1, 20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # what is launched next has to wait
            x.fill_(float(k))
            y = nf.ops.swish(x)
            wrong = (y - k * expit(k)).abs().max()
        assert float(wrong) < 1e-5 * k
