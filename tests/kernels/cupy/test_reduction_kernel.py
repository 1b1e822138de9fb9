"""ReductionKernel beyond what the acceptance list asks for."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, KernelTypeError, NbFusedWarning, ShapeError
from nbfused.kernels import ReductionKernel
from nbfused.kernels.cupy.combining import c_combining

pytestmark = pytest.mark.interpreted

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 4


def same(found, expected):
    found = nf.to_numpy(found)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.fixture
def x(device):
    return nf.array(X, device=device)


@pytest.mark.parametrize(("text", "name"), [
    ("a + b", "sum"), ("b + a", "sum"), ("(a) + b", "sum"), ("a * b", "prod"),
    ("max(a, b)", "max"), ("fmaxf(a, b)", "max"), ("a > b ? a : b", "max"),
    ("(a < b) ? a : b", "min"), ("fmin(b, a)", "min"), ("a - b", "kernel"),
    ("a + b + 1", "kernel"), ("hypot(a, b)", "kernel")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_known_ways_to_combine(text, name, dtype):
    if text.startswith(("f", "h")) and dtype.startswith("int"):
        name = "kernel"  # by way of floating numbers
    start = {"sum": 0, "prod": 1}.get(name)
    found = c_combining(text, "kernel", np.dtype(dtype), True, start, (), "")
    assert found.combine.name == name


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64",
                                   "complex64"])
def test_sums_of_every_kind(dtype, device):
    a = np.arange(-3, 9).astype(dtype).reshape(3, 4)
    kernel = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0")
    same(kernel(nf.array(a, device=device), axis=0), a.sum(axis=0, dtype=dtype))


def test_maximum_passes_over_nan_as_in_c(device):
    kernel = ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "-INFINITY")
    x = nf.array([1.0, np.nan, 3.0], device=device)
    same(kernel(x), np.float64(3))
    same(kernel(nf.array([np.nan], device=device)), np.float64(-np.inf))


def test_an_identity_takes_part(x):
    kernel = ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "2.5f")
    same(kernel(x, axis=1), np.array([2.5, 3, 7], np.float32))
    none = ReductionKernel("T x", "T y", "x", "a < b ? a : b", "y = a", "100")
    same(none(nf.ops.getitem(x, slice(0, 0)), axis=0), np.full(4, 100, np.float32))


@pytest.mark.compiled
def test_other_ways_to_combine(x, device):
    both = ReductionKernel("T x", "T y", "x / 10", "a + b + a * b", "y = a", "0")
    same(both(x, axis=0), np.prod(1 + X / 10, axis=0) - 1)
    last = ReductionKernel("int32 x", "int32 y", "x", "a ^ b", "y = a", "0")
    whole = nf.ops.astype(x, "int32")
    same(last(whole, axis=1), np.bitwise_xor.reduce(X.astype(np.int32), axis=1))
    gcd = ReductionKernel(
        "int32 x", "int32 y", "x", "gcd(a, b)", "y = a", "0", preamble="""
        __device__ int gcd(int a, int b) {
            while (b != 0) { int c = a % b; a = b; b = c; }
            return a < 0 ? -a : a;
        }""")
    sixes = 6 * X[2].astype(np.int32)
    found = nf.to_numpy(gcd(nf.array(sixes, device=device)))
    assert found == np.gcd.reduce(sixes)


def test_without_identity(x):
    kernel = ReductionKernel("T x", "T y", "x", "hypot(a, b)", "y = a", None)
    same(kernel(x, axis=1), np.sqrt((X ** 2).sum(axis=1)))
    empty = nf.ops.getitem(x, slice(0, 0))
    for identity in (None, ""):
        kernel = ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", identity, "k")
        with pytest.raises(ValueError, match=r"k: zero-size array .* no identity"):
            kernel(empty, axis=0)
        assert tuple(kernel(empty, axis=1).shape) == (0,)


def test_numbers_and_sizes_in_the_post_map(x):
    norm = ReductionKernel("T x, float32 p", "T y", "pow(fabs(x), p)", "a + b",
                           "y = pow(a, 1 / p)", "0", "norm")
    same(norm(x, 3, axis=1), (np.abs(X) ** 3).sum(axis=1) ** np.float32(1 / 3))
    mean = ReductionKernel("T x", "T y, int64 count", "x", "a + b",
                           "count = _in_ind.size() / _out_ind.size(); y = a / count",
                           "0")
    found, count = mean(x, axis=0)
    same(found, X.mean(axis=0))
    same(count, np.full(4, 3))


def test_positions(x):
    index = ReductionKernel("T x", "int64 y", "_J * (x > 0)", "a + b", "y = a", "0")
    same(index(x, axis=1), ((X > 0) * np.arange(4)).sum(axis=1))


def test_several_inputs_broadcast(x, device):
    dot = ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
    w = np.array([1, 10, 100, 1000], np.float32)
    same(dot(x, nf.array(w, device=device), axis=1), X @ w)
    same(dot(x, 2), 2 * X.sum())


def mean_and_count(x):
    return x, 1.0


def pooled(a, n, b, m):
    return (a * n + b * m) / (n + m), n + m


def test_a_state_of_several_parts(x):
    kernel = ReductionKernel("T x", "T y", mean_and_count, pooled, lambda a, n: a, None)
    same(kernel(x, axis=0), X.mean(axis=0))


def test_map_and_post_may_be_of_different_languages(x):
    kernel = ReductionKernel("T x", "T y", lambda x: x * x, "a + b", "y = sqrt(a)", "0")
    same(kernel(x), np.sqrt((X ** 2).sum()))


def test_all_axes_of_no_axis(device):
    kernel = ReductionKernel("T x", "T y", "x * 2", "a + b", "y = a", "0")
    same(kernel(nf.array(np.float64(3), device=device)), np.float64(6))
    same(kernel(nf.array(X, device=device), axis=()), 2 * X)


@pytest.mark.parametrize(("definition", "options", "message"), [
    (("T a", "T y", "a", "a + b", "y = a", "0"), {}, "'a' has the name of an operand"),
    (("T x", "raw T y", "x", "a + b", "y = a", "0"), {}, "'y' must not be raw"),
    (("", "T y", "1", "a + b", "y = a", "0"), {}, "needs an input and an output"),
    (("T x", "T y", "x", "a + b", "y = a", "0", "a b"), {}, "invalid kernel name"),
    (("T x", "T y", 1, "a + b", "y = a", "0"), {}, "'map_expr' must be"),
])
def test_bad_definitions(definition, options, message):
    with pytest.raises(DefinitionError, match=message):
        ReductionKernel(*definition, **options)


@pytest.mark.parametrize("definition", [
    ("x; x * 2", "a + b", "0"), ("x", "a + b; a", "0"), ("x", "a + b", "0; 5")])
def test_statements_after_an_expression(x, definition):
    in_map, combine, start = definition
    with pytest.raises(SyntaxError, match="one expression stands here"):
        ReductionKernel("T x", "T y", in_map, combine, "y = a", start)(x)


def test_bad_definitions_at_the_call(x):
    for definition, message in (
            (("T x", "T y", "x", "a + b", "y = a", "rand()"), "is not known"),
            (("T x", "T y", "x", "a + c", "y = a", "0"), "'c' is not declared"),
            (("T x", "T y", "x", "a + b", "z = a", "0"), "'z' is not declared")):
        with pytest.raises(SyntaxError, match=message):
            ReductionKernel(*definition)(x)
    kernel = ReductionKernel("T x", "T y", "x", "a + b", "y = a + x", "0")
    with pytest.raises(DefinitionError, match="can name numbers"):
        kernel(x)
    structs = ReductionKernel("T x", "T y", "P(x, 1)", "f(a, b)", "y = a.v", "P()",
                              preamble="struct P { float v; int n; };")
    with pytest.raises(SyntaxError, match="structs"):
        structs(x)


@pytest.mark.parametrize(("combine", "identity"), [
    ("a + b", "10"), ("a * b", "0"), (lambda a, b: a + b, 1)])
def test_an_identity_that_every_thread_would_add(x, combine, identity):
    kernel = ReductionKernel("T x", "T y", "x", combine, "y = a", identity)
    with pytest.raises(DefinitionError, match=r"'identity' .* is not neutral"):
        kernel(x)


def test_a_post_map_that_reads_what_an_output_held(x, device):
    kernel = ReductionKernel("T x, raw T w, T by", "T y, T z", "x * w[0]", "max(a, b)",
                             "z = y; y += a * by; z *= _in_ind.size()", "-1")
    held = np.arange(4, dtype=X.dtype)
    weight, *out = (nf.array(a, device=device) for a in (held[1:2], held, held))
    kernel(x, weight, 0.5, *out, axis=0)
    same(out[0], held + X.max(0, initial=-1) / 2)
    same(out[1], held * X.size)
    with pytest.raises(ShapeError, match=r"'y' has shape \(4,\), but .* \(1, 4\)"):
        kernel(x, weight, 0.5, *out, axis=0, keepdims=True)
    same(kernel(x, weight, 1.0)[0], X.max())  # nothing is held
    with pytest.raises(DefinitionError, match="can name numbers among the inputs"):
        ReductionKernel("T x", "T y", "x", "a + b", "y += x", "0")(x, out[0], axis=0)


def test_bad_arguments(x):
    kernel = ReductionKernel("T x, raw T w", "T y", "x * w[0]", "a + b", "y = a", "0",
                             "k")
    with pytest.raises(KernelTypeError, match="got 1 arguments"):
        kernel(x)
    with pytest.raises(KernelTypeError, match="'w' is raw and must be an array"):
        kernel(x, 2)
    with pytest.raises(ShapeError, match="Loop size is undecided"):
        ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0")(3.0)
    with pytest.warns(NbFusedWarning, match="NVRTC"):
        ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", options=("-O3",))


@pytest.mark.parametrize("identity", [(0, 1), [0], np.zeros(1), ("0",)])
def test_what_is_no_identity(identity):
    with pytest.raises(DefinitionError, match="'identity' must be a number"):
        ReductionKernel("T x", "T y", "x", "a + b", "y = a", identity)


def test_a_complex_identity_of_real_numbers(x):
    kernel = ReductionKernel("T x", "T y", "x", "a + b", "y = a", 1j)
    with pytest.raises(DefinitionError, match="'identity' is the complex number 1j"):
        kernel(x)


def test_a_python_map_keeps_the_imaginary_part(x):
    kernel = ReductionKernel("T x", "T y", lambda x: x * 1j, "a + b", "y = a", 0)
    with pytest.raises(KernelTypeError, match=r"complex.* for 'a', which is float32"):
        kernel(x)


@pytest.mark.parametrize("slots", [("", "a + b"), ("x", " ")])
def test_an_empty_slot(slots):
    with pytest.raises(DefinitionError, match="must be an expression in C, got"):
        ReductionKernel("T x", "T y", *slots, "y = a", 0)


def test_what_is_no_type_to_reduce_in(x):
    with pytest.raises(DefinitionError, match="'reduce_type' must be a type of C"):
        ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0,
                        reduce_type=3)  # type: ignore[arg-type]
    kernel = ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0, reduce_type="foo")
    with pytest.raises(DefinitionError, match=r"preamble defines.*; got 'foo'"):
        kernel(x)


@pytest.mark.parametrize("lists", [(["T x"], "T y"), ("T x", ["T y"])])
def test_parameters_are_text(lists):
    with pytest.raises(KernelTypeError, match="_params' must be a string"):
        ReductionKernel(*lists, "x", "a + b", "y = a", 0)


def test_the_text_of_each_call_is_kept():
    kernel = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    assert kernel.cached_code == ""
    assert kernel.cached_codes == {}
    for dtype in ("float32", "float64", "float64"):
        kernel(np.arange(3, dtype=dtype))
    assert list(kernel.cached_codes) == [(np.dtype("float32"),), (np.dtype("float64"),)]
    assert kernel.cached_code == next(iter(kernel.cached_codes.values()))
    assert "sqrt" in kernel.cached_code
    assert "x * x" in kernel.cached_code
