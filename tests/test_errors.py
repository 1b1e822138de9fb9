"""Bad input: dtypes, shapes, axes, values, things that are no arrays."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import (
    KernelTypeError,
    OverlapError,
    RangeError,
    ShapeError,
)
from tests.refusal import refused

A = np.arange(12.0).reshape(3, 4)
LABELS = np.array([0, 3, 1])


@pytest.fixture
def put(device):
    return lambda x: nf.array(x, device=device)


DTYPES = {
    "object": (np.array([None, 1]), "dtype object", "x.astype"),
    "text": (np.array(["a"]), "dtype <U1", "x.astype"),
    "date": (np.array(["2020-01-01"], "M8[D]"), "datetime64[D]", "x.view('int64')"),
    "record": (np.zeros(3, [("a", "f4")]), "[('a', '<f4')]", "x['a']"),
    "swapped": (np.zeros(3, ">f4"), "dtype >f4", "newbyteorder"),
    "longdouble": (np.zeros(3, np.longdouble), np.dtype(np.longdouble).name,
                   "x.astype('float64')"),
}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("op", [
    ops.exp, ops.sum, ops.softmax, lambda x: ops.linear(x, A)],
    ids=["map", "reduce", "row", "contract"])
def test_dtypes_without_kernels(kind, op):
    x, got, way_out = DTYPES[kind]
    with refused(KernelTypeError, "x: ", got, "float32, float64", way_out):
        op(x)


@pytest.mark.parametrize(("call", "words"), [
    (lambda put: ops.subtract(put([True]), put([True])), ("subtract", "(bool, bool)",
                                                          "logical_xor")),
    (lambda put: ops.negative(put([True])), ("negative", "(bool)", "logical_not")),
    (lambda put: ops.logsumexp(put([1j])), ("max", "complex", "take .real")),
    (lambda put: ops.softmax(put([1j])), ("'x' must be real and floating", "complex128",
                                              "take .real")),
    (lambda put: ops.cross_entropy(put(A), put(A[:, 0])),
     ("'labels' must be integers", "float64", "astype", "argmax")),
    (lambda put: ops.take(put(A), put(A[0])),
     ("'indices' must be an integer array", "float64", "astype")),
    (lambda put: ops.astype(put(A), "nonsense"),
     ("dtype: 'nonsense'", "expected bool, int8")),
    (lambda put: ops.sum(put(A), dtype="M8[s]"), ("dtype", "datetime64[s]", "float32")),
    (lambda put: nf.Variable(put(np.arange(3)), requires_grad=True),
     ("requires_grad", "int64", "expected float16", "x.astype('float32')")),
], ids=["subtract", "negative", "logsumexp", "softmax", "labels", "indices", "astype",
        "dtype", "variable"])
def test_wrong_dtype(call, words, put):
    with refused(KernelTypeError, *words):
        call(put)


def test_a_complex_result_asks_for_its_cotangent(put):
    x = nf.Variable(put([1j]), requires_grad=True)
    with refused(KernelTypeError, "backward()", "complex128", "pass grad="):
        (x * 2.0).sum().backward()


def doubled(put):
    return nf.Variable(put(A), requires_grad=True) * 2.0


SHAPES = {
    "map": (lambda put: ops.add(put(A), put(np.ones(3))),
            ("'x' of shape (3, 4)", "'y' of shape (3,)", "extent 4 against 3",
             "expected equal extents or 1", "insert axes")),
    "product": (lambda put: ops.matmul(put(A), put(A)),
                ("'a' of shape (3, 4)", "'b' of shape (3, 4)", "expected equal extents",
                 "transpose")),
    "batches": (lambda put: ops.matmul(put(np.ones((2, 3, 4))),
                                       put(np.ones((3, 4, 5)))),
                ("'a' of shape (2, 3, 4)", "'b' of shape (3, 4, 5)", "expected")),
    "bias": (lambda put: ops.linear(put(A), put(A.T), put(np.ones(4))),
             ("'bias' of shape (4,)", "the product's shape (3, 3)", "reshape it")),
    "large-bias": (lambda put: ops.matmul(put(A), put(A.T),
                                          bias=put(np.ones((2, 3, 3)))),
                   ("'bias' of shape (2, 3, 3)", "(3, 3)", "reshape it")),
    "extras": (lambda put: ops.matmul(put(A), put(A.T), epilogue=lambda acc, e: acc * e,
                                      extras=(put(np.ones(2)),)),
               ("'extras[0]' of shape (2,)", "(3, 3)", "reshape it")),
    "weight": (lambda put: ops.layer_norm(put(A), put(np.ones(3))),
               ("'weight' has one value for each column", "must be (4,)", "got (3,)",
                "Reshape or broadcast")),
    "labels": (lambda put: ops.cross_entropy(put(A), put(np.zeros(4, int))),
               ("'labels' must have shape (3,)", "'logits' of shape (3, 4)",
                "got (4,)", "the last axis")),
    "reshape": (lambda put: ops.reshape(put(A), (5, 3)),
                ("shape (3, 4) (12 elements)", "(5, 3) (15 elements)", "-1")),
    "negative": (lambda put: ops.broadcast_to(put(A), (-1, *A.shape)),
                 ["'shape'", "(-1, ", "at least 0"]),
    "broadcast": (lambda put: ops.broadcast_to(put(A), (3, 5)),
                  ("shape (3, 4)", "(3, 5)", "expected extents", "reshape")),
    "concatenate": (lambda put: ops.concatenate([put(A), put(A[:, :2])]),
                    ("arrays[1] of shape (3, 2)", "arrays[0] of shape (3, 4)",
                     "axis 0 only")),
    "nothing": (lambda put: ops.concatenate([]), ("'arrays' is empty", "expected")),
    "squeeze": (lambda put: ops.squeeze(put(A), 0), ("axis 0", "(3, 4)", "extent 3")),
    "adam": (lambda put: ops.adam_step(put(A), put(A[0]), put(A), put(A), step=1),
             ("adam_step: 'grad' of shape (4,)", "'param' of shape (3, 4)", "equal")),
    "subscripts": (lambda put: ops.contract("mk,kn->m", put(A), put(A.T)),
                   ("'mk,kn->m'", "'n' is in 'kn' but not in the result", "keep it")),
    "no-result": (lambda put: ops.contract("mk,kn", put(A), put(A.T)),
                  ("'mk,kn'", "two operands and a result", "'mk,kn->mn'")),
    "cotangent": (lambda put: doubled(put).backward(),
                  ("the output has shape (3, 4)", "pass grad=", "sum()")),
    "wrong-cotangent": (
        lambda put: doubled(put).backward(put(A.T)),
        ("grad: shape (4, 3)", "expected (3, 4)")),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_wrong_shape(kind, put):
    call, words = SHAPES[kind]
    with refused(ShapeError, *words):
        call(put)


AXES = {
    "sum": lambda x, axis: ops.sum(x, axis=axis),
    "argmax": lambda x, axis: ops.argmax(x, axis=axis),
    "var": lambda x, axis: ops.var(x, axis=axis),
    "softmax": lambda x, axis: ops.softmax(x, axis=axis),
    "take": lambda x, axis: ops.take(x, np.array([0]), axis),
    "squeeze": ops.squeeze,
    "concatenate": lambda x, axis: ops.concatenate([x, x], axis),
}


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("axis", [2, -3])
def test_axis_out_of_range(kind, axis, put):
    """NumPy's own exception: a ValueError and an IndexError."""
    words = rf"'axis': axis {axis} .*dimension 2"
    with pytest.raises(np.exceptions.AxisError, match=words):
        AXES[kind](put(A), axis)


