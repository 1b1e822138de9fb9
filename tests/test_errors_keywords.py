"""Keywords, names of ops and of devices that nothing has; signatures that show them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import (
    DeviceError,
    KernelTypeError,
    ScalarSyntaxError,
)
from nbfused.op import Func
from nbfused.op.scalar import scalar_function
from nbfused.registry.operations import OPS
from tests.refusal import refused

A = np.arange(1.0, 13.0).reshape(3, 4)


@nf.rawkernel(differentiable=True)
def fourth(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] * x[i] * x[i] * x[i]


@nf.contraction("mk,nk->mn")
def biased(acc, bias):
    return acc + bias


as_op = fourth.as_op(outputs={"y": "x"}, grid=1, block=16)
doubled = nf.ElementwiseKernel("T x", "T y", "y = 2 * x", "doubled")
total = nf.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
raw = nf.RawKernel('extern "C" __global__ void raw(float* x) {}', "raw")
X, Y = A.ravel(), np.zeros(12)

#: Each kind of call: with a misspelt keyword, and the one that was meant.
MISSPELT = {
    "elementwise": (lambda: ops.swish(A, betas=2.0), "swish", "betas", "'beta'"),
    "elementwise-option": (lambda: ops.exp(A, were=A > 1), "exp", "were", "'where'"),
    "reduction": (lambda: ops.sum(A, axs=1), "sum", "axs", "'axis'"),
    "row": (lambda: ops.softmax(A, axes=1), "softmax", "axes", "'axis'"),
    "contraction": (lambda: biased(A, A, bais=1.0), "biased", "bais", "'bias'"),
    "ElementwiseKernel": (lambda: doubled(A, sise=3), "doubled", "sise", "'size'"),
    "ReductionKernel": (lambda: total(A, keep_dims=True), "total", "keep_dims",
                        "'keepdims'"),
    "RawKernel": (lambda: raw((1,), (1,), (A,), shared=1), "raw", "shared",
                  "'shared_mem'"),
    "rawkernel": (lambda: fourth[1, 16](X, yy=Y), "fourth(x, y)", "yy", "'y'"),
    "rawkernel-option": (lambda: fourth((1,), (16,), (X, Y), shared=0), "fourth",
                         "shared", "'shared_mem'"),
    "rawkernel-bound": (lambda: fourth(x=X, y=Y).launch(grid=1, block=16, steam=None),
                        "fourth.launch", "steam", "'stream'"),
}


@pytest.mark.parametrize("kind", MISSPELT)
def test_misspelt_keywords(kind):
    call, name, keyword, meant = MISSPELT[kind]
    with refused(KernelTypeError, name, f"unexpected keyword argument '{keyword}'",
                 "takes", f"did you mean {meant}?"):
        call()


def test_misspelt_arguments_of_an_operation_of_a_kernel():
    with refused(KernelTypeError, "fourth takes x", "['xx']", "did you mean 'x'?"):
        as_op(xx=X)


def test_keywords_that_are_like_none_list_those_there_are():
    with refused(KernelTypeError, "'frobnicate'", "by name also axis, out"):
        ops.softmax(A, frobnicate=1)
    with pytest.raises(KernelTypeError) as caught:
        total(A, frobnicate=1)
    assert "did you mean" not in str(caught.value)
    assert "axis, keepdims, out, dtype, stream" in str(caught.value)


@pytest.mark.parametrize("given", ["add", "swiglu", "where"])
@pytest.mark.parametrize(("call", "argument"), [
    (lambda name: ops.linear(A, A, activation=name), "activation"),
    (lambda name: ops.matmul(A, A.T, epilogue=name), "epilogue"),
    (lambda name: ops.contract("mk,nk->mn", A, A, prologue_b=name), "prologue_b")],
    ids=["activation", "epilogue", "prologue"])
def test_names_of_ops_that_take_too_much(given, call, argument):
    params = ", ".join(inspect.signature(getattr(ops, given).pyfunc).parameters)
    with refused(KernelTypeError, f"'{argument}' is '{given}', which takes {params}",
                 "a function of 1 value", "known: absolute, ", "relu", "lambda acc"):
        call(given)


def test_an_op_of_two_is_no_activation():
    with refused(KernelTypeError, "linear: 'activation' must be a function of one",
                 "add(x, y)", "extras="):
        ops.linear(A, A, activation=ops.add)


def test_an_op_of_two_is_an_epilogue_with_an_extra():
    """Names that take more are refused only where there is nothing more to take."""
    np.testing.assert_array_equal(
        ops.matmul(A, A.T, epilogue="add", extras=(A[:, 0],)), A @ A.T + A[:, 0])


def test_the_names_that_are_listed_are_activations():
    with pytest.raises(KernelTypeError) as caught:
        ops.linear(A, A, activation="sigmod")
    text = str(caught.value)
    assert "did you mean 'sigmoid'?" in text
    known = text.split("known: ")[1].split("; or ")[0].split(", ")
    assert "add" not in known
    assert {"gelu", "swish", "leaky_relu"} <= set(known)
    for name in known:
        assert len(scalar_function(name, "activation", takes=1).params) == 1


class Module:
    """A callable object, like a module of PyTorch."""

    def __call__(self, *args):
        return args[0]


@pytest.mark.parametrize(("given", "words"), [
    ("ReLU", ("unknown activation 'ReLU'", "did you mean 'relu'?")),
    (Module(), ("'activation' is the object", "Module", "the name of one")),
    (abs, None), (np.tanh, None), (nf.sigmoid, None), (ops.gelu, None)],
    ids=["case", "object", "abs", "ufunc", "vocabulary", "op"])
def test_what_is_an_activation_and_what_is_none(given, words):
    if words is None:
        assert ops.linear(A, A.T, activation=given).shape == (3, 3)
        return
    with refused(KernelTypeError, *words):
        ops.linear(A, A.T, activation=given)


def test_functions_of_pytorch_are_passed_by_name():
    torch = pytest.importorskip("torch")
    for function, name in ((torch.relu, "relu"), (torch.nn.functional.gelu, "gelu")):
        with refused(KernelTypeError, "'activation' is", "not part of the scalar",
                     f"pass '{name}'"):
            ops.linear(A, A, activation=function)


def row_of(combine, result, post=None):
    if result == 1:
        @nf.row
        def made(x):
            @nf.stage(combine, post=post)
            def both(x):
                return x
            return x - both
        return made

    @nf.row
    def pair(x):
        @nf.stage(combine, post=post)
        def both(x):
            return x, x
        return x - both
    return pair


def test_stages_and_reductions_of_too_many_values():
    for make in (lambda: row_of("sum", 2), lambda: nf.reduction(combine="sum")(
            lambda x: (x, x * x))):
        with refused(KernelTypeError, "combine 'sum' takes 1 value of an element",
                     "the map gives 2", "of each"):
            make()(A)


def test_posts_that_take_too_little():
    post = lambda mean: mean  # noqa: E731
    for make in (lambda: row_of("welford", 1, post),
                 lambda: nf.reduction(combine="welford", post=post)(lambda x: x)):
        with refused(KernelTypeError, "'post' must take the 2 values", "'welford'",
                     "lambda_(mean)"):
            make()(A)


@pytest.mark.parametrize("name", ["softmax", "cumsum"])
def test_operations_are_sought_where_they_are(name):
    with pytest.raises(AttributeError, match=f"{name}'; write nf.ops.{name}"):
        getattr(nf, name)


def test_misspelt_names_of_the_package_tell_python_what_they_are():
    """From these it prints what was meant."""
    with pytest.raises(AttributeError, match="'elemntwise'") as caught:
        nf.elemntwise  # noqa: B018
    assert caught.value.name == "elemntwise"
    assert caught.value.obj is nf


def test_functions_of_nothing():
    with refused(KernelTypeError, "nf.contraction: <lambda>() takes nothing",
                 "lambda acc: acc"):
        nf.contraction("mk,kn->mn")(lambda: 1.0)
    with refused(KernelTypeError, "nf.row: <lambda>() takes nothing", "an array"):
        nf.row(lambda: 1.0)


def test_a_stage_of_two_values_is_no_parameter_of_a_later_one():
    @nf.row
    def spread(x):
        @nf.stage("welford")
        def moments(x):
            return x

        @nf.stage("max")
        def largest(x, moments):
            mean, variance = moments
            return abs(x - mean) / variance

        return largest

    with refused(ScalarSyntaxError, "stage 'largest'", "'moments'", "2 values",
                 "leave it out", "a, b = moments"):
        spread(A)


@pytest.mark.parametrize("device", ["gpu", "gpu:1", "mps", "nvidia"])
def test_devices_of_no_backend(device):
    for call in (lambda: nf.array(A, device=device), lambda: nf.zeros(3, device=device),
                 lambda: nf.empty(3, device=device),
                 lambda: nf.full(3, 1.0, device=device),
                 lambda: nf.from_dlpack(A, device=device)):
        kind = device.partition(":")[0]
        with refused(DeviceError, f"device: no backend has devices called '{kind}'",
                     "'cpu'", "'cuda' (NVIDIA)", "'rocm' (AMD)", "nbfused.backends()"):
            call()


def test_devices_that_a_block_does_not_allow():
    with nf.use_backend("cpu"), refused(DeviceError, "device='rocm:0'",
                                        "allows only cpu", "device='cpu'", "with"):
        nf.array(A, device="rocm")


def test_texts_that_a_backend_does_not_have():
    for kind, device in (("ptx", "cuda"), ("hip", "rocm")):
        with refused(KernelTypeError, f"fourth.source('{kind}')", "backend 'cpu'",
                     "'primal', 'vjp', 'jvp', 'numba'",
                     f"nf.array(x, device='{device}')"):
            fourth.source(kind, X, Y)


SIGNATURES = {
    "exp": "(x, *, out=None, dtype=None, where=True, casting='same_kind')",
    "swish": "(x, beta=1.0, *, out=None, dtype=None, where=True, casting='same_kind')",
    "logsumexp": "(x, *, axis=None, keepdims=False, dtype=None, out=None)",
    "sum": "(x, *, axis=None, keepdims=False, dtype=None, out=None, "
           "initial=<no value>, where=<no value>)",
    "softmax": "(x, *, axis=-1, out=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_show_the_options(name):
    assert str(inspect.signature(getattr(ops, name))) == SIGNATURES[name]


def test_the_signature_of_a_contraction_has_both_operands():
    assert str(inspect.signature(biased)) == "(a, b, bias, *, out=None)"
    shadowing = nf.contraction("mk,kn->mn")(lambda acc, b: acc * b)
    assert list(inspect.signature(shadowing).parameters) == ["a", "b", "b_", "out"]


@pytest.mark.parametrize("kind", [nf.func, nf.elementwise], ids=["func", "elementwise"])
def test_parameters_of_a_function_keep_their_names(kind):
    """A parameter that is called like an option is one."""
    made = kind(lambda x, where: x * where)
    parameters = inspect.signature(made).parameters
    assert list(parameters)[:2] == ["x", "where"]
    assert parameters["where"].default is inspect.Parameter.empty


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if isinstance(op, Func)])
def test_options_are_those_that_messages_list(name):
    op = OPS[name]
    shown = [p.name for p in inspect.signature(op).parameters.values()
             if p.kind is p.KEYWORD_ONLY]
    assert sorted(shown) == sorted(op.options)
    assert not set(shown) & set(op.parameters.names)


def test_a_signature_is_what_a_call_takes():
    """Binding by the signature and calling with the result is the call itself."""
    bound = inspect.signature(ops.sum).bind(A, axis=0, keepdims=True)
    np.testing.assert_array_equal(ops.sum(*bound.args, **bound.kwargs),
                                  A.sum(0, keepdims=True))
