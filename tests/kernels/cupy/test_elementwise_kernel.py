"""ElementwiseKernel beyond what the acceptance list asks for."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    DefinitionError,
    KernelTypeError,
    NbFusedWarning,
    RangeError,
    ScalarSyntaxError,
    ShapeError,
    UnsupportedError,
)
from nbfused.kernels import ElementwiseKernel, ReductionKernel
from nbfused.kernels.cupy.parameters import parse_parameters

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x(device):
    return nf.array(X, device=device)


def same(found, expected):
    found = nf.to_numpy(found)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)


def test_attributes():
    kernel = ElementwiseKernel("T x, raw int32 y", "T z, bool w", "z = x; w = y[i]",
                               "name", no_return=True)
    assert [(p.name, p.ctype, p.raw, p.dtype) for p in kernel.params] == [
        ("x", "T", False, None), ("y", "int32", True, np.dtype("int32")),
        ("z", "T", False, None), ("w", "bool", False, np.dtype(bool))]
    assert (kernel.nin, kernel.nout, kernel.nargs) == (2, 2, 4)
    assert kernel.__name__ == kernel.name == "name"
    assert (kernel.operation, kernel.no_return) == ("z = x; w = y[i]", True)
    assert repr(kernel) == ("<nbfused ElementwiseKernel name(T x, raw int32 y) -> "
                            "(T z, bool w)>")


def test_parameters_may_be_missing(device):
    kernel = ElementwiseKernel("", "float32 y", "y = i * 0.5f")
    out = nf.zeros(4, "float32", device=device)
    assert kernel(out) is out
    same(out, np.arange(4, dtype=np.float32) / 2)
    if device == "cpu":
        same(kernel(size=3), np.arange(3, dtype=np.float32) / 2)


def test_parameters_are_parsed_with_any_spaces():
    found = parse_parameters("  float32   x ,raw   T y  ", "in_params")
    assert [(p.name, p.raw) for p in found] == [("x", False), ("y", True)]
    assert parse_parameters("  ", "in_params") == ()


def test_returned_as_asked_for(x):
    def kernel(**options):
        return ElementwiseKernel("T x", "T y", "y = -x", **options)

    assert kernel(no_return=True)(x) is None
    (found,) = kernel(return_tuple=True)(x)
    same(found, -X)
    a, b = ElementwiseKernel("T x", "T a, int64 b", "a = x; b = i")(x)
    same(a, X)
    same(b, np.arange(6).reshape(2, 3))


def test_an_output_keeps_what_the_body_leaves(x, device):
    kernel = ElementwiseKernel("T x", "T y", "if (x > 2) y += x;")
    out = nf.full((2, 3), 10, "float32", device=device)
    same(kernel(x, out), np.where(X > 2, 10 + X, 10).astype(np.float32))
    same(kernel(x), np.where(X > 2, X, 0))


def test_the_input_may_be_the_output(x):
    kernel = ElementwiseKernel("T x", "T y", "y = x * 2")
    assert kernel(x, x) is x
    same(x, X * 2)


def test_continue_ends_an_element(x):
    kernel = ElementwiseKernel("T x", "T y", "y = 1; if (x > 2) continue; y = 2;")
    same(kernel(x), np.where(X > 2, 1, 2).astype(np.float32))


def test_shape_and_size_of_raw_arrays(device):
    kernel = ElementwiseKernel("raw T x", "T y", """
        ptrdiff_t at[] = {i % x.shape()[0], i / x.shape()[0]};
        y = x[at] + x.size();
    """)
    same(kernel(nf.array(X, device=device), size=6), X.T.ravel() + 6)
    same(kernel(nf.array(X.T.copy(), device=device), size=6), X.ravel() + 6)


def test_a_raw_array_of_one_axis_is_read_where_it_lies(device):
    flat = nf.array(np.arange(10.0), device=device)
    part = nf.ops.getitem(flat, slice(None, None, -3))
    kernel = ElementwiseKernel("raw T x", "T y", "y = x[i]")
    same(kernel(part, size=4), np.array([9.0, 6, 3, 0]))
    with nf.trace_launches() as launches:
        kernel(part, size=4)
    assert len(launches) == 1


@pytest.mark.parametrize(("name", "reference"), [
    ("atomicMax", np.maximum), ("atomicMin", np.minimum), ("atomicAnd", np.bitwise_and),
    ("atomicOr", np.bitwise_or), ("atomicXor", np.bitwise_xor), ("atomicAdd", np.add),
    ("atomicSub", np.subtract)])
def test_atomics(name, reference, device):
    k = np.arange(40, dtype=np.int32)
    kernel = ElementwiseKernel("int32 k", "raw int32 y", f"{name}(&y[k % 3], k)")
    expected = np.full(3, 37, np.int32)
    reference.at(expected, k % 3, k)
    out = nf.full(3, 37, "int32", device=device)
    same(kernel(nf.array(k, device=device), out), expected)


def test_atomics_give_the_old_value(device):
    """A compaction: each positive element takes a place."""
    kernel = ElementwiseKernel("T x", "raw int32 count, raw T y", """
        if (x > 0) {
            int place = atomicAdd(&count[0], 1);
            y[place] = x;
        }
        int won = atomicCAS(&count[1], 0, 5);
        atomicExch(&count[2], 7);""")
    x = np.array([3, -1, 2, 0, 5, -2], np.float32)
    count = nf.zeros(3, "int32", device=device)
    y = nf.zeros(6, "float32", device=device)
    kernel(nf.array(x, device=device), count, y)
    assert nf.to_numpy(count).tolist() == [3, 5, 7]
    assert sorted(nf.to_numpy(y)[:3].tolist()) == [2, 3, 5]


def test_cached_loads(x):
    kernel = ElementwiseKernel("raw T x", "T y", "y = __ldg(&x[n - 1 - i])")
    same(kernel(x, size=6), X.ravel()[::-1])


def test_bodies_in_python(x, device):
    y = nf.array(np.arange(6.0, dtype=np.float32).reshape(3, 2), device=device)

    def turned(x, y, i, n):
        k = n - 1 - i
        return x + y[k // 2, k % 2], k

    kernel = ElementwiseKernel("T x, raw T y", "T z, int32 k", turned)
    z, k = kernel(x, y)
    same(z, X + np.arange(6, dtype=np.float32)[::-1].reshape(2, 3))
    same(k, np.arange(6, dtype=np.int32)[::-1].reshape(2, 3))


def test_python_text(x):
    kernel = ElementwiseKernel("T x", "T y, T z", """
        if x > 2:
            y = x * 0.5
        else:
            y = i + n
        z = nf_is_not_needed = sqrt(x)
    """, language="python")
    y, z = kernel(x)
    same(y, np.where(X > 2, X / 2, np.arange(6).reshape(2, 3) + 6).astype(np.float32))
    np.testing.assert_allclose(nf.to_numpy(z), np.sqrt(X), rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_shapes_without_many_elements(shape, device):
    kernel = ElementwiseKernel("T x, raw T y", "T z", "z = x + y[0]")
    a, one = np.ones(shape, np.float32), np.ones(1, np.float32)
    found = kernel(nf.array(a, device=device), nf.array(one, device=device))
    same(found, np.full(shape, 2, np.float32))


def test_float16_computes_in_float32(device):
    a = np.linspace(0, 250, 50).astype(np.float16)
    kernel = ElementwiseKernel("T x", "T y",
                               "T s = x * x; y = sqrt(x * x) + (s > 1000)")
    expected = np.sqrt(a.astype(np.float32) ** 2) + (
        (a.astype(np.float32) ** 2).astype(np.float16) > 1000)
    same(kernel(nf.array(a, device=device)), expected.astype(np.float16))


def test_what_ran_can_be_read(x):
    kernel = ElementwiseKernel("T x", "T y", "T d = x * 2.0; y = d;", "twice")
    assert kernel.cached_code == ""
    kernel(x)
    kernel(nf.ops.astype(x, "float64"))
    assert set(kernel.cached_codes) == {(np.dtype("float32"),), (np.dtype("float64"),)}
    assert "f32((f64(x) * f64(2.0)))" in kernel.cached_code
    assert kernel.source("vjp").startswith("def twice_vjp(x, g")
    assert "float64" not in kernel.source("primal", "float64")
    assert "f64(x) * f64(2.0)" in kernel.source("numba")
    with pytest.raises(KernelTypeError, match="'kind' must be"):
        kernel.source("c")


def test_the_text_of_raw_kernels():
    kernel = ElementwiseKernel("T x, raw T y", "raw T z", "z[i] = x * y[n - 1 - i];")
    assert "z[i] = " in kernel.source()
    vjp = kernel.source("vjp")
    assert "nf.atomic_add(y_bar" in vjp
    assert "z_bar[i]" in vjp
    assert "y_dot" in ElementwiseKernel("T x, raw T y", "T z", "z = x * y[i]").source(
        "jvp")
    by_axes = ElementwiseKernel("T x, raw T y", "raw T z", """
        int at[] = {max(i, 1), 0, 2}, to[2] = {0, 1};
        z[to] = x * y[at];""").source()
    assert "_y_shape2" in by_axes
    assert "_z_shape1" in by_axes


def test_a_derivative_can_be_pasted_back():
    kernel = ElementwiseKernel("T x, T y", "T z", "T d = x - y; z = d * d;", "squared")
    names = {"nf": nf, "np": np}
    exec(kernel.source("vjp"), names)
    assert names["squared_vjp"](5.0, 2.0, 10.0) == (60.0, -60.0)


def test_calls_share_what_was_prepared(x):
    kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y")
    for y in (1, 2, 3):
        kernel(x, y)
    assert len(kernel._prepared) == 1
    kernel(x, x)
    assert len(kernel._prepared) == 2


def test_numpy_arrays_of_one_element_go_by_value():
    torch = pytest.importorskip("torch")
    kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y")
    found = kernel(torch.arange(3.0), np.array([0.5]))
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [0.5, 1.5, 2.5]


def test_raw_outputs_of_python_bodies(x, device):
    def turned(x, y, i, n):
        y[n - 1 - i] = 2 * x

    kernel = ElementwiseKernel("T x", "raw T y", turned)
    out = nf.zeros(6, "float32", device=device)
    same(kernel(x, out), 2 * X.ravel()[::-1])


def test_kernels_are_fused(x):
    kernel = ElementwiseKernel("T x, float32 s", "T y", "y = x * s", "scaled")
    total = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    fused = nf.fuse(lambda x, s: total(kernel(x, s) + 1, axis=0))
    with nf.trace_launches() as launches:
        same(fused(x, 0.5), (X * np.float32(0.5) + 1).sum(axis=0))
    assert len(launches) == 1


def test_tensors_of_torch_that_require_grad():
    torch = pytest.importorskip("torch")
    kernel = ElementwiseKernel("T x, raw T y", "T z", "z = x * y[i]")
    x = torch.arange(3.0, requires_grad=True)
    kernel(x, x).sum().backward()
    assert x.grad.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(("args", "error", "message"), [
    ((), KernelTypeError, r"k takes 2 inputs \(x, y\), then 1 outputs or none, got"),
    ((X,), KernelTypeError, "got 1 arguments"),
    ((X, X, X, X), KernelTypeError, "got 4 arguments"),
    ((X, [1, 2]), KernelTypeError, "'y' must be an array or a number, got list"),
    ((X, "1"), KernelTypeError, "'y' must be an array or a number, got str"),
    ((X, 1, 2), KernelTypeError, "the output 'z' must be an array, got int"),
    ((X, 1j), KernelTypeError, "'y' is the complex number 1j"),
    ((X, 2**70), RangeError, "does not fit 64 bits"),
    ((X, np.zeros(4, np.float32)), ShapeError, "do not broadcast"),
    ((X, X, np.zeros(3, np.float32)), ShapeError, "shape"),
    ((X, X, np.zeros((2, 3))), KernelTypeError, "type T is float64 in 'z'"),
    ((X.astype(object), X), KernelTypeError, "dtype object"),
])
def test_bad_arguments(args, error, message):
    kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y", "k")
    with pytest.raises(error, match=message):
        kernel(*args)


def test_outputs_are_given_once(x):
    kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y", "k")
    with pytest.raises(KernelTypeError, match="got 4 arguments"):
        kernel(x, x, x, out=x)
    total = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    with pytest.raises(KernelTypeError, match="the output 'y' must be an array"):
        total(x, 1)


def test_bad_arguments_of_other_parameters(x):
    whole = ElementwiseKernel("int32 k, T x", "T y", "y = x * k", "k")
    with pytest.raises(KernelTypeError, match=r"'k' is 0\.5, but the parameter is int"):
        whole(0.5, x)
    same(whole(2.0, x), X * 2)
    raw = ElementwiseKernel("raw T y, T x", "T z", "z = x + y[0]", "k")
    with pytest.raises(ScalarSyntaxError, match="'y' is a number, it cannot be inde"):
        raw(1, x)
    for size in (-1, 2.5, True):
        with pytest.raises(ShapeError, match="'size' must be an integer"):
            ElementwiseKernel("", "float32 y", "y = i")(size=size)
    for block in (-1, 2048, 1.5):
        with pytest.raises(DefinitionError, match="block_size"):
            whole(1, x, block_size=block)
    with pytest.raises(KernelTypeError, match="'stream' must be a stream"):
        whole(1, x, stream=7)


def test_a_raw_output_must_lie_without_gaps(device):
    kernel = ElementwiseKernel("T x", "raw T y", "y[i] = x;")
    out = nf.zeros((4, 4), "float32", device=device)
    kernel(nf.array(np.arange(16, dtype=np.float32), device=device), out)
    same(out, np.arange(16, dtype=np.float32).reshape(4, 4))
    with pytest.raises(ShapeError, match="contiguous"):
        kernel(nf.array(np.ones(8, np.float32), device=device),
               nf.ops.getitem(out, (slice(None), slice(0, 2))))


@pytest.mark.parametrize(("definition", "options", "error", "message"), [
    (("T x", "T y", "y = x", "not a name"), {}, DefinitionError, "invalid kernel name"),
    (("T x", "T x", "x = 1"), {}, DefinitionError, "'x' is declared twice"),
    ((3, "T x", "x = 1"), {}, KernelTypeError, "'in_params' must be a string"),
    (("T x", "T y", 3), {}, DefinitionError, "the body must be a string in C"),
    (("T x", "T y", "y = x"), {"language": "cobol"}, DefinitionError, "'language'"),
    (("T x", "T y", lambda x: x), {"language": "c"}, DefinitionError, "language='c'"),
    (("T x", "T y", lambda x: x), {"preamble": "int a;"}, DefinitionError,
     "'preamble'"),
    (("T x", "T y", "y = x"), {"after_loop": "z;"}, UnsupportedError, "rawkernel"),
    (("T x", "T y", "y = x"), {"after_loop": "int a;"}, UnsupportedError,
     "'after_loop' runs once for each thread.* into the body"),
    (("T x", "T y", "y = x"), {"loop_prep": "int a;", "language": "python"},
     DefinitionError, "'loop_prep' is C"),
])
def test_bad_definitions(definition, options, error, message):
    with pytest.raises(error, match=message):
        ElementwiseKernel(*definition, **options)


def test_a_kernel_without_outputs_is_refused():
    with pytest.raises(DefinitionError, match="'out_params' of k is empty"):
        nf.ElementwiseKernel("T x", "", "x + 1", "k")


def test_bad_bodies_are_reported_at_the_call(x):
    with pytest.raises(ScalarSyntaxError, match="<body of k>, line 1: 'w' is not"):
        ElementwiseKernel("T x", "T y", "y = w", "k")(x)
    with pytest.raises(DefinitionError, match="takes w, which is no parameter"):
        ElementwiseKernel("T x", "T y", lambda w: w, "k")(x)
    with pytest.raises(DefinitionError, match="gives 1 values for the outputs y, z"):
        ElementwiseKernel("T x", "T y, T z", lambda x: x, "k")(x)
    with pytest.raises(ScalarSyntaxError, match="k: "):
        ElementwiseKernel("T x", "T y", "y = = x", "k", language="python")(x)


@pytest.mark.parametrize("params", [("T x", "T y"), ("complex64 x", "float32 y")])
def test_a_python_body_keeps_the_imaginary_part(params):
    x = np.ones(3, params[0].split()[0].replace("T", "float64"))
    with pytest.raises(KernelTypeError, match=r"complex.* for 'y', which is float"):
        ElementwiseKernel(*params, lambda x: x * 1j, "k")(x)
    real = ElementwiseKernel(*params, lambda x: (x * 1j).imag, "k")
    np.testing.assert_array_equal(real(x), np.ones(3))


def test_options_of_nvrtc_are_ignored_aloud():
    with pytest.warns(NbFusedWarning, match="NVRTC"):
        ElementwiseKernel("T x", "T y", "y = x", options=("--use_fast_math",))


@pytest.mark.parametrize("name", ["half", "T", "uint"])
def test_a_parameter_hides_a_type_of_its_name(name):
    kernel = ElementwiseKernel(f"T {name}", "T y", f"y = {name} * 2 + {name}", "k")
    np.testing.assert_array_equal(kernel(np.arange(3.0)), [0, 3, 6])


def test_an_output_that_is_never_assigned_keeps_what_it_holds():
    kernel = ElementwiseKernel("T x", "T y", "x * 2", "k")
    np.testing.assert_array_equal(kernel(np.arange(3.0)), [0, 0, 0])
    np.testing.assert_array_equal(kernel(np.arange(3.0), np.ones(3)), [1, 1, 1])


def test_a_python_body_assigns_its_outputs():
    kernel = ElementwiseKernel("T x", "T y", "x * 2", "k", language="python")
    with pytest.raises(SyntaxError, match="the output 'y' is never assigned"):
        kernel(np.arange(3.0))
