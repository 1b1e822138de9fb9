"""A backend that runs specs on NumPy views: slow, short, and strict about its calls.

It knows the few operations that the tests of dispatch need, and no dtype rules.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nbfused.arrays import Array, host_view
from nbfused.arrays.libraries.numpy import NUMPY
from nbfused.backend import PROTOCOL_VERSION
from nbfused.dispatch import calls
from nbfused.scalar.ir.nodes import Block, Function, Let, Literal
from nbfused.specs import COMBINES, Contract, Map, Out, Reduce, Row, Stage


def function(name, params, *lets, results=None):
    """A scalar function from ``(result, op, *args)``; the last result by default."""
    body = tuple(Let((let[0],) if let[0] else (), let[1], tuple(let[2:]))
                 for let in lets)
    return Function(name, params, Block(body, results or (lets[-1][0],)))


def numpy_backend() -> Any:
    """A new one; it has not all that the protocol asks for."""
    return NumpyBackend()


class NumpyBackend:
    """Records the signature and the call of every launch."""

    name = "cpu"
    protocol = PROTOCOL_VERSION

    def __init__(self):
        self.built = []
        self.calls = []

    def available(self):
        return None

    def owns(self, device):
        return device == "cpu"

    def synchronize(self):
        pass

    def build(self, spec, signature):
        self.built.append((spec, signature))
        runner = RUNNERS[type(spec)]

        def launch(call):
            self.calls.append(call)
            dtypes = array_dtypes(spec, signature)
            check(signature, call, dtypes)
            arrays = [view(call, i, code, dtype) for i, (code, dtype)
                      in enumerate(zip(signature.inner, dtypes, strict=True))]
            count = len(arrays) - len(signature.outputs)
            runner(spec, call, arrays[:count], arrays[count:], signature.ranks)

        return launch


def array_dtypes(spec, signature):
    kinds = [k for k in getattr(spec, "kinds", ()) if k not in IMPLICIT]
    if isinstance(spec, Contract):
        kinds = ["element", "element", *kinds]
    return [t for t, k in zip(signature.inputs, kinds, strict=True)
            if k != "scalar"] + list(signature.outputs)


def check(signature, call, dtypes):
    """What a kernel relies on."""
    assert len(call.shape) == sum(signature.ranks)
    assert len(call.pointers) == len(call.strides) == len(dtypes)
    assert all(type(p) is int for p in call.pointers)
    for position, (code, strides) in enumerate(
            zip(signature.inner, call.strides, strict=True)):
        if code[0] == "r":
            assert len(strides) == int(code[1:])
            continue
        assert len(strides) == len(call.shape)
        assert code == "".join(letter(strides[i]) for i in
                               innermost(signature.ranks, position))


def innermost(ranks, position):
    if len(ranks) < 4:
        return [sum(ranks) - 1]
    m, n, k = (sum(ranks[:i]) - 1 for i in (2, 3, 4))
    return ([m, k], [k, n])[position] if position < 2 else [m, n]


def letter(stride):
    return {0: "0", 1: "1"}.get(stride, "s")


def view(call, i, code, dtype):
    # Arrays that a function indexes: their extents are not in the call.
    shape = (64,) * int(code[1:]) if code[0] == "r" else call.shape
    return host_view(Array(call.pointers[i], shape, call.strides[i], dtype, "cpu", None,
                           False, NUMPY, None))


IMPLICIT = ("index", "size", "scatter")
OPS: dict[str, Any] = {"id": lambda x: x, "add": np.add, "mul": np.multiply,
                       "sub": np.subtract}


def evaluate(f, *args):
    names = dict(zip(f.params, args, strict=True))

    def value(x):
        return x.value if isinstance(x, Literal) else names[x]

    for let in f.body.statements:
        values = [value(x) for x in let.args]
        if let.op == "load":
            names[let.results[0]] = values[0][tuple(values[1:])]
        elif let.op == "atomic_add":
            np.add.at(values[0], tuple(values[1:-1]), values[-1])
        elif let.op == "cast":
            names[let.results[0]] = np.asarray(values[0]).astype(let.attr)
        else:
            names[let.results[0]] = OPS[let.op](*values)
    return [value(x) for x in f.body.yields]


def bind(spec_kinds, inputs, scalars, shape, size):
    arrays, numbers = iter(inputs), iter(scalars)
    for kind in spec_kinds:
        if kind == "index":
            yield np.arange(prod(shape)).reshape(shape)
        elif kind == "size":
            yield size
        else:
            yield next(numbers if kind == "scalar" else arrays)


def run_map(spec, call, inputs, outputs, ranks):
    scatter = outputs[len(spec.function.results):]
    kinds = ["raw" if k == "scatter" else k for k in spec.kinds]
    assert kinds.index("raw") >= 0 if scatter else True
    args = bind(kinds, [*inputs, *scatter], call.scalars, call.shape, prod(call.shape))
    results = evaluate(spec.function, *args)
    for out, result in zip(outputs, [np.array(r) for r in results], strict=False):
        out[...] = result


def run_reduce(spec, call, inputs, outputs, ranks):
    assert spec.combine.name == "sum"
    kept, reduced = ranks
    size = prod(call.shape[kept:])
    args = bind(spec.kinds, inputs, call.scalars, call.shape[kept:], size)
    (mapped,) = evaluate(spec.map, *args)
    state = np.broadcast_to(mapped, call.shape).sum(
        axis=tuple(range(kept, kept + reduced)), keepdims=True)
    extra = [size] * (len(spec.post.params) - 1)
    for out, result in zip(outputs, evaluate(spec.post, state, *extra), strict=True):
        first(out, range(kept, kept + reduced))[...] = result


def first(out, axes):
    """Along axes that an output does not have, its only element."""
    assert not any(out.strides[axis] for axis in axes)
    shape = [1 if axis in axes else n for axis, n in enumerate(out.shape)]
    return as_strided(out, shape, out.strides)  # also where there are none to reduce


def run_row(spec, call, inputs, outputs, ranks):
    *rows, column = range(len(call.shape))
    scope = dict(zip(spec.inputs, bind(spec.kinds, inputs, call.scalars, (), 0),
                     strict=True))
    scope["index"], scope["size"] = np.arange(call.shape[-1]), call.shape[-1]
    for stage in spec.stages:
        (mapped,) = evaluate(stage.map, *(scope[p] for p in stage.map.params))
        state = np.sum(mapped, axis=-1, keepdims=True)
        values = evaluate(stage.post, state, *(scope[p] for p in stage.wired))
        scope |= dict(zip(stage.names, values, strict=True))
    for wiring, out in zip(spec.outs, outputs, strict=True):
        (result,) = evaluate(wiring.function,
                             *(scope[p] for p in wiring.function.params))
        summed = {"element": (), "row": (), "column": tuple(rows),
                  "scalar": (*rows, column)}[wiring.kind]
        if wiring.kind == "row":
            first(out, [column])[...] = result[..., :1]
        else:
            full = np.broadcast_to(result, call.shape)
            first(out, summed)[...] = full.sum(axis=summed, keepdims=True) \
                if summed else full


def run_contract(spec, call, inputs, outputs, ranks):
    inner = tuple(range(len(call.shape) - ranks[3], len(call.shape)))
    total = (inputs[0] * inputs[1]).sum(axis=inner, keepdims=True)
    extras = [first(x, inner) for x in inputs[2:]]
    args = bind(spec.kinds, extras, call.scalars, (), 0)
    for out, result in zip(outputs, evaluate(spec.epilogue, total, *args), strict=True):
        first(out, inner)[...] = result


RUNNERS: dict[type, Any] = {Map: run_map, Reduce: run_reduce, Row: run_row,
                            Contract: run_contract}


COPY = calls.COPY
ADD = Map(function("add", ("x", "y"), ("z", "add", "x", "y")), ("element", "element"))
SCALE = Map(function("scale", ("x", "c"), ("z", "mul", "x", "c")),
            ("element", "scalar"))
BOTH = Map(function("both", ("x", "y"), ("s", "add", "x", "y"), ("d", "sub", "x", "y"),
                    results=("s", "d")), ("element", "element"))
COUNT = Map(function("count", ("x", "i", "n"), ("a", "mul", "x", "n"),
                     ("z", "add", "a", "i")), ("element", "index", "size"))
TAKE = Map(function("take", ("table", "i"), ("z", "load", "table", "i")),
           ("raw", "element"))
SUM = Reduce(function("id", ("x",), ("z", "id", "x")), ("element",), COMBINES["sum"],
             function("post", ("s",), ("z", "id", "s")))
MATMUL = function("id", ("acc",), ("z", "id", "acc"))
EPILOGUE = function("bias", ("acc", "bias", "c"), ("y", "add", "acc", "bias"),
                    ("z", "mul", "y", "c"))
ROW = Row(
    "centre", ("x", "r", "c", "a"), ("element", "row", "column", "scalar"),
    (Stage(("m",), function("map", ("x", "c"), ("z", "mul", "x", "c")), COMBINES["sum"],
           function("post", ("s",), ("z", "id", "s"))),),
    (Out("element", function("out", ("x", "m", "r", "a"), ("y", "sub", "x", "m"),
                             ("z", "add", "y", "r"), ("w", "mul", "z", "a"))),
     Out("row", function("row", ("m",), ("z", "id", "m"))),
     Out("column", function("column", ("x", "r"), ("z", "mul", "x", "r"))),
     Out("scalar", function("scalar", ("x",), ("z", "id", "x")))))


def reduce_of(axes, keepdims=False):
    return Reduce(SUM.map, SUM.kinds, SUM.combine, SUM.post, axes, keepdims)