@pytest.mark.parametrize("axis", ["x", 1.0, None, True, (0, "x"), (0, True)], ids=str)
def test_axis_that_is_no_integer(axis, put):
    with refused(KernelTypeError, "'axis' must be an integer", "int()"):
        (ops.softmax if axis is None else ops.sum)(put(A), axis=axis)


@pytest.mark.parametrize("axis", [(0, 0), (1, -1), (0, 1, 0)], ids=str)
def test_axis_named_twice(axis, put):
    with refused(ShapeError, "'axis' names an axis twice", "of 2 dimensions",
                 "name each axis once"):
        ops.sum(put(A), axis=axis)


@pytest.mark.parametrize("permute", [(0, 1), (0, 0, 1), (0, 1, 2, 2)], ids=str)
def test_permutations(permute, put):
    a = put(np.ones((2, 3, 3)))
    for call in (lambda: ops.batched_matmul(a, a, permute=permute),
                 lambda: ops.transpose(a, permute)):
        with refused(ShapeError, "once"):
            call()


@pytest.mark.parametrize("op", [ops.max, ops.min, ops.argmax, ops.argmin])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 3), None), ((2, 0), 1),
                                             ((0, 3), (0, 1))])
def test_extremes_of_nothing(op, shape, axis, device):
    if isinstance(axis, tuple) and op in (ops.argmax, ops.argmin):
        axis = None
    x = nf.zeros(shape, device=device)
    with refused(ShapeError, op.__name__, "nothing to reduce", str(shape),
                 "an axis that has elements"):
        op(x, axis=axis)


def test_extremes_of_no_rows(device):
    """Nothing is asked for, so nothing is wrong."""
    for shape in ((0, 3), (2, 0, 3)):
        found = ops.max(nf.zeros(shape, device=device), axis=-1)
        assert tuple(found.shape) == shape[:-1]


