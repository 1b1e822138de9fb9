"""What only a device can show: alignment, streams, contexts, sizes, determinism."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.arrays import DeviceArray
from nbfused.cuda import CudaBackend
from nbfused.errors import AllocationError, DeviceError
from nbfused.support.dtypes import BFLOAT16

pytestmark = pytest.mark.cuda

DEVICE = "cuda:0"
RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def put(x):
    return nf.array(x, device=DEVICE)


def close(found, expected, tolerance=2e-5):
    found = nf.to_numpy(found).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance*max(1, np.abs(expected).max(initial=0)))


def swish(x):
    x = x.astype(np.float64)
    return x/(1 + np.exp(-x))


@pytest.fixture
def second():
    """The name of another device than the first."""
    from nbfused.cuda.runtime.driver import device_count

    if device_count() < 2:
        pytest.skip("one GPU")
    return "cuda:1"


# --- our own arrays


def test_device_arrays_there_and_back():
    backend = CudaBackend()
    for dtype in (np.float32, BFLOAT16, np.bool_, np.complex64, np.int8):
        x = normal(5, 7, dtype=np.float32).astype(dtype)
        y = backend.from_host(x, DEVICE)
        assert isinstance(y, DeviceArray)
        np.testing.assert_array_equal(backend.to_host(y), x)
        np.testing.assert_array_equal(backend.to_host(y.T), x.T)
        np.testing.assert_array_equal(backend.to_host(y[::-2, 1::3]), x[::-2, 1::3])
    nothing = backend.empty((0, 3), np.dtype("f4"), DEVICE)
    assert backend.to_host(nothing).shape == (0, 3)


def test_ops_on_device_arrays():
    backend = CudaBackend()
    x = normal(64, 128)
    y = ops.swish(backend.from_host(x, DEVICE))
    assert isinstance(y, DeviceArray)
    close(y, swish(x))
    close(ops.softmax(backend.from_host(x, DEVICE)).to_numpy().sum(1), np.ones(64))


def test_memory_comes_back():
    backend = CudaBackend()
    from nbfused.cuda.runtime.driver import check, cu, device

    def held():  # by our pool; what is free, other processes change
        backend.synchronize()
        which = cu().CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        with device(0).current():
            device(0).trim()
            return int(check(cu().cuMemPoolGetAttribute(device(0)._pool, which)))

    backend.empty((1,), np.dtype("f4"), DEVICE)
    before = held()
    for _ in range(64):
        backend.empty((1 << 28,), np.dtype("f4"), DEVICE)  # 64 GiB in all
    assert held() - before < 1 << 28


def test_out_of_memory_is_named():
    with pytest.raises(AllocationError, match=r"cuda:0 has no room for 4,398"):
        CudaBackend().empty((1 << 40,), np.dtype("f4"), DEVICE)
    x = normal(3)
    close(ops.swish(put(x)), swish(x))  # and life goes on


def test_a_device_that_does_not_exist():
    with pytest.raises(DeviceError, match="cuda:77 does not exist"):
        CudaBackend().empty((1,), np.dtype("f4"), "cuda:77")


def test_an_interface_of_another_device(second):
    class Foreign:
        def __init__(self, array):
            self.array = array

        @property
        def __cuda_array_interface__(self):
            return self.array.__cuda_array_interface__

    x = normal(1000)
    for device in (DEVICE, second):
        y = ops.swish(Foreign(nf.array(x, device=device)))
        assert y.device == device
        close(y, swish(x))


# --- map


@pytest.mark.parametrize("size", [1, 3, 4, 5, 255, 256, 1023, 1024, 1025, 100_003])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_swish_at_every_alignment(size, start):
    x = normal(size + start)
    close(ops.swish(put(x)[start:]), swish(x[start:]))


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_16_bit_floats(dtype):
    x = normal(1001, dtype=dtype)
    close(ops.swish(put(x)), swish(x), 1e-2)


def test_views():
    x = normal(40, 48, 36)
    y = put(x)
    for key in (np.s_[::2], np.s_[:, ::-1], np.s_[..., 1:], np.s_[3], np.s_[:, 5, ::3]):
        close(ops.swish(y[key]), swish(x[key]))
    close(ops.add(y.T, y[0, 0, 0].reshape(1)), x.T + x[0, 0, 0])
    close(ops.multiply(y, y[:, :, :1]), x.astype("f8")*x[:, :, :1])


def test_in_place():
    x = normal(1000)
    y = put(x)
    ops.swish(y, out=y)
    close(y, swish(x))


def test_more_than_2_to_the_31_elements():
    size = 2**31 + 77
    x = nf.zeros((size,), np.uint8, device=DEVICE)
    y = ops.equal(x, 0)
    assert nf.to_numpy(y[-100:]).all()
    total = ops.sum(y, dtype=np.int64)
    assert int(nf.to_numpy(total)) == size


def test_scatter_adds_are_not_lost():
    labels = put(np.zeros(10_000, np.int64))
    for dtype, most in ((np.float32, 10_000), (np.float64, 10_000)):
        table = nf.Variable(put(np.ones((2, 3), dtype)), requires_grad=True)
        ops.sum(ops.take(table, labels, axis=0)).backward()
        np.testing.assert_array_equal(nf.to_numpy(table.grad), [[most]*3, [0]*3])


# --- reductions

SHAPES = [(1, 1 << 22), (1 << 20, 3), (3, 1 << 20), (4096, 1000), (1000, 4097),
          (257, 33), (1 << 17, 1), (8192, 64)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums(shape, axis):
    x = normal(*shape)
    y = put(x)
    expected = x.sum(axis, dtype=np.float64)
    close(ops.sum(y, axis=axis), expected, 1e-4)
    close(ops.max(y, axis=axis), x.max(axis), 0)
    np.testing.assert_array_equal(nf.to_numpy(ops.argmax(y, axis=axis)), x.argmax(axis))
    close(ops.var(y, axis=axis), x.var(axis, dtype=np.float64), 1e-4)


def test_reducing_views_and_several_axes():
    x = normal(17, 33, 29)
    y = put(x)
    for axis in ((0, 2), (1,), (0, 1), (1, 2)):
        close(ops.sum(y, axis=axis), x.sum(axis, dtype="f8"), 1e-4)
        part = x[::-1, ::2].sum(axis, dtype="f8")
        close(ops.sum(y[::-1, ::2], axis=axis), part, 1e-4)
    close(ops.sum(y[:, :0], axis=1), np.zeros((17, 29)))


def test_the_same_bits_every_time():
    y = put(normal(1 << 22))
    w = nf.Variable(put(normal(1024)), requires_grad=True)
    rows = put(normal(4096, 1024))
    sums, gradients = set(), set()
    for _ in range(5):
        sums.add(nf.to_numpy(ops.sum(y)).tobytes())
        w.grad = None
        ops.rms_norm(rows, w).backward(rows)
        gradients.add(nf.to_numpy(w.grad).tobytes())
    assert len(sums) == len(gradients) == 1


# --- rows


@pytest.mark.parametrize("columns", [1, 7, 8, 33, 128, 1000, 1024, 4096, 4099, 40_000,
                                     131_072])
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_softmax(columns, dtype):
    x = normal(19, columns, dtype=dtype)
    e = x.astype(np.float64)
    e = np.exp(e - e.max(1, keepdims=True))
    close(ops.softmax(put(x)), e/e.sum(1, keepdims=True),
          1e-5 if dtype == np.float32 else 1e-2)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (1000, 64), (600, 1024),
                                               (5000, 512), (300, 4096), (7, 70_000)])
def test_layer_norm_both_ways(rows, columns):
    x, w, b, g = (normal(*s) for s in ((rows, columns), (columns,), (columns,),
                                       (rows, columns)))
    v = [nf.Variable(put(a), requires_grad=True) for a in (x, w, b)]
    y = ops.layer_norm(*v)
    y.backward(put(g))
    X, G = x.astype("f8"), g.astype("f8")
    r = 1/np.sqrt(X.var(1, keepdims=True) + 1e-5)
    h = (X - X.mean(1, keepdims=True))*r
    close(y.data, h*w + b, 1e-4)
    wg = G*w
    dx = r*(wg - wg.mean(1, keepdims=True) - h*(wg*h).mean(1, keepdims=True))
    for found, expected in zip(v, (dx, (G*h).sum(0), G.sum(0)), strict=True):
        close(found.grad, expected, 2e-4)


# --- products


@pytest.mark.parametrize(("m", "k", "n"), [
    (1, 1, 1), (3, 0, 5), (64, 64, 64), (65, 17, 63), (200, 300, 129), (1, 4096, 1000),
    (2050, 33, 2049)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, BFLOAT16])
def test_matmul(m, k, n, dtype):
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = a.astype("f8") @ b.astype("f8")
    tolerance = {"float32": 1e-5, "float64": 1e-12}.get(np.dtype(dtype).name, 1e-2)
    close(ops.matmul(put(a), put(b)), expected, tolerance)
    close(ops.matmul(put(b).T, put(a).T), expected.T, tolerance)


def test_batched_matmul_with_everything():
    a, b = normal(4, 3, 50, 20), normal(3, 20, 40)
    bias, extra = normal(40), normal(4, 3, 50, 40)

    def epilogue(acc, e):
        return max(acc + e, 0.0)

    found = ops.batched_matmul(put(a), put(b), bias=put(bias), epilogue=epilogue,
                               extras=(put(extra),), permute=(1, 3, 0, 2))
    expected = np.maximum(a.astype("f8") @ b + bias + extra, 0).transpose(1, 3, 0, 2)
    close(found, expected, 1e-5)


# --- the process


def test_threads_launch_at_once():
    x = normal(64, 1000)
    expected, errors = swish(x), []

    def work():
        try:
            for k in range(20):
                close(ops.swish(put(x[k:])), expected[k:])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_on_the_current_stream_of_cupy():
    cupy = pytest.importorskip("cupy")
    x = cupy.ones(1 << 24, cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(20):
            x = ops.multiply(ops.add(x, 1.0), 0.5)
        total = ops.sum(x)
    stream.synchronize()
    assert float(total) == 1 << 24


def test_a_thread_without_a_context_keeps_the_first_device_current(second):
    """Another device's would be current for PyTorch and CuPy, too."""
    from nbfused.cuda.runtime.driver import entries

    x, found = normal(1000), []

    def work():
        for _ in range(3):
            close(ops.swish(CudaBackend().from_host(x, second)), swish(x))
        found.append(entries().context())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]


