"""CuPy's RawKernel and RawModule: CUDA C++ as it stands in CuPy's documentation.

Each test is named for the line of the acceptance list that it holds.  All of them need
a GPU; up to the driver, tests/kernels/cupy/test_rawmodule.py holds the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import CompileError, DeviceError, KernelTypeError, RangeError
from nbfused.kernels.cupy.rawmodule import RawKernel, RawModule

pytestmark = pytest.mark.cuda

ADD = r"""
extern "C" __global__
void my_add(const float* x1, const float* x2, float* y) {
    int tid = blockDim.x * blockIdx.x + threadIdx.x;
    y[tid] = x1[tid] + x2[tid];
}
"""

TWO = r"""
extern "C" {
__global__ void test_sum(const float* x1, const float* x2, float* y, unsigned int N) {
    unsigned int tid = blockDim.x * blockIdx.x + threadIdx.x;
    if (tid < N) y[tid] = x1[tid] + x2[tid];
}
__global__ void test_multiply(const float* x1, const float* x2, float* y,
                              unsigned int N) {
    unsigned int tid = blockDim.x * blockIdx.x + threadIdx.x;
    if (tid < N) y[tid] = x1[tid] * x2[tid];
}
}
"""

TEMPLATE = r"""
template<typename T> __global__ void fx3(T* arr, int N) {
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid < N) arr[tid] = arr[tid] * 3;
}
__device__ int scale[2] = {10, 20};
__global__ void by_scale(int* arr) { arr[threadIdx.x] *= scale[threadIdx.x]; }
"""

SHARED = r"""
extern "C" __global__ void reverse(const float* x, float* y) {
    extern __shared__ float held[];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.fixture
def square():
    return nf.array(np.arange(25, dtype="f4").reshape(5, 5), device="cuda")


def test_c24_raw_kernel_with_grid_block_and_arguments(square):
    add = RawKernel(ADD, "my_add")
    y = nf.zeros((5, 5), "float32", device="cuda")
    add((5,), (5,), (square, square, y))
    np.testing.assert_array_equal(nf.to_numpy(y).ravel(), np.arange(0, 50, 2))


def test_c24_shared_memory_up_to_the_devices_limit():
    x = nf.array(np.arange(1024, dtype="f4"), device="cuda")
    y = nf.zeros(1024, "float32", device="cuda")
    reverse = RawKernel(SHARED, "reverse")
    for shared in (4096, 60_000):  # more than a kernel has without asking
        reverse((1,), (1024,), (x, y), shared_mem=shared)
        np.testing.assert_array_equal(nf.to_numpy(y), np.arange(1024)[::-1])
    with pytest.raises(RangeError, match="shared_mem"):
        reverse((1,), (1024,), (x, y), shared_mem=10**7)


def test_c32_attributes():
    add = RawKernel(ADD, "my_add")
    assert {"num_regs", "shared_size_bytes", "local_size_bytes", "const_size_bytes",
            "max_threads_per_block", "binary_version", "ptx_version",
            "max_dynamic_shared_size_bytes",
            "preferred_shared_memory_carveout"} <= set(add.attributes)
    assert add.num_regs > 0
    assert add.max_threads_per_block == 1024
    add.max_dynamic_shared_size_bytes = 50000
    assert add.max_dynamic_shared_size_bytes == 50000
    assert add.attributes["max_dynamic_shared_size_bytes"] == 50000
    with pytest.raises(RangeError):
        add.max_dynamic_shared_size_bytes = 10**7


def test_c33_options():
    code = 'extern "C" __global__ void f(int* x) { *x = N; }'
    x = nf.zeros(1, "int32", device="cuda")
    for n in (3, 4):
        RawKernel(code, "f", (f"-DN={n}", "-lineinfo", "--use_fast_math"))(
            (1,), (1,), (x,))
        assert nf.to_numpy(x)[0] == n


C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int",
    "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short",
    "uint32": "unsigned", "uint64": "unsigned long long", "float32": "float",
    "float64": "double", "complex64": "float2", "complex128": "double2",
}


@pytest.mark.parametrize("dtype", C_TYPES)
def test_c36_scalars_by_value(dtype):
    code = f'extern "C" __global__ void same({C_TYPES[dtype]} a, {C_TYPES[dtype]}* y)'
    same = RawKernel(code + " { *y = a; }", "same")
    y = nf.zeros(1, dtype, device="cuda")
    for value in (np.dtype(dtype).type(3), np.full(1, 1, dtype)):
        same((1,), (1,), (value, y))
        assert nf.to_numpy(y)[0] == value


@pytest.mark.parametrize(("value", "dtype"), [
    (True, "bool"), (-3, "int64"), (2.5, "float64"), (1 - 2j, "complex128"),
    (7, "int32")])