NO_ARRAYS = {
    "list": [1.0, 2.0], "tuple": (1.0, 2.0), "text": "text", "none": None,
    "set": {1.0}, "function": abs, "type": np.ndarray,
}


@pytest.mark.parametrize("kind", NO_ARRAYS)
@pytest.mark.parametrize(("call", "name"), [
    (lambda put, x: ops.exp(x), "x"), (lambda put, x: ops.add(put(A), x), "y"),
    (lambda put, x: ops.sum(x), "x"), (lambda put, x: ops.softmax(x), "x"),
    (lambda put, x: ops.layer_norm(x), "x"),
    (lambda put, x: ops.matmul(put(A), x), "b"),
    (lambda put, x: ops.cross_entropy(x, put(LABELS)), "logits"),
    (lambda put, x: ops.cross_entropy(put(A), x), "labels"),
    (lambda put, x: ops.take(x, put(LABELS)), "x"),
    (lambda put, x: ops.take(put(A), x), "indices"),
    (lambda put, x: ops.dropout(x, 0.5, 0), "x"),
    (lambda put, x: ops.adam_step(put(A), x, put(A), put(A), step=1), "grad"),
], ids=["exp", "add", "sum", "softmax", "layer_norm", "matmul", "logits", "labels",
        "take", "indices", "dropout", "adam"])
def test_what_is_no_array(kind, call, name, put):
    x = NO_ARRAYS[kind]
    with refused(KernelTypeError, f"'{name}' must be an array", type(x).__name__,
                 "nf.array"):
        call(put, x)


def test_numbers_where_an_array_is_needed(put):
    for call, words in ((lambda: ops.softmax(1.0), ("softmax", "one dimension", "1.0")),
                        (lambda: ops.matmul(put(A), 2.0), ("'b'", "2.0", "multiply")),
                        (lambda: ops.matmul(put(np.array(2.0)), put(A)),
                         ("'a'", "at least one dimension", "multiply"))):
        with refused(KernelTypeError, *words):
            call()


@pytest.mark.parametrize(("arguments", "words"), [
    (((), {}), "missing a required argument: 'x'"),
    ((("x",), {"gamma": 1}), "unexpected keyword argument 'gamma'"),
    ((("x", 1.0), {"beta": 2.0}), "multiple values for argument 'beta'")],
    ids=["missing", "unknown", "twice"])
def test_arguments_are_those_of_the_signature(arguments, words, put):
    args, kwargs = arguments
    with pytest.raises(TypeError, match=rf"swish\(x, beta=1.0\): .*{words}"):
        ops.swish(*(put(A) if a == "x" else a for a in args), **kwargs)


def test_numbers_that_fit_no_integer(put):
    with pytest.raises(RangeError, match=r"'y' is .*out of range for int64"):
        ops.add(put([1]), 2**63)