def test_results_of_cupy_are_made_where_their_inputs_are(second):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(1):
        x = cupy.ones(1 << 20, cupy.float32)
    pool = cupy.get_default_memory_pool()  # the first device's: that is current
    before = pool.total_bytes()
    for _ in range(3):
        assert ops.swish(x).device.id == 1
    assert pool.total_bytes() == before


def test_a_forked_child_is_told():
    code = """
import os, sys, numpy as np
import nbfused as nf
x = nf.array(np.ones(1000, np.float32), device="cuda")
nf.ops.swish(x)
if not os.fork():
    for call in (lambda: nf.ops.swish(x), lambda: nf.to_numpy(x)):
        try:
            call()
        except RuntimeError as error:
            print("forked after CUDA had started" in str(error))
    del x, call
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], text=True,
                          capture_output=True, check=True)
    assert (said.stdout.split(), said.stderr) == (["True", "True"], "")


def test_a_warm_process_imports_no_numba(tmp_path):
    code = """
import sys, numpy as np
import nbfused as nf
from nbfused.cuda import CudaBackend
x = CudaBackend().from_host(np.ones((64, 100), np.float32), "cuda:0")
for y in (nf.ops.swish(x), nf.ops.softmax(x), nf.ops.sum(x), nf.ops.matmul(x.T, x)):
    y.to_numpy()
heavy = {"numba", "llvmlite", "cuda.core", "scipy"} & {*sys.modules}
print(nf.cache.stats().compilations, "numba" in heavy, *sorted(heavy))
"""
    said = [subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=True,
        env={**os.environ, "NBFUSED_CACHE_DIR": str(tmp_path)}).stdout.split()
        for _ in range(2)]
    assert said[0][1] == "True"
    assert int(said[0][0]) >= 4
    assert said[1] == ["0", "False"], "imported, though nothing was compiled"
