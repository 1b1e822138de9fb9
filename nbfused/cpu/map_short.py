"""Generated text of the kernels of `Map` for rows of few elements: see `short_rows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ..backend import Signature
from ..specs import TypedMap
from .short_rows import ShortRows, Way, is_vector, kernel_of_rows
from .text.elements import Elements, elementwise
from .text.operands import Frame, Operand
from .text.reuse import is_cheap

__all__ = ["short_map"]

#: Elements of a row at most, and of one with elementary functions: 12 elements take as
#: long by the usual loop, and 16 exponentials 0.6 s to compile.
#: benchmarks/notes/cpu.md#short-rows
_LONGEST, _LONGEST_COSTLY = 8, 16


def short_map(typed: TypedMap, signature: Signature) -> ShortRows | None:
    """The kernels of a Map for rows of few elements; None of one that has none."""
    function = typed.function
    if typed.inner or not set(typed.kinds) <= {"element", "scalar", "index"} or \
            len(signature.outputs) != len(function.results) or not is_vector(function):
        return None
    return ShortRows([function], _LONGEST if is_cheap(function) else _LONGEST_COSTLY,
                     [True]*len(signature.outputs),
                     lambda row, ways: _text(typed, signature, row, ways), planes=True)


def _text(typed: TypedMap, signature: Signature, row: int, ways: Sequence[Way],
          ) -> tuple[list[str], Frame]:
    rank = signature.ranks[0] - 1
    function = typed.function
    inputs = len(ways) - len(signature.outputs)
    elements, operands, scalars = elementwise(
        function, typed.kinds, signature, [code for code, _ in ways[:inputs]], rank)
    outputs = [Operand(f"y{k}", dtype, "1", rank, True)
               for k, dtype in enumerate(signature.outputs)]
    arrays = [replace(o, row=apart) for o, (_, apart)
              in zip([*operands, *outputs], ways, strict=True)]
    frame = Frame(arrays, rank, scalars, [o.apart for o in arrays if o.code == "p"])
    lines, names = _lines(typed, elements, arrays, inputs, row)
    title = f"Map {function.function.name} of rows of {row}"
    return kernel_of_rows(title, [function], lines, names, frame), frame


def _lines(typed: TypedMap, elements: Elements, arrays: Sequence[Operand], inputs: int,
           row: int) -> tuple[list[str], list[str]]:
    """Lines that compute the row ``j``, and the names that they need besides."""
    function = typed.function
    body: list[str] = []
    stores: list[str] = []
    names: dict[str, None] = {}
    by_name = {o.name: o for o in arrays}
    for at in range(row):
        table = {parameter: replace(by_name[slot.name], at=at)
                 if isinstance(slot, Operand) else slot
                 for parameter, slot in elements.table.items()}
        one = replace(elements, table=table, index=f"{row}*(first + j) + {at}")
        results = [f"r{at}_{k}" for k in range(len(function.results))]
        body += one.evaluate(function, results, f"v{at}_")
        outputs = [replace(o, at=at) for o in arrays[inputs:]]
        stores += [o.store("j", dtype, r) for o, dtype, r
                   in zip(outputs, function.results, results, strict=True)]
        names |= dict.fromkeys(chain(one.names(function),
                                     *(o.names for o in outputs)))
    return [*body, *stores], list(names)
