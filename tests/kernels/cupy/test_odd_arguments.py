"""What is no array, number or option gives a named error wherever it is passed."""

from __future__ import annotations

import array
import contextlib
import warnings

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import DefinitionError, KernelTypeError, NbFusedError

pytestmark = pytest.mark.interpreted

ODD = {
    "None": None, "str": "a", "list": [1.0], "generator": (i for i in ()), "dict": {},
    "set": {1}, "objects": np.array([1, "a", None], object), "texts": np.array(["a"]),
    "dates": np.array(["2020-01-01"], "M8[D]"), "records": np.zeros(2, [("a", float)]),
    "masked": np.ma.array([1.0, 2.0], mask=[0, 1]), "np.str_": np.str_("a"),
    "longdouble": np.zeros(3, np.longdouble), "swapped": np.arange(3.0).astype(">f8"),
    "date": np.datetime64("2020-01-01"), "class": int, "bytes": b"a", "range": range(3),
    "buffer": array.array("d", [1.0]), "large": 2**70, "float": 1.5, "complex": 1j,
}
X = np.arange(6.0)
MASKED = ODD["masked"]

add = nf.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
total = nf.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")


@nf.rawkernel(differentiable=True)
def copy(x, y):
    i = nf.grid(1)
    if i < y.shape[0]:
        y[i] = x[i]


def elementwise(**options):
    return nf.ElementwiseKernel("T x", "T y", "y = x", "k", **options)


def reduction(**options):
    slots = {"map_expr": "x", "reduce_expr": "a + b", "post_map_expr": "y = a",
             "identity": "0", **options}
    return nf.ReductionKernel("T x", "T y", **slots)


PLACES = {
    "an input": lambda v: add(v, X), "both inputs": lambda v: add(v, v),
    "an output": lambda v: add(X, X, v), "a reduced array": lambda v: total(v),
    "what is reduced into": lambda v: total(X, v),
    "a kernel's array": lambda v: copy[1, 8](v, X.copy()),
    "a kernel's output": lambda v: copy[1, 8](X, v),
    "a derivative": lambda v: copy.bwd[1, 8]((X, v), (X.copy(), X.copy())),
    "a grid": lambda v: copy[v, 1](X, X.copy()),
    "a block": lambda v: copy[1, v](X, X.copy()),
    "shared_mem": lambda v: copy((1,), (1,), (X, X.copy()), shared_mem=v),
    "arguments": lambda v: copy((1,), (1,), v),
    "a stream": lambda v: copy((1,), (1,), (X, X.copy()), stream=v),
    "preamble": lambda v: elementwise(preamble=v)(X),
    "options": lambda v: elementwise(options=v)(X),
    "loop_prep": lambda v: elementwise(loop_prep=v)(X),
    "after_loop": lambda v: elementwise(after_loop=v)(X),
    "language": lambda v: elementwise(language=v)(X),
    "block_size": lambda v: elementwise()(X, block_size=v),
    "reduce_type": lambda v: reduction(reduce_type=v)(X),
    "a reduction's preamble": lambda v: reduction(preamble=v)(X),
    "a reduction's options": lambda v: reduction(options=v)(X),
    "identity": lambda v: reduction(identity=v)(X),
    "a slot": lambda v: reduction(map_expr=v)(X),
    "a text's kind": lambda v: add.source(v), "a text's dtype": lambda v: add.source(
        "primal", v),
    "a kernel text's kind": lambda v: copy.source(v, X, X),
    "an op's outputs": lambda v: copy.as_op(outputs=v, grid=1, block=8)(X),
    "an op's rule": lambda v: copy.as_op(outputs={"y": v}, grid=1, block=8)(X),
    "an op's grid": lambda v: copy.as_op(outputs={"y": "x"}, grid=v, block=8)(X),
    "a rule by hand": lambda v: nf.rawkernel(copy.pyfunc).defvjp(v),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("odd", ODD)
def test_nothing_else_is_raised(place, odd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # options of NVRTC are ignored with one
        with contextlib.suppress(NbFusedError):
            PLACES[place](ODD[odd])


@pytest.mark.parametrize("place", ["a grid", "a block", "shared_mem", "a stream",
                                   "arguments", "a derivative"])
@pytest.mark.parametrize("odd", ["objects", "masked", "float", "str"])
def test_these_are_refused(place, odd):
    with pytest.raises(NbFusedError):
        PLACES[place](ODD[odd])


@pytest.mark.parametrize("option", ["preamble", "loop_prep", "after_loop"])
def test_c_is_a_string(option):
    with pytest.raises(DefinitionError, match=f"'{option}' must be a string in C, got"):
        elementwise(**{option: 3})


def test_a_dtype_without_kernels_is_named():
    for x in (np.zeros(2, np.longdouble), np.array(["a"]), np.zeros(2, ">f8")):
        for run in (lambda x: add(x, 1), total, lambda x: add(1, x)):
            with pytest.raises(KernelTypeError, match="has no kernels"):
                run(x)
    with pytest.raises(KernelTypeError, match="add: 'x': dtype"):
        add(np.datetime64("2020-01-01"), X)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_does_not_multiply_elements():
    with pytest.raises(KernelTypeError, match=r"'x' is a numpy\.matrix"):
        nf.fuse(lambda x: x * x)(np.matrix([[1.0, 2.0], [3.0, 4.0]]))


def test_what_does_not_say_what_it_takes():
    with pytest.raises(KernelTypeError, match="does not say what it takes"):
        nf.fuse(int)