OPTIONS = {
    "activation": (KernelTypeError, lambda x: ops.linear(x, x, activation="no_such"),
                   ("unknown activation 'no_such'", "relu", "pass a scalar function")),
    "epilogue": (KernelTypeError, lambda x: ops.matmul(x, x, epilogue="no_such"),
                 ("unknown epilogue 'no_such'", "relu", "pass a scalar function")),
    "epilogue-number": (KernelTypeError, lambda x: ops.matmul(x, x, epilogue=2),
                        ("'epilogue' must be a scalar function or the name of one",
                         "int")),
    "extras": (KernelTypeError,
               lambda x: ops.matmul(x, x, epilogue=lambda a, b: a * b),
               ("takes the product and 1 more", "got 0", "pass as many")),
    "gelu": (KernelTypeError, lambda x: ops.gelu(x, "fast"),
             ("'approximate'", "'none' or 'tanh'", "'fast'")),
    "norm": (KernelTypeError, lambda x: ops.norm(x, 3),
             ("'ord'", "1, 2 or inf", "got 3")),
    "reduction": (KernelTypeError,
                  lambda x: ops.cross_entropy(x, LABELS, reduction="avg"),
                  ("'reduction'", "'mean', 'sum' or 'none'", "'avg'")),
    "dropout": (RangeError, lambda x: ops.dropout(x, 1.5, 0),
                ("'p' must be in [0, 1)", "1.5")),
    "step": (RangeError, lambda x: ops.adam_step(x, x, x, x, step=0),
             ("'step' counts from 1", "got 0")),
    "momentum": (KernelTypeError, lambda x: ops.sgd_step(x, x, lr=0.1, momentum=0.9),
                 ("'momentum' needs 'velocity'", "zeros")),
    "subscripts": (KernelTypeError, lambda x: ops.contract(3, x, x),
                   ("'subscripts' must be text", "'mk,kn->mn'", "int")),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_options(kind, put):
    error, call, words = OPTIONS[kind]
    with refused(error, *words):
        call(put(np.eye(3)))


@pytest.mark.parametrize("label", [4, -1, 100])
def test_labels_out_of_range(label):
    with refused(RangeError, "'labels' out of range", f"got {label}", "[0, 4)",
                 "ignore_index"):
        ops.cross_entropy(A, np.array([0, label, 1]))
    assert issubclass(RangeError, ValueError)


def test_labels_out_of_range_beside_one_that_is_ignored():
    with refused(RangeError, "'labels' out of range", "got 7"):
        ops.cross_entropy(A, np.array([0, -100, 7]), ignore_index=-100)
    assert np.isfinite(ops.cross_entropy(A, np.array([0, -100, 3]), ignore_index=-100))


def test_no_index_is_out_of_range():
    assert ops.take(A, np.zeros(0, int), axis=0).shape == (0, 4)


@pytest.mark.parametrize("index", [3, -4])
def test_indices_out_of_range(index):
    for call in (lambda i: ops.take(A, i), lambda i: ops.embedding(A, i),
                 lambda i: nf.Variable(A)[i]):
        with refused(RangeError, "'indices' out of range", f"got {index}", "[-3, 3)",
                     "clip"):
            call(np.array([0, index]))
    assert issubclass(RangeError, IndexError)


@pytest.mark.gpu
def test_values_out_of_range_on_a_device(device, put):
    """To look costs a wait: NaN, or the nearest row; an error if debugging."""
    labels, indices = put([0, 4, 1]), put([0, 5])
    loss = nf.to_numpy(ops.cross_entropy(put(A), labels, reduction="none"))
    assert np.isnan(loss).tolist() == [False, True, False]
    np.testing.assert_array_equal(nf.to_numpy(ops.take(put(A), indices)), A[[0, 2]])
    with nf.config.override(debug=True):
        with refused(RangeError, "'labels' out of range", "got 4"):
            ops.cross_entropy(put(A), labels)
        with refused(RangeError, "'indices' out of range", "got 5"):
            ops.take(put(A), indices)


def test_arrays_that_numpy_cannot_hand_over():
    whole = np.frombuffer(b"0" * 17, np.uint8)
    for x, words in ((np.ma.masked_array([1.0, 2.0], [0, 1]),
                      ("masked arrays", "x.filled(value)")),
                     (whole[1:].view(np.float64), ("multiples of 8 bytes", "x.copy()")),
                     (np.zeros(3, [("a", "i1"), ("b", "f4")])["b"], ("x", "copy"))):
        with refused(KernelTypeError, "x: ", *words):
            ops.exp(x)


def test_optimiser_state_that_is_one_array():
    p, g, v = A.copy(), A.copy(), A.copy()
    with refused(OverlapError, "out[1] and out[0] share memory", "separate arrays"):
        ops.adam_step(p, g, p, v, step=1)
    np.testing.assert_array_equal(p, A)
    np.testing.assert_array_equal(v, A)


@pytest.mark.parametrize("given", ["max", "argmax", ops.sum, ops.max])
def test_a_reduction_is_no_epilogue(given, put):
    with refused(KernelTypeError, "reduces whole arrays", "epilogue"):
        ops.linear(put(A), put(np.ones((4, 2))), activation=given)


def test_a_reduction_is_not_called_inside_a_scalar_function(put):
    @nf.elementwise
    def centred(x):
        return x - nf.ops.max(x)

    with refused(KernelTypeError, "max reduces whole arrays", "scalar function"):
        centred(put(A))


def test_an_unknown_activation_lists_what_can_be_one(put):
    with pytest.raises(KernelTypeError) as caught:
        ops.linear(put(A), put(np.ones((4, 2))), activation="nonsense")
    known = str(caught.value).split("known: ")[1].split(", ")
    assert {"gelu", "swish"} <= set(known)
    assert not {"max", "argmax", "sum", "softmax"} & set(known)


@pytest.mark.parametrize("share", [-0.1, 2.0, float("nan")])
def test_label_smoothing_out_of_range(share, put):
    with refused(RangeError, "'label_smoothing'", "[0, 1]", repr(share)):
        ops.cross_entropy(put(A), put(LABELS), label_smoothing=share)


def test_a_mask_is_not_to_be_cast_to_an_index(put):
    with refused(KernelTypeError, "dtype bool", "numpy.flatnonzero"):
        ops.take(put(A), put(np.array([True, False, True])))


@pytest.mark.parametrize("join", [ops.concatenate, ops.stack])
@pytest.mark.parametrize("given", [[1.0], None, 2])
def test_joining_what_is_no_array(join, given, put):
    with refused(KernelTypeError, "'arrays[0]'", "must be an array", "nf."):
        join([given, put(A)])
