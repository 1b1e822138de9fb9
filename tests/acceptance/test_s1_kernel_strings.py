"""CuPy's ElementwiseKernel and ReductionKernel, as strings.

Each test is named for the line of the acceptance list that it holds.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.kernels import ElementwiseKernel, ReductionKernel

F32 = np.float32
DIFFERENCE = np.array([[0] * 5, [25] * 5], F32)

squared_diff = ElementwiseKernel("float32 x, float32 y", "float32 z",
                                 "z = (x - y) * (x - y)", "squared_diff")
squared_diff_generic = ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)",
                                         "squared_diff_generic")
squared_diff_super_generic = ElementwiseKernel(
    "X x, Y y", "Z z", "z = (x - y) * (x - y)", "squared_diff_super_generic")
add_reverse = ElementwiseKernel("T x, raw T y", "T z",
                                "z = x + y[_ind.size() - i - 1]", "add_reverse")
add_raw = ElementwiseKernel("raw T x, raw T y", "T z", "z = x[i] + y[i];", "add_raw")
l2norm = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")


@pytest.fixture
def x(device):
    return nf.array(np.arange(10, dtype=F32).reshape(2, 5), device=device)


@pytest.fixture
def y(device):
    return nf.array(np.arange(5, dtype=F32), device=device)


def same(found, expected):
    """Equal values and equal dtypes."""
    found = nf.to_numpy(found)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


def test_c01_a_kernel_from_four_parts(x, y):
    assert squared_diff.name == "squared_diff"
    assert "squared_diff(float32 x, float32 y) -> (float32 z)" in repr(squared_diff)
    assert (squared_diff.nin, squared_diff.nout, squared_diff.nargs) == (2, 1, 3)
    same(squared_diff(x, y), DIFFERENCE)


def test_c01_the_body_may_be_a_python_function(x, y):
    kernel = ElementwiseKernel("T x, T y", "T z", lambda x, y: (x - y) * (x - y),
                               "python")
    same(kernel(x, y), DIFFERENCE)
    text = ElementwiseKernel("T x, T y", "T z", "d = x - y\nz = d ** 2", "python",
                             language="python")
    same(text(x, y), DIFFERENCE)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32",
                                   "uint32", "int64", "uint64", "float16", "float32",
                                   "float64", "complex64", "complex128"])
def test_c02_types_are_names_of_dtypes(dtype):
    kernel = ElementwiseKernel(f"{dtype} x", f"{dtype} y", "y = x")
    assert kernel.in_params[0].dtype == np.dtype(dtype)
    assert kernel.in_params[0].name == "x"


@pytest.mark.parametrize(("text", "token"), [
    ("float31 x", "float31"), ("float x", "float"), ("TT x", "TT"), ("const T x",
     "const"), ("float32", "float32"), ("1 x", "1"), ("float32 2x", "2x")])
def test_c02_an_unknown_type_is_named(text, token):
    with pytest.raises(ValueError, match=token):
        ElementwiseKernel(text, "T y", "y = x")


def test_c03_call_broadcasts(x, y):
    same(squared_diff(x, y), DIFFERENCE)


def test_c04_call_with_a_python_scalar(x):
    same(squared_diff(x, 5), np.array([[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]], F32))


def test_c05_outputs_are_given_by_position_or_keyword(x, y, device):
    for call in (lambda z: squared_diff(x, y, z), lambda z: squared_diff(x, y, out=z)):
        z = nf.full((2, 5), -1, "float32", device=device)
        assert call(z) is z
        same(z, DIFFERENCE)


@pytest.mark.parametrize("name", ["i", "_x", "_ind"])
def test_c06_reserved_names(name):
    for params in ((f"T {name}", "T y"), ("T y", f"T {name}")):
        with pytest.raises(ValueError, match=f"can not use '{name}'"):
            ElementwiseKernel(*params, "y = 1")


def test_c06_a_parameter_may_be_named_n(x):
    kernel = ElementwiseKernel("T x, int32 n", "T y", "y = x * n + _ind.size()")
    same(kernel(x, 3), nf.to_numpy(x) * 3 + 10)
    same(ElementwiseKernel("T x", "T n", "n = x + 1")(x), nf.to_numpy(x) + 1)
    same(nf.ReductionKernel("T n", "T y", "n * n", "a + b", "y = a", "0")(x),
         (nf.to_numpy(x) ** 2).sum())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_c07_a_letter_stands_for_any_type(dtype, device):
    x = nf.array(np.arange(10, dtype=dtype).reshape(2, 5), device=device)
    y = nf.array(np.arange(5, dtype=dtype), device=device)
    same(squared_diff_generic(x, y), DIFFERENCE.astype(dtype))


def test_c08_outputs_decide_a_type_before_inputs(device):
    half = ElementwiseKernel("X x", "T y", "y = T(x) / 2", "half")
    x = nf.array(np.arange(4), "int32", device=device)
    out = nf.zeros(4, "float64", device=device)
    same(half(x, out), np.arange(4) / 2)
    with pytest.raises(TypeError, match="type T is float64 in 'z' and int32 in 'x'"):
        squared_diff_generic(x, 1, out)
    generic = ElementwiseKernel("T x", "T y, T z", "y = x / 2; z = x")
    assert [r.dtype for r in generic(5.0, *(nf.zeros(4, "float32", device=device)
                                            for _ in range(2)))] == [F32, F32]


def test_c09_one_letter_is_one_type(x, device):
    wide = nf.array(np.arange(5.0), device=device)
    with pytest.raises(TypeError, match="type T is float32 in 'x' and float64 in 'y'"):
        squared_diff_generic(x, wide)
    with pytest.raises(TypeError, match="'y' is declared float32"):
        squared_diff(x, wide)
    assert squared_diff_generic(x, 0.5).dtype == F32
    assert squared_diff_generic(x, np.float64(0.5)).dtype == F32


def test_c10_a_letter_inside_the_body(x, y, device):
    kernel = ElementwiseKernel("T x, T y", "T z", """
        T diff = x - y;
        z = diff * diff;
    """, "squared_diff_generic")
    same(kernel(x, y), DIFFERENCE)
    whole = nf.array(np.arange(5), "int8", device=device)
    same(kernel(whole, 16), np.array([0, -31, -60, -87, -112], np.int8))


def test_c11_several_letters(x, device):
    y = nf.array(np.arange(5), "int64", device=device)
    z = nf.zeros((2, 5), "float64", device=device)
    same(squared_diff_super_generic(x, y, z), DIFFERENCE.astype(float))
    with pytest.raises(TypeError, match="type Z of 'z' cannot be inferred"):
        squared_diff_super_generic(x, y)


def test_c12_raw_arguments_are_indexed_by_the_body(y, device):
    x = nf.array(np.linspace(0, 1, 5, dtype=F32), device=device)
    expected = nf.to_numpy(x) + nf.to_numpy(y)[::-1]
    same(add_reverse(x, y), expected)
    python = ElementwiseKernel("T x, raw T y", "T z",
                               lambda x, y, i, n: x + y[n - i - 1], "python")
    same(python(x, y), expected)


def test_c13_index_and_size_are_those_after_broadcasting(x, device):
    kernel = ElementwiseKernel("T x, T y", "int64 a, int64 b, int64 c",
                               "a = i; b = _ind.size(); c = n", "where")
    a, b, c = kernel(x, nf.zeros((3, 1, 1), "float32", device=device))
    same(a, np.arange(30).reshape(3, 2, 5))
    same(b, np.full((3, 2, 5), 30))
    same(c, np.full((3, 2, 5), 30))


@pytest.mark.parametrize("layout", [
    lambda a: a, lambda a: a[::2], lambda a: a[::-1], lambda a: a[:, 1:4],
    lambda a: np.asfortranarray(a), lambda a: a.T, lambda a: a[::-1, ::-2],
    lambda a: np.broadcast_to(a[:1], (3, 6)), lambda a: a[:, None, ::3]])
def test_c14_raw_arrays_of_any_layout(layout, device):
    if device != "cpu":
        pytest.skip("NumPy makes the layouts")
    a = layout(np.arange(24.0).reshape(4, 6))
    x = np.ones(a.size)
    same(add_reverse(x, a), 1 + a.ravel()[::-1])


def test_c14_raw_arrays_of_any_layout_on_a_device(device):
    a = np.arange(24.0).reshape(4, 6)
    x, flat = nf.array(np.ones(24), device=device), nf.array(a, device=device)
    same(add_reverse(x, flat), 1 + a.ravel()[::-1])
    same(add_reverse(x, nf.ops.transpose(flat)), 1 + a.T.ravel()[::-1])
    part = nf.ops.getitem(flat, (slice(None, None, -2), slice(1, 4)))
    x = nf.array(np.ones(6), device=device)
    same(add_reverse(x, part), 1 + a[::-2, 1:4].ravel()[::-1])


def test_c15_the_size_of_a_loop_without_arrays(x, y):
    same(add_raw(y, y, size=5), 2 * np.arange(5, dtype=F32))
    same(add_raw(y, y, size=2), 2 * np.arange(2, dtype=F32))
    same(add_raw(y, y, size=0), np.zeros(0, F32))
    with pytest.raises(ValueError, match=r"Loop size is undecided\."):
        add_raw(y, y)
    with pytest.raises(ValueError, match=r"^Specified 'size' can"):
        add_reverse(x, y, size=10)
    with pytest.raises(ValueError, match=r"Loop size is undecided\."):
        squared_diff(1, 2)


def test_c15_raw_outputs(y, device):
    kernel = ElementwiseKernel("raw T x, raw T y", "raw T z", "z[i] = x[i] + y[i];",
                               "store")
    same(kernel(y, y, size=5), 2 * np.arange(5, dtype=F32))
    out = nf.full(7, -1, "float32", device=device)
    assert kernel(y, y, out, size=5) is out
    same(out, np.array([0, 2, 4, 6, 8, -1, -1], F32))
    with pytest.raises(ValueError, match="size is undecided"):
        ElementwiseKernel("T x", "raw T z", "z[i] = x", "store")(y)


def test_c15_atomics_add_to_what_is_there(device):
    count = ElementwiseKernel("int32 bin", "raw int32 y", "atomicAdd(&y[bin], 1)",
                              "histogram")
    bins = np.random.default_rng(0).integers(0, 10, 5000).astype(np.int32)
    out = nf.full(10, 5, "int32", device=device)
    count(nf.array(bins, device=device), out)
    same(out, (5 + np.bincount(bins, minlength=10)).astype(np.int32))


def test_c16_block_size(x, y):
    with pytest.raises(ValueError, match="block_size"):
        squared_diff(x, y, block_size=0)
    same(squared_diff(x, y, block_size=1), DIFFERENCE)


def test_c17_textures_are_refused_with_the_way_out():
    class TextureObject:
        """What CuPy calls one."""

    kernel = ElementwiseKernel("U texObj, T x", "T y", "y = tex1D<T>(texObj, x)")
    with pytest.raises(NotImplementedError, match=r"texture.*raw"):
        kernel(TextureObject(), np.zeros(3))
    with pytest.raises(SyntaxError, match=r"texture.*raw"):
        kernel(1, np.zeros(3))


def test_c18_a_reduction_from_its_slots(x):
    norm = nf.to_numpy(l2norm(x))
    assert (norm.shape, norm.dtype) == ((), F32)
    np.testing.assert_allclose(norm, np.sqrt(285), rtol=1e-6)
    python = ReductionKernel("T x", "T y", lambda x: x * x, lambda a, b: a + b,
                             lambda a: a ** 0.5, 0, "l2norm")
    np.testing.assert_allclose(nf.to_numpy(python(x)), norm, rtol=1e-6)


def test_c19_axis(x):
    a = nf.to_numpy(x)
    np.testing.assert_allclose(nf.to_numpy(l2norm(x, axis=1)), [5.477226, 15.9687195],
                               rtol=1e-6)
    for axis in (0, 1, -1, (0, 1), (1, 0), None, ()):
        expected = np.sqrt(np.sum(a * a, axis=axis))
        found = nf.to_numpy(l2norm(x, axis=axis))
        assert (found.dtype, found.shape) == (F32, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_c20_keepdims_out_and_dtype(x, device):
    assert tuple(l2norm(x, axis=1, keepdims=True).shape) == (2, 1)
    for call in (lambda z: l2norm(x, z, axis=1), lambda z: l2norm(x, axis=1, out=z)):
        out = nf.zeros(2, "float32", device=device)
        assert call(out) is out
        np.testing.assert_allclose(nf.to_numpy(out), [5.477226, 15.9687195], rtol=1e-6)
    wide = nf.to_numpy(l2norm(x, axis=1, dtype="float64"))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, np.linalg.norm(nf.to_numpy(x).astype(float),
                                                    axis=1), rtol=1e-14)


def least(x, _J):
    return x, _J


def lesser(a, i, b, j):
    if a == b:
        return (a, i) if i < j else (b, j)
    return (a, i) if a < b else (b, j)


@pytest.mark.parametrize(("kernel", "reference"), [
    (ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0"), np.sum),
    (ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "-INFINITY"), np.max),
    (ReductionKernel("T x", "T y", "x", "a < b ? a : b", "y = a", None), np.min),
    (ReductionKernel("T x", "T y", "x", "a * b", "y = a", "1"), np.prod),
    (ReductionKernel("T x", "int64 y", least, lesser, lambda a, i: i,
                     (float("inf"), 2**62), "argmin"), np.argmin),
    (ReductionKernel("T x", "bool y", "x > 0", "a || b", "y = a", "false"),
     lambda a, axis: np.any(a > 0, axis=axis)),
], ids=["sum", "max", "min", "prod", "argmin", "any"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_c21_operands_a_and_b(kernel, reference, axis, device):
    a = np.random.default_rng(0).integers(-4, 5, (6, 7)).astype(F32)
    found = nf.to_numpy(kernel(nf.array(a, device=device), axis=axis))
    np.testing.assert_array_equal(found, reference(a, axis=axis))


def test_c21_wrong_axes(x):
    for axis in (2, -3, (0, 2)):
        with pytest.raises(np.exceptions.AxisError):
            l2norm(x, axis=axis)
    for axis in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match="axis"):
            l2norm(x, axis=axis)


def test_c22_the_type_that_is_reduced(device):
    x = nf.array(np.full(300, 100), "int8", device=device)
    wide = ReductionKernel("T x", "int64 y", "x", "a + b", "y = a", "0")
    same(wide(x), np.int64(30000))
    mean = ReductionKernel("T x", "T y", "x", "a + b", "y = a / _in_ind.size()", "0")
    same(mean(x), np.int8(100))
    narrow = ReductionKernel("T x", "int64 y", "x", "a + b", "y = a", "0",
                             reduce_type="signed char")
    same(narrow(x), np.int64(np.full(300, 100, np.int8).sum(dtype=np.int8)))
    own = ReductionKernel("T x", "int64 y", "x", "a + b", "y = a", "0", reduce_type="T")
    same(own(x), np.int64(48))
    floating = ReductionKernel("T x", "T y", "x / 3.0", "a + b", "y = a", "0",
                               reduce_type="double")
    same(floating(x), np.int8(np.int64(10000) % 256))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_c23_raw_arguments_in_reductions(axis, x, device):
    kernel = ReductionKernel("T x, raw T w", "T y", "x * w[_j % 5]", "a + b", "y = a",
                             "0", "weighted")
    w = np.array([1, 10, 100, 1000, 10000], F32)
    found = kernel(x, nf.array(w, device=device), axis=axis)
    same(found, (nf.to_numpy(x) * w).sum(axis=axis))


def test_c31_complex_dtypes(device):
    kernel = ElementwiseKernel("T x1, T x2, float32 a", "T y", "y = x1 + a * x2")
    real = np.arange(25, dtype=np.complex64).reshape(5, 5)
    x1, x2 = (nf.array(v, device=device) for v in (real, 1j * real))
    same(kernel(x1, x2, 2.0), real + 2 * (1j * real))
    parts = ElementwiseKernel("complex64 z", "float32 a, float32 b, complex64 c",
                              "a = z.real() + norm(z); b = abs(z) * z.imag(); "
                              "c = conj(z) * complex<float>(0, 1)")
    z = (real + 1j).astype(np.complex64)
    a, b, c = parts(nf.array(z, device=device))
    np.testing.assert_allclose(nf.to_numpy(a), z.real + abs(z) ** 2, rtol=1e-6)
    np.testing.assert_allclose(nf.to_numpy(b), abs(z) * z.imag, rtol=1e-6)
    np.testing.assert_allclose(nf.to_numpy(c), z.conj() * 1j, rtol=1e-6)


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_c36_every_dtype_round_trips(dtype, device):
    kernel = ElementwiseKernel("T x, T s", "T y, T z", "y = x; z = s", "identity")
    a = np.array([0, 1, 3, 100, 7]).astype(dtype)
    for s in (a[3], np.array([100]).astype(dtype)):
        y, z = kernel(nf.array(a, device=device), s)
        same(y, a)
        same(z, np.full(5, a[3]))


@pytest.mark.parametrize(("value", "dtype"), [
    (True, "bool"), (3, "int64"), (0.5, "float64"), (1 + 2j, "complex128")])
def test_c36_python_numbers_have_c_types(value, dtype, device):
    kernel = ElementwiseKernel("int8 x, S s", "S y", "y = s", "scalar")
    found = kernel(nf.array([1, 2], "int8", device=device), value)
    same(found, np.full(2, value, dtype))


@pytest.mark.parametrize("value", [-1, 2**32, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_c36_integers_wrap_around_in_their_type(value, dtype, device):
    kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y")
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    with np.errstate(all="ignore"):
        expected = a + np.array(value).astype(dtype)
    same(kernel(nf.array(a, device=device), value), expected)