def test_c36_python_scalars(value, dtype):
    code = f'extern "C" __global__ void same({C_TYPES[dtype]} a, {C_TYPES[dtype]}* y)'
    y = nf.zeros(1, dtype, device="cuda")
    RawKernel(code + " { *y = a; }", "same")((1,), (1,), (value, y))
    assert nf.to_numpy(y)[0] == value


def test_c37_structures_by_value():
    float5x5 = np.dtype({"names": ["dummy"], "formats": [(np.float32, (5, 5))]})
    assert float5x5.itemsize == 100
    code = r"""
    struct float5x5 { float matrix[5][5]; };
    extern "C" __global__ void at(float5x5 m, float3 v, float* y) {
        y[0] = m.matrix[3][4];
        y[1] = v.x + 10*v.y + 100*v.z;
    }"""
    matrix = np.arange(25, dtype="f4").view(float5x5)
    vector = np.array([(1, 2, 3)], [("x", "f4"), ("y", "f4"), ("z", "f4")])[0]
    y = nf.zeros(2, "float32", device="cuda")
    RawKernel(code, "at")((1,), (1,), (matrix, vector, y))
    np.testing.assert_array_equal(nf.to_numpy(y), [19, 321])


def test_c38_raw_module():
    module = RawModule(code=TWO)
    x = np.arange(100, dtype="f4")
    x1, x2 = nf.array(x, device="cuda"), nf.array(x + 1, device="cuda")
    y = nf.zeros(100, "float32", device="cuda")
    for name, expected in (("test_sum", 2*x + 1), ("test_multiply", x*(x + 1))):
        module.get_function(name)((10,), (10,), (x1, x2, y, np.uint32(100)))
        np.testing.assert_array_equal(nf.to_numpy(y), expected)
    with pytest.raises(KernelTypeError, match="no kernel 'test_divide'"):
        module.get_function("test_divide").compile()


def test_c38_variables_and_compiled_files(tmp_path):
    from nbfused.backend import Native
    from nbfused.cuda.native.nvrtc import compile_native
    from nbfused.cuda.runtime.driver import device

    code = ('extern "C" { __device__ float factor[2] = {2, 3};\n'
            "__global__ void by_factor(float* x) "
            "{ x[threadIdx.x] *= factor[threadIdx.x]; } }")
    path = tmp_path / "kernels.cubin"
    path.write_bytes(compile_native(Native(code), device(0).arch).code)
    for module in (RawModule(code=code), RawModule(path=path)):
        factor = module.get_global("factor", "float32")
        np.testing.assert_array_equal(nf.to_numpy(factor), [2, 3])
        nf.ops.add(nf.array(np.float32([4, 6]), device="cuda"), 1,
                   out=nf.from_dlpack(factor))
        x = nf.full(2, 1, "float32", device="cuda")
        module.get_function("by_factor")((1,), (2,), (x,))
        np.testing.assert_array_equal(nf.to_numpy(x), [5, 7])


@pytest.mark.parametrize(("name", "dtype"), [("float", "float32"),
                                             ("double", "float64")])
def test_c39_templates(name, dtype):
    module = RawModule(code=TEMPLATE, options=("-std=c++17",), name_expressions=[
        "fx3<float>", "fx3<double>", "by_scale", "scale"])
    x = nf.array(np.arange(10, dtype=dtype), device="cuda")
    module.get_function(f"fx3<{name}>")((1,), (10,), (x, 10))
    found = nf.to_numpy(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.arange(0, 30, 3))


def test_c39_names_of_cplusplus_without_templates():
    module = RawModule(code=TEMPLATE, name_expressions=["by_scale", "scale"])
    x = nf.full(2, 1, "int32", device="cuda")
    module.get_function("by_scale")((1,), (2,), (x,))
    np.testing.assert_array_equal(nf.to_numpy(x), [10, 20])
    np.testing.assert_array_equal(
        nf.to_numpy(module.get_global("scale", "int32")), [10, 20])


def test_c35_refusals_before_the_launch(square):
    add = RawKernel(ADD, "my_add")
    y = nf.zeros((5, 5), "float32", device="cuda")
    with pytest.raises(DeviceError, match=r"args\[1\].*host"):
        add((5,), (5,), (square, np.zeros((5, 5), "f4"), y))
    with pytest.raises(KernelTypeError, match="takes 3 arguments, got 2"):
        add((5,), (5,), (square, y))
    with pytest.raises(KernelTypeError, match=r"args\[1\].*4 bytes.*8"):
        add((5,), (5,), (square, np.float32(1), y))
    with pytest.raises(RangeError, match="grid"):
        add((0,), (5,), (square, square, y))
    with pytest.raises(CompileError, match=r"kernel\.cu\(2\): error"):
        RawKernel('extern "C" __global__ void f() {\n y = 3; }', "f")((1,), (1,), ())
    np.testing.assert_array_equal(nf.to_numpy(y), 0)
