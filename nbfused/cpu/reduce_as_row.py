"""A reduction along one axis as a `Row`, whose results are per row.

The kernel across rows stages short ones in squares of vectors, which a reduction would
gather number by number: benchmarks/notes/cpu.md#rows-across.  There is one stage, or
two where the second one had better know the largest or smallest element: a sum of
exponentials takes one of them for each element, where the merge of a reduction takes
two, and the place of an extreme one is a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Protocol

import numpy as np

from ..arrays.libraries.numpy import NUMPY
from ..backend import Call, Signature, Start
from ..scalar.ir.nodes import Block, Function, Let, Literal, Value, substitute
from ..scalar.typing.types import Typed, compute_dtype, specialize
from ..specs import COMBINES, TypedReduce, TypedRow
from ..specs.combine import sum_combine
from ..specs.row import TypedOut, TypedStage
from ..support.loop_nests import dense_strides
from .row import RowLauncher
from .runtime.native import Fill, Native, Part, moved, native_of, shared_of, with_native
from .runtime.schedule import LINE
from .text.fold import FIRST
from .text.operands import INT64

__all__ = ["TOP", "RowsOfChunks", "as_row", "in_two_stages", "two_stages"]

#: The name of a row's largest or smallest element.
TOP = "reduced_top"

#: The combine of the first stage, by that of the reduction.
_FIRST = {"logsumexp": "max", "argmax": "max", "argmin": "min"}

_BOOL, _PLACE = np.dtype(np.bool_), np.dtype(np.int32)


def as_row(typed: TypedReduce) -> TypedRow | None:
    """The same reduction as a Row; None where its map indexes arrays."""
    params = typed.element.function.params
    if any(kind == "raw" or (kind in ("index", "size") and kind != p)
           for p, kind in zip(params, typed.kinds, strict=True)):
        return None
    inputs = tuple((p, k) for p, k in zip(params, typed.kinds, strict=True)
                   if k not in ("index", "size"))
    names = tuple(f"reduced_{k}" for k in range(len(typed.post.results)))
    combine = in_two_stages(typed)
    stages = (TypedStage(names, typed.element, typed.merge, typed.post, typed.identity,
                         typed.state),) if combine is None else \
        two_stages(typed, combine, names)
    dtypes = {p: typed.element.dtypes[p] for p, _ in inputs}
    dtypes[TOP] = typed.state[0]
    outs = []
    for name, dtype in zip(names, typed.post.results, strict=True):
        dtypes[name] = compute_dtype(dtype)
        same = Typed(Function(f"{typed.element.function.name}_of_row", (name,),
                              Block((), (name,))), {name: dtypes[name]}, (dtype,))
        outs.append(TypedOut("row", same, dtypes[name]))
    return TypedRow(tuple(p for p, _ in inputs), tuple(k for _, k in inputs), stages,
                    tuple(outs), dtypes)


def in_two_stages(typed: TypedReduce) -> str | None:
    """The name of a combine of which a row has two stages, else None."""
    first = typed.state[0]
    if first.kind not in "fiu" or len(typed.state) != 2 or compute_dtype(
            typed.element.results[0]) != first:
        return None
    found = next((name for name in _FIRST if _merges(typed, name)), None)
    return found if found == "logsumexp" or _knows_places(typed) else None


def _knows_places(typed: TypedReduce) -> bool:
    """Whether each element comes with its own index: merged states bring others."""
    _, place = typed.element.function.results
    return any(p == place and kind == "index" for p, kind
               in zip(typed.element.function.params, typed.kinds, strict=True))


def two_stages(typed: TypedReduce, combine: str, names: tuple[str, ...] = (),
               ) -> tuple[TypedStage, TypedStage]:
    """The stages that find the extreme element, and what is known with it.

    Parameters
    ----------
    combine
        What `in_two_stages` has found.
    names
        Of the results.
    """
    return _first(typed, _FIRST[combine]), _second(typed, names, combine)


def _merges(typed: TypedReduce, combine: str) -> bool:
    """Whether the merge is that of a combine, whatever the states are stored as."""
    usual = specialize(COMBINES[combine].merge, (*typed.state, *typed.state))
    return typed.merge.function == usual.function and typed.merge.dtypes == usual.dtypes


def _first(typed: TypedReduce, combine: str) -> TypedStage:
    """The stage that finds the largest or smallest element."""
    dtype, element = typed.state[0], typed.element
    value = replace(element, results=(dtype,), function=replace(
        element.function, body=replace(element.function.body,
                                       yields=element.function.results[:1])))
    same = Typed(Function("top", ("m",), Block((), ("m",))), {"m": dtype}, (dtype,))
    return TypedStage((TOP,), value, specialize(COMBINES[combine].merge, (dtype,) * 2),
                      same, typed.identity[:1], (dtype,))


def _second(typed: TypedReduce, names: tuple[str, ...], combine: str) -> TypedStage:
    """The stage that knows it."""
    if combine == "logsumexp":
        dtype, merge, identity = typed.state[1], sum_combine(1), typed.identity[1]
        element = _exponential(typed)
    else:
        merge, element = COMBINES["min"], _place(typed)
        dtype, identity = _PLACE, _nowhere()
    return TypedStage(names, element, specialize(merge.merge, (dtype,) * 2),
                      _with_top(typed.post), (identity,), (dtype,))


def _exponential(typed: TypedReduce) -> Typed:
    """An element's share of the sum: its weight, if it is the maximum, even inf."""
    dtype = typed.state[0]
    value, weight = typed.element.function.results
    return _with(typed, [
        (Let(("at_top",), "eq", (value, TOP)), _BOOL),
        (Let(("under",), "sub", (value, TOP)), dtype),
        (Let(("below",), "select", ("at_top", Literal(dtype.name, "0.0"), "under")),
         dtype),
        (Let(("scale",), "exp", ("below",)), dtype),
        (Let(("share",), "mul", (weight, "scale")), dtype)])


