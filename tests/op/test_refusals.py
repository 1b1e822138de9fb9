"""What is no function, no argument, no option of the decorators."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError, RangeError, ScalarSyntaxError
from tests.refusal import refused

A = np.arange(1.0, 13.0).reshape(3, 4)


class Doubled:
    def __call__(self, x):
        return 2 * x


def product(x, y):
    return x * y


NO_FUNCTIONS = {
    "number": (3, "got 3", "write a def"),
    "text": ("exp", "got 'exp'", "write a def"),
    "class": (int, "<class 'int'>", "lambda x: int(x)"),
    "own-class": (Doubled, "Doubled", "write a def"),
    "object": (Doubled(), "Doubled", "write a def"),
    "partial": (functools.partial(product, 2.0), "functools.partial",
                "a function that closes over the values"),
    "built-in": (len, "<built-in function len>", "not part of the scalar language"),
    "method": (dict.get, "'get' of 'dict'", "functions of math, numpy and nbfused"),
    "ufunc": (np.exp, "<ufunc 'exp'>", "lambda x: numpy.exp(x)"),
    "cached": (functools.lru_cache(product), "lru_cache", "decorate what it wraps"),
}


@pytest.mark.parametrize("kind", NO_FUNCTIONS)
@pytest.mark.parametrize(("decorate", "name"), [
    (nf.elementwise, "nf.elementwise"), (nf.func, "nf.func"), (nf.row, "nf.row"),
    (nf.reduction(), "nf.reduction"), (nf.contraction("mk,kn->mn"), "nf.contraction"),
    (nf.stage("sum"), "nf.stage")],
    ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_no_function(kind, decorate, name):
    given, *words = NO_FUNCTIONS[kind]
    with refused(KernelTypeError, f"{name} must decorate a Python function", *words):
        decorate(given)


def test_the_ways_out_work():
    for function in (lambda x: np.exp(x), lambda x: product(2.0, x), lambda x: int(x)):
        np.testing.assert_allclose(nf.elementwise(function)(A),
                                   np.vectorize(function)(A))


def test_decorators_that_were_given_no_options():
    with refused(KernelTypeError, "by name", "@nf.reduction(combine='sum')"):
        nf.reduction(product)
    with refused(KernelTypeError, "takes 'subscripts' before it decorates", "product",
                 "@nf.contraction('mk,kn->mn')"):
        nf.contraction(product)
    with refused(KernelTypeError, "'subscripts' must be text", "'mk,kn->mn'", "int"):
        nf.contraction(3)


@nf.elementwise
def scaled(x, by=1.0):
    return x * by


@pytest.mark.parametrize("merge", [lambda a, b: a - b, lambda a, b: a + 2*b])
def test_an_identity_that_is_neutral_on_one_side_only(merge):
    with refused(RangeError, "'identity' 0", "either order", "1.75"):
        nf.reduction(combine=merge)(lambda x: x)(A)


@pytest.mark.parametrize(("merge", "neutral", "expected"), [
    (lambda a, b: a and b, 1, False), (lambda a, b: a or b, 0, True),
    (lambda a, b: a ^ b, 0, True)])
def test_an_identity_that_is_neutral_for_one_kind_of_numbers(merge, neutral, expected):
    folded = nf.reduction(combine=merge, identity=neutral)(lambda x: x)
    assert folded(np.array([True, False, True, True])) == expected



def test_the_factors_of_a_contraction_are_named():
    kernel = nf.contraction("mk,kn->mn")(lambda acc, bias: acc + bias)
    with refused(KernelTypeError, "'bias'", "two factors", "'acc'"):
        kernel(np.ones((2, 3)), np.ones((3, 2)))


def test_too_many_arguments_are_counted():
    with refused(KernelTypeError, "scaled(x, by=1.0)", "too many", "got 4",
                 "takes 2 arguments", "1 output"):
        scaled(A, 1, 2, 3)
    with refused(KernelTypeError, "sum(x): too many", "takes 1 argument"):
        nf.ops.sum(A, 1)
    np.testing.assert_array_equal(scaled(A, 2.0, np.empty_like(A)), 2 * A)


def test_a_parameter_of_post_that_is_given_nothing():
    def finish(total, offset):
        return total + offset

    @nf.reduction(combine="sum", post=finish)
    def shifted(x, offset):
        return x

    assert shifted(A, 2.0) == A.sum() + 2
    with refused(KernelTypeError, "shifted", "'post'", "'offset'", "got an array"):
        shifted(A, A)
    with refused(KernelTypeError, "'offset'", "none of that name", "'size'"):
        nf.reduction(combine="sum", post=finish)(lambda x: x)(A)


def test_keepdims_is_a_truth():
    with refused(KernelTypeError, "sum: 'keepdims' must be True or False", "'no'"):
        nf.ops.sum(A, keepdims="no")


def test_kinds_of_text():
    with refused(KernelTypeError, "'kind' must be 'primal'", "'c'"):
        scaled.source("c")
    with refused(KernelTypeError, "kinds", "'row', 'column' or 'element'"):
        nf.row(y="row")(lambda x: x)
    with refused(KernelTypeError, "softmax.source()", "several functions"):
        nf.ops.softmax.source()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("op", [
    scaled, nf.ops.exp, nf.ops.sum, nf.ops.softmax, nf.ops.layer_norm, nf.ops.linear],
    ids=lambda op: op.__name__)
def test_ops_are_pickled_by_name(op, protocol):
    assert pickle.loads(pickle.dumps(op, protocol)) is op
    assert copy.deepcopy(op) is op


@nf.rawkernel(differentiable=True)
def copied(x, y):
    i = nf.grid(1)
    if i < x.shape[0]:
        y[i] = x[i]


@nf.fuse
def fused(x):
    return x * 2.0


@nf.custom_vjp
def ruled(x):
    return x * 2.0


@pytest.mark.parametrize("named", [copied, fused, ruled], ids=["raw", "fuse", "rule"])
def test_kernels_are_pickled_by_name_and_copied_as_functions(named):
    x, y = np.ones(3), np.zeros(3)
    if named is copied:
        copied[1, 32](x, y)
    else:
        named(x)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(named, protocol)) is named
    assert copy.copy(named) is named
    assert copy.deepcopy({"layer": named})["layer"] is named


def test_a_local_kernel_is_not_pickled():
    @nf.fuse
    def local(x):
        return x + 1.0

    with pytest.raises(pickle.PicklingError, match=r"has no such .*decorate it there"):
        pickle.dumps(local)


def test_open_parameters():
    for given in ((A,), (A, A, A)):
        with refused(ScalarSyntaxError, "several(x, *rest, **named)", "not part of",
                     "name the parameters"):
            nf.elementwise(several)(*given)


def several(x, *rest, **named):
    return x


def test_a_local_op_is_not_pickled():
    @nf.elementwise
    def local(x):
        return x + 1

    with pytest.raises((AttributeError, pickle.PicklingError), match=r"local.*local"):
        pickle.dumps(local)
    np.testing.assert_array_equal(copy.deepcopy(local)(A), A + 1)


def test_an_op_under_another_name_is_pickled_by_value():
    renamed = nf.elementwise(product)
    again = pickle.loads(pickle.dumps(renamed))
    np.testing.assert_array_equal(again(A, A), A * A)


@nf.row
def unreturned(x):
    @nf.stage("sum")
    def total(x):
        return x


@nf.contraction("mk,kn->mn")
def empty(acc):
    pass


def test_functions_that_return_nothing():
    with refused(ScalarSyntaxError, "row unreturned returns nothing"):
        unreturned(A)
    with refused(KernelTypeError, "empty(acc)", "return a number"):
        empty(A, A.T)
    with refused(KernelTypeError, "lambda_()", "take the product"):
        ops.matmul(A, A.T, epilogue=lambda: 1.0)


def test_a_stage_of_the_name_of_what_rows_have():
    """Its gradient was that of the number of columns."""
    @nf.row
    def scaled(x):
        @nf.stage("sum")
        def size(x):
            return x

        return x * size

    with refused(ScalarSyntaxError, "scaled", "'size'", "another name"):
        scaled(np.ones((2, 3)))


@pytest.mark.parametrize("decorate", [
    nf.elementwise, nf.reduction(combine="sum"), nf.func])
@pytest.mark.parametrize("operation", [ops.swish, ops.sum, ops.softmax],
                         ids=lambda f: f.__name__)
def test_an_operation_is_no_function_of_numbers(decorate, operation):
    """Its options were read as arrays that are missing."""
    with refused(KernelTypeError, operation.__name__, "an operation on arrays",
                 f"lambda x: {operation.__name__}(x)"):
        decorate(operation)


def test_a_starred_name():
    @nf.elementwise
    def first(x):
        a, *rest = x, x + 1, x + 2
        return a + rest[0]

    with refused(ScalarSyntaxError, "only names"):
        first(A)
