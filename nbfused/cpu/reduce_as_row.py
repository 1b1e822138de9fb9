"""A reduction along one axis as a `Row`, whose results are per row.

The kernel across rows stages short ones in squares of vectors, which a reduction would
gather number by number: benchmarks/notes/cpu.md#rows-across.  There is one stage, or
two for a sum of exponentials: the second one knows the maximum, where the merge of a
reduction takes two exponentials for each element.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..scalar.ir.nodes import Block, Function, Let, Literal, Value, substitute
from ..scalar.typing.types import Typed, compute_dtype, specialize
from ..specs import COMBINES, TypedReduce, TypedRow
from ..specs.combine import sum_combine
from ..specs.row import TypedOut, TypedStage

__all__ = ["as_row", "sums_exponentials"]

#: The name of a row's maximum.
_TOP = "reduced_top"


def as_row(typed: TypedReduce) -> TypedRow | None:
    """The same reduction as a Row; None where its map indexes arrays."""
    params = typed.element.function.params
    if any(kind == "raw" or (kind in ("index", "size") and kind != p)
           for p, kind in zip(params, typed.kinds, strict=True)):
        return None
    inputs = tuple((p, k) for p, k in zip(params, typed.kinds, strict=True)
                   if k not in ("index", "size"))
    names = tuple(f"reduced_{k}" for k in range(len(typed.post.results)))
    stages = _below_maximum(typed, names) if sums_exponentials(typed) else (TypedStage(
        names, typed.element, typed.merge, typed.post, typed.identity, typed.state),)
    dtypes = {p: typed.element.dtypes[p] for p, _ in inputs}
    dtypes[_TOP] = typed.state[0]
    outs = []
    for name, dtype in zip(names, typed.post.results, strict=True):
        dtypes[name] = compute_dtype(dtype)
        same = Typed(Function(f"{typed.element.function.name}_of_row", (name,),
                              Block((), (name,))), {name: dtypes[name]}, (dtype,))
        outs.append(TypedOut("row", same, dtypes[name]))
    return TypedRow(tuple(p for p, _ in inputs), tuple(k for _, k in inputs), stages,
                    tuple(outs), dtypes)


def sums_exponentials(typed: TypedReduce) -> bool:
    """Whether the state is a maximum and a sum of exponentials below it."""
    first, combine = typed.state[0], COMBINES["logsumexp"]
    if {*typed.state, *map(compute_dtype, typed.element.results)} != {first} or \
            first.kind != "f" or typed.merge.function.name != combine.merge.name:
        return False
    usual = specialize(combine.merge, (first,) * 4)
    return typed.merge.function == usual.function and typed.merge.dtypes == usual.dtypes


def _below_maximum(typed: TypedReduce, names: tuple[str, ...],
                   ) -> tuple[TypedStage, TypedStage]:
    """The maximum; then the sum of the exponentials of what elements are below it."""
    dtype, (lowest, nothing) = typed.state[0], typed.identity
    largest = specialize(COMBINES["max"].merge, (dtype,) * 2)
    add = specialize(sum_combine(1).merge, (dtype,) * 2)
    value = typed.element.function.results[0]
    element = replace(typed.element, results=(dtype,), function=replace(
        typed.element.function, body=replace(typed.element.function.body,
                                             yields=(value,))))
    same = Typed(Function("top", ("m",), Block((), ("m",))), {"m": dtype}, (dtype,))
    return (TypedStage((_TOP,), element, largest, same, (lowest,), (dtype,)),
            TypedStage(names, _exponential(typed), add, _with_top(typed.post),
                       (nothing,), (dtype,)))


def _exponential(typed: TypedReduce) -> Typed:
    """An element's share of the sum: its weight, if it is the maximum, even inf."""
    element, dtype = typed.element, typed.state[0]
    value, weight = element.function.results
    more = (Let(("below_same",), "eq", (value, _TOP)),
            Let(("below_top",), "sub", (value, _TOP)),
            Let(("below",), "select", ("below_same", Literal(dtype.name, "0.0"),
                                       "below_top")),
            Let(("below_exp",), "exp", ("below",)),
            Let(("below_term",), "mul", (weight, "below_exp")))
    body = element.function.body
    function = replace(element.function, params=(*element.function.params, _TOP),
                       body=replace(body, statements=(*body.statements, *more),
                                    yields=("below_term",)))
    dtypes = {**element.dtypes, **{s.results[0]: dtype for s in more}, _TOP: dtype,
              "below_same": np.dtype(np.bool_)}
    return Typed(function, dtypes, (dtype,))


def _with_top(post: Typed) -> Typed:
    """``post`` of the sum, which finds the maximum by its name."""
    top, total, *others = post.function.params

    def value(v: Value) -> Value:
        return _TOP if v == top else v

    function = replace(post.function, params=(total, _TOP, *others),
                       body=substitute(post.function.body, value))
    dtypes = {(_TOP if name == top else name): d for name, d in post.dtypes.items()}
    return replace(post, function=function, dtypes=dtypes)