def _place(typed: TypedReduce) -> Typed:
    """The first lane's index, if an element is the extreme one, or NaN as that is."""
    value, _ = typed.element.function.results
    return _with(typed, [
        (Let(("at_top",), "eq", (value, TOP)), _BOOL),
        (Let(("is_nan",), "ne", (value, value)), _BOOL),
        (Let(("found",), "or", ("at_top", "is_nan")), _BOOL),
        (Let(("at",), "cast", (FIRST,), _PLACE.name), _PLACE),
        (Let(("place",), "select", ("found", "at", _nowhere())), _PLACE)])


def _nowhere() -> Literal:
    """A place after all others, to which the number of a lane can be added.

    Not the last int32: LLVM drops the minimum of it and another place, and stores under
    a mask what is left, which takes 20 times as long on processors without AVX-512.
    """
    return Literal(_PLACE.name, str(1 << 30))


def _with(typed: TypedReduce, added: Sequence[tuple[Let, np.dtype]]) -> Typed:
    """An element's function that knows the extreme one, with more statements."""
    def name(v: Value) -> Value:
        return f"row_{v}" if v in made else v

    made = {s.results[0] for s, _ in added}
    more = [replace(s, results=(f"row_{s.results[0]}",), args=tuple(map(name, s.args)))
            for s, _ in added]
    element = typed.element
    body = element.function.body
    found = [v for v in (TOP, FIRST) if any(v in s.args for s in more)]
    function = replace(element.function, params=(*element.function.params, *found),
                       body=replace(body, statements=(*body.statements, *more),
                                    yields=more[-1].results))
    dtypes = {**element.dtypes, TOP: typed.state[0], FIRST: INT64, **{
        s.results[0]: dtype for s, (_, dtype) in zip(more, added, strict=True)}}
    return Typed(function, dtypes, (added[-1][1],))


def _with_top(post: Typed) -> Typed:
    """``post`` of the second stage, which finds the first one's result by its name."""
    top, other, *numbers = post.function.params

    def value(v: Value) -> Value:
        return TOP if v == top else v

    function = replace(post.function, params=(other, TOP, *numbers),
                       body=substitute(post.function.body, value))
    dtypes = {(TOP if name == top else name): d for name, d in post.dtypes.items()}
    return replace(post, function=function, dtypes=dtypes)


class _Binds(Protocol):
    def bind(self, call: Call) -> Start:
        """A start for a call."""


