"""CuPy's `jit.rawkernel`: kernels of threads, written in Python.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, RangeError, ScalarSyntaxError


def fresh(pyfunc):
    """The same function as a kernel that has compiled nothing yet."""
    return nf.rawkernel(pyfunc)


def elementwise_copy(x, y, size):
    tid = nf.blockIdx.x * nf.blockDim.x + nf.threadIdx.x
    ntid = nf.gridDim.x * nf.blockDim.x
    for i in range(tid, size, ntid):
        y[i] = x[i]


def data(size, device, dtype="float32"):
    rng = np.random.default_rng(size)
    x = rng.normal(size=size).astype(dtype)
    return x, nf.array(x, device=device), nf.zeros(size, dtype, device=device)


def test_c25_elementwise_copy(device):
    size = 2**22
    host, x, y = data(size, device)
    fresh(elementwise_copy)((128,), (1024,), (x, y, np.uint32(size)))
    np.testing.assert_array_equal(nf.to_numpy(y), host)


def test_c26_two_ways_to_launch(device):
    kernel, size = fresh(elementwise_copy), 2**18
    host, x, y = data(size, device)
    kernel((128,), (1024,), (x, y, np.uint32(size)))
    z = nf.zeros(size, "float32", device=device)
    kernel[128, 1024](x, z, np.uint32(size))
    np.testing.assert_array_equal(nf.to_numpy(y), host)
    np.testing.assert_array_equal(nf.to_numpy(z), host)


@pytest.mark.parametrize("size", [1, 31, 1000, 4096, 4097])
def test_c27_grid_stride_loop(size, device):
    """No multiple of grid times block, and with nf.grid and nf.gridsize."""

    @nf.rawkernel
    def copy(x, y):
        for i in range(nf.grid(1), x.shape[0], nf.gridsize(1)):
            y[i] = x[i]

    for kernel, more in ((copy, ()), (fresh(elementwise_copy), (size,))):
        host, x, y = data(size, device)
        kernel((3,), (96,), (x, y, *more))
        np.testing.assert_array_equal(nf.to_numpy(y), host)


def test_c28_compiled_once_for_each_combination_of_types(device):
    kernel = fresh(elementwise_copy)
    assert kernel.cached_signatures == ()
    for _ in range(2):
        kernel((4,), (64,), (*data(100, device)[1:], 100))
    assert kernel.cached_signatures == (("float32[1]", "float32[1]", "int"),)
    kernel((4,), (64,), (*data(100, device, "float64")[1:], 100))
    assert len(kernel.cached_signatures) == 2


def test_c32_attributes(device):
    kernel = fresh(elementwise_copy)
    assert kernel.attributes == {}
    kernel((4,), (64,), (*data(100, device)[1:], 100))
    (found,) = kernel.attributes.values()
    assert {"num_regs", "shared_size_bytes", "local_size_bytes", "const_size_bytes",
            "max_threads_per_block"} <= found.keys()
    assert all(isinstance(v, int) for v in found.values())
    assert found["max_threads_per_block"] >= 64
    kernel.launch_config.max_dynamic_shared_size_bytes = 50000
    assert kernel.launch_config.max_dynamic_shared_size_bytes == 50000
    (found,) = kernel.attributes.values()
    assert found["max_dynamic_shared_size_bytes"] == 50000
    for wrong in (-1, "many", True):
        with pytest.raises(RangeError, match="max_dynamic_shared_size_bytes"):
            kernel.launch_config.max_dynamic_shared_size_bytes = wrong


def test_c34_a_kernel_returns_nothing(device):
    @nf.rawkernel
    def returns(x):
        return x[0]

    with pytest.raises(ScalarSyntaxError, match="store it into an array"):
        returns((1,), (1,), (nf.zeros(1, device=device),))


def test_c35_arguments_are_validated(device):
    @nf.rawkernel
    def scale(x: nf.View[np.float32, 1], y: nf.View[np.float32], n: int):
        i = nf.grid(1)
        if i < n:
            y[i] = 2 * x[i]

    good = nf.zeros(4, "float32", device=device)
    wrong = nf.zeros(4, "int32", device=device)
    deep = nf.zeros((2, 2), "float32", device=device)
    scale((1,), (4,), (good, good, 4))
    cases = [((good, wrong, 4), "scale: 'y' must be an array of float32, got int32"),
             ((deep, good, 4), "scale: 'x' must have 1 dimensions, got 2"),
             ((good, 3.0, 4), "scale: 'y' must be an array"),
             ((good, good, good), "scale: 'n' must be a number"),
             ((good, good), "missing a required argument: 'n'"),
             ((good, good, 4, 5), "too many positional")]
    for args, message in cases:
        with pytest.raises(KernelTypeError, match=message):
            scale((1,), (4,), args)


def test_c35_validation_can_be_skipped(device):
    @nf.rawkernel
    def double(x: nf.View[np.float32]):
        i = nf.grid(1)
        x[i] = 2 * x[i]

    x = nf.array(np.arange(4.0), device=device)
    double((1,), (4,), (x,), check=False)
    np.testing.assert_array_equal(nf.to_numpy(x), [0, 2, 4, 6])
    double[1, 4](x, check=False)
    double(x=x).launch(grid=1, block=4, check=False)
    np.testing.assert_array_equal(nf.to_numpy(x), [0, 8, 16, 24])


def test_c37_structured_scalars(device):
    """A 5×5 array of float32 by value, 100 bytes; and a float3."""
    float5x5 = np.dtype([("e", np.float32, (5, 5))])
    float3 = np.dtype([(n, np.float32) for n in "xyz"])
    assert float5x5.itemsize == 100

    @nf.rawkernel
    def read(m, v, out):
        i = nf.grid(1)
        if i < out.shape[0]:
            out[i] = m.e[3, 4] + v.y * i

    m, v = np.zeros((), float5x5), np.zeros((), float3)
    m["e"] = np.arange(25).reshape(5, 5)
    v["y"] = 0.5
    out = nf.zeros(3, "float32", device=device)
    read((1,), (32,), (m[()], v[()], out))
    np.testing.assert_array_equal(nf.to_numpy(out), [19, 19.5, 20])
