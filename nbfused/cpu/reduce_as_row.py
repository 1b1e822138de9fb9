"""A reduction along one axis as a `Row` with one stage, whose results are per row.

The kernel across rows stages short ones in squares of vectors, which a reduction would
gather number by number: benchmarks/notes/cpu.md#rows-across.
"""

from __future__ import annotations

from ..scalar.ir.nodes import Block, Function
from ..scalar.typing.types import Typed, compute_dtype
from ..specs import TypedReduce, TypedRow
from ..specs.row import TypedOut, TypedStage

__all__ = ["as_row"]


def as_row(typed: TypedReduce) -> TypedRow | None:
    """The same reduction as a Row; None where its map indexes arrays."""
    params = typed.element.function.params
    if any(kind == "raw" or (kind in ("index", "size") and kind != p)
           for p, kind in zip(params, typed.kinds, strict=True)):
        return None
    inputs = tuple((p, k) for p, k in zip(params, typed.kinds, strict=True)
                   if k not in ("index", "size"))
    names = tuple(f"reduced_{k}" for k in range(len(typed.post.results)))
    stage = TypedStage(names, typed.element, typed.merge, typed.post, typed.identity,
                       typed.state)
    dtypes = {p: typed.element.dtypes[p] for p, _ in inputs}
    outs = []
    for name, dtype in zip(names, typed.post.results, strict=True):
        dtypes[name] = compute_dtype(dtype)
        same = Typed(Function(f"{typed.element.function.name}_of_row", (name,),
                              Block((), (name,))), {name: dtypes[name]}, (dtype,))
        outs.append(TypedOut("row", same, dtypes[name]))
    return TypedRow(tuple(p for p, _ in inputs), tuple(k for _, k in inputs), (stage,),
                    tuple(outs), dtypes)