class RowsOfChunks:
    """A long reduction as a Row of each chunk, whose states are then merged.

    Parameters
    ----------
    typed, signature
        Of a reduction in two stages, of elements alone, along one axis.
    reduction
        Makes what binds the merge.
    """

    def __init__(self, typed: TypedReduce, signature: Signature,
                 reduction: Callable[[TypedReduce, Signature], _Binds]) -> None:
        self._state = typed.state
        self._sizes = [d.itemsize for d in signature.inputs if isinstance(d, np.dtype)]
        count = self._inputs = len(signature.inputs)
        names = tuple(f"state{k}" for k in range(len(typed.state)))
        same = Typed(Function("states", names, Block((), names)),
                     dict(zip(names, typed.state, strict=True)), typed.state)
        row = as_row(replace(typed, post=same))
        assert row is not None
        self._rows = RowLauncher(row, signature._replace(
            outputs=typed.state, ranks=(signature.ranks[0] + 1, 1),
            inner=(*signature.inner[:count], *["0"]*len(names))))
        self._merge = reduction(
            replace(typed, element=same, kinds=("element",)*len(names)),
            signature._replace(inputs=typed.state, ranks=(signature.ranks[0], 1),
                               inner=(*["1"]*len(names), *signature.inner[count:])))

    def bind(self, call: Call, chunk: int) -> Start:
        """Bind a call to chunks of so many elements."""
        *kept, reduced = call.shape
        chunks, rest = divmod(reduced, chunk)
        slots = chunks + (rest > 0)
        down = dense_strides((*kept, slots))
        room = -(-prod(kept)*slots*max(d.itemsize for d in self._state) // LINE)*LINE
        steps = [(self._rows.bind(self._call(call, (*kept, chunks, chunk), down)),
                  [0]*self._inputs, 0)]
        if rest:
            moves = [chunks*chunk*own[-1]*size for own, size in zip(
                call.strides, self._sizes, strict=False)]
            steps.append((self._rows.bind(self._call(call, (*kept, 1, rest), down)),
                          moves, chunks))
        merge = self._merge.bind(Call((*kept, slots), (), (
            *[down]*len(self._state), *call.strides[self._inputs:])))
        return self._start(steps, merge, room)

    def _call(self, call: Call, shape: tuple[int, ...], down: tuple[int, ...]) -> Call:
        """The call of a Row for chunks that lie one after another."""
        strides = [(*own[:-1], shape[-1]*own[-1], own[-1])
                   for own in call.strides[:self._inputs]]
        return Call(shape, (), (*strides, *[(*down, 0)]*len(self._state)))

    def _start(self, steps: Sequence[tuple[Start, list[int], int]], merge: Start,
               room: int) -> Start:
        """The Rows, whose inputs and slots are so far on, then the merge."""
        inputs, states = self._inputs, self._state

        def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
            kept = np.empty(room*len(states), np.uint8)
            places = [NUMPY.pointer(kept) + room*k for k in range(len(states))]
            for rows, moves, slot in steps:
                rows((*(p + by for p, by in zip(pointers, moves, strict=False)),
                      *(at + slot*d.itemsize for at, d in zip(
                          places, states, strict=True))), (), 0)
            merge((*places, *pointers[inputs:]), (), 0)

        every = [*(rows for rows, *_ in steps), merge]

        def parts(orders: bool) -> list[Part] | None:
            natives = [native_of(one) or (shared_of(one) if orders else None)
                       for one in every]
            return self._parts(natives, steps, room)

        return with_native(start, parts(False), room*len(states),
                           shared=lambda: parts(True))

    def _parts(self, natives: Sequence[Native | None],
               steps: Sequence[tuple[Start, list[int], int]], room: int,
               ) -> list[Part] | None:
        """The parts of such a start; None where one of them has memory of its own."""
        if any(native is None or native.room or any(
                fill.kind == "lead" for part in native.parts
                for fill in part.arguments.fills) for native in natives):
            return None
        inputs, states, parts = self._inputs, self._state, list[Part]()

        def of_merge(fill: Fill) -> Fill:
            if fill.which >= len(states):
                return fill._replace(which=fill.which - len(states) + inputs)
            return Fill(fill.word, "room", 0, room*fill.which + fill.add)

        for native, (_, moves, slot) in zip(natives, steps, strict=False):
            def of_rows(fill: Fill, moves: list[int] = moves, slot: int = slot) -> Fill:
                if fill.which < inputs:
                    return fill._replace(add=fill.add + moves[fill.which])
                k = fill.which - inputs
                return Fill(fill.word, "room", 0,
                            room*k + slot*states[k].itemsize + fill.add)

            assert native is not None
            parts += moved(native, of_rows)
        assert natives[-1] is not None
        return [*parts, *moved(natives[-1], of_merge)]
