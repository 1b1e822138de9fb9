"""`Map` on the CPU: one loop nest, vectorised along the last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

from ..backend import Call, Launcher, Signature, Start
from ..scalar.ir.nodes import EFFECTS, Let, walk
from ..scalar.typing.types import Typed
from ..specs import TypedMap
from ..support.dtypes import short
from .contract.tile import has_masks
from .map_copies import RowCopy, copy_loops, row_copy
from .map_short import short_map
from .runtime.binding import BindingLauncher
from .runtime.compile import build
from .runtime.native import Part, one_part, shared_part, with_native
from .runtime.objects import Entry
from .runtime.schedule import bind_parallel, lead_of, run_parallel
from .text.boxes import bounds, bounds_of, interior, row_lines, split_lines, turned
from .text.divisions import Divided, divide_once
from .text.elements import Elements, elementwise
from .text.lines import advance, indented, inlined, invoke, local, loop, unravel
from .text.operands import SECOND, Frame, Operand, offset, with_seconds
from .text.reuse import is_cheap, is_straight
from .text.stream import can_stream, may_stream, streaming_pays, with_streaming

__all__ = ["Kernel", "build_map", "compile_map", "map_launcher"]

#: Elements of the rows of a gather or a scatter that are written out, and of a call
#: that is worth a kernel for its row's length: one takes 0.3 s to compile.
_WRITTEN_OUT, _LEAST = range(2, 9), 1 << 11


#: Elements of a row at least, if they are every second ones, that are copied to the
#: stack, and how many at once: benchmarks/notes/cpu.md#strided-elements.
_COPIES, _COPIED = 64, 1 << 10


class Kernel(NamedTuple):
    """A compiled Map, whose units of work are points.

    Attributes
    ----------
    entry, frame
        The machine code, and the layout of its arguments.
    outputs
        The last arrays of the frame.
    serial
        Whether one thread has to do all.
    """

    entry: Entry
    frame: Frame
    outputs: tuple[Operand, ...]
    serial: bool


def compile_map(typed: TypedMap, signature: Signature, written: int = 0) -> Kernel:
    """Compile a Map to a kernel; rows of `written` elements are written out."""
    (rank,) = signature.ranks
    function = typed.function
    count = len(function.results)
    inputs = len(signature.inner) - len(signature.outputs)
    outputs = [
        Operand(f"y{k}", dtype, code[0], int(code[1:] or rank), True)
        for k, (dtype, code) in enumerate(zip(signature.outputs,
                                              signature.inner[inputs:], strict=True))]
    codes = signature.inner[:inputs]
    elements, operands, scalars = elementwise(
        function, typed.kinds, signature,
        ["1" if code == SECOND else code for code in codes], rank,
        outputs[count:], boxes=typed.box_of, wraps=typed.wraps)
    copied = [o for o, code in zip(operands, codes, strict=True) if code == SECOND]
    frame = Frame([*operands, *outputs], rank, scalars, bounds(len(typed.inner), rank))
    serial = any(isinstance(s, Let) and s.op in EFFECTS
                 for s in walk(function.function.body))
    entry = build("\n".join(_text(typed, elements, outputs, frame, serial, written,
                                  copied)))
    return Kernel(entry, frame, tuple(outputs), serial)


def build_map(typed: TypedMap, signature: Signature) -> Launcher:
    """Make the launcher of a Map, which compiles its kernels when needed."""
    of_few = short_map(typed, signature)
    by_index = "index" in typed.kinds and not {"raw", "scatter"}.isdisjoint(typed.kinds)
    copies = _copies(typed)
    turns = bool(typed.inner) and not any(typed.wraps) and not {
        "index", "scatter"} & {*typed.kinds}
    inputs = len(signature.inner) - len(signature.outputs)
    usual = cache(lambda row, codes: map_launcher(compile_map(
        typed, signature._replace(inner=codes), row)))

    def bind(call: Call) -> Start:
        codes = signature.inner if not copies or call.shape[-1] < _COPIES else \
            with_seconds(signature.inner, call.strides, inputs)
        if turns and len(call.shape) > 1:
            call, codes = turned(call, codes)
        few = of_few and of_few.bind(call)
        return few or usual(_short_row(call) if by_index else 0, codes).bind(call)

    return BindingLauncher(bind)


def _copies(typed: TypedMap) -> bool:
    """Whether every second element may be copied: all are read once, in their order."""
    return not typed.inner and {*typed.kinds} <= {"element", "scalar"} and not any(
        isinstance(s, Let) and s.op in EFFECTS
        for s in walk(typed.function.function.body))


def _short_row(call: Call) -> int:
    """The length of a call's rows if a kernel should write them out, or 0."""
    row, rows = call.shape[-1], prod(call.shape[:-1])
    return row if row in _WRITTEN_OUT and row*rows >= _LEAST else 0


def map_launcher(kernel: Kernel) -> BindingLauncher:
    """Make the launcher of a Map."""
    entry, frame, outputs, serial = kernel
    contiguous = frame.rank == 1 and outputs[0].code == "1"
    streams = contiguous and not serial and not frame.extras and can_stream(outputs)
    first, itemsize = len(frame.operands) - len(outputs), outputs[0].dtype.itemsize

    def bind(call: Call) -> Start:
        sides = bounds_of(call)
        pack, size = frame.packer(call, *sides), prod(call.shape)
        launch = bind_parallel(entry, size, row=call.shape[-1])

        def start(pointers: Sequence[int], scalars: tuple[Any, ...], _: int) -> None:
            block = pack(pointers, scalars)
            if serial:
                entry(block, 0, size)
            elif streams and streaming_pays(pointers, first, itemsize, size):
                run_parallel(*with_streaming(entry, block, first, len(outputs),
                                             itemsize), size)
            elif contiguous:
                launch(block, lead_of(pointers[first], itemsize))
            else:
                launch(block)

        def shared() -> tuple[Part, ...] | None:
            if streams and may_stream(size, itemsize * len(outputs)):
                return None
            return shared_part(entry, arguments, size, row=call.shape[-1],
                               lead=(first, itemsize) if contiguous else None)

        arguments = frame.arguments(call, *sides)
        if serial:
            return with_native(start, arguments and (Part(entry, arguments, size),))
        return with_native(start, one_part(entry, arguments, size), shared=shared)

    return BindingLauncher(bind)


def _text(typed: TypedMap, elements: Elements, outputs: Sequence[Operand], frame: Frame,
          serial: bool, written: int, copied: Sequence[Operand]) -> list[str]:
    function, table = typed.function, elements.table
    points, names = _point("point", function, elements, outputs)
    costly = not is_cheap(function)
    halves = costly and _has_strided_halves(typed, frame)
    run = _run("point", names, serial, costly, halves)
    if typed.inner:
        plain = interior(elements, typed)
        more, used = _point("point_inside", function, plain, outputs)
        points += more
        run = [*split_lines(typed.inner), loop("point", "j0", "cut0", names),
               loop("point_inside", "cut0", "cut1", used, masked=costly),
               loop("point", "cut1", "j1", names)]
    whole: list[str] = []
    divided = None if typed.inner else divide_once(function, table)
    if divided is not None:
        inside = replace(elements, table={**table, **divided.table})
        more, used = _point("point_between", divided.typed, inside, outputs)
        points += more
        between = _run("point_between", used, serial, costly)
        unit, near = _unit_strides(frame, used)
        copy = row_copy(divided, inside, outputs[0])
        if copy and copy.follows and written and frame.rank == 2:
            points += copy.point(frame.operands, written)
            if copy.table.rank == 2:
                points += copy.point_apart(frame.operands, written)
        if not serial and unit:
            between = [f"if {unit}:", *indented(copy.lines("j0", "j1") if copy else [
                loop("point_between", "j0", "j1", near)]),
                "else:", *indented(between)]
        if frame.rank > 1:
            whole = _whole_rows(frame, divided, unit, near, copy, written, serial)
        if copy and copy.follows and written and frame.rank == copy.table.rank == 2:
            whole += copy.rows_apart(frame.operands, f"n{frame.rank - 1}", written)
        run = divided.stretches(between, run)
    if copied:
        run = _copied_runs(copied, run)
    return [f"# Map {function.function.name}", *points,
            "def kernel(a, begin, end):",
            *["    wide_vectors()"] * costly,
            *indented(local(f"{o.name}_room", o.dtype, _COPIED) for o in copied),
            *indented(divided.begin() if divided else []),
            *indented(_nest(frame, run, typed.wraps, whole))]


def _unit_strides(frame: Frame, names: Sequence[str]) -> tuple[str, list[str]]:
    """The condition that tables' rows are contiguous, and names where it holds.

    LLVM would assume so, and make other rows' loops scalar.
    """
    inner = [o.strides[-1] for o in frame.operands if o.code == "r" and o.rank]
    return (" and ".join(f"{name} == 1" for name in inner),
            ["1" if name in inner else name for name in names])


def _whole_rows(frame: Frame, divided: Divided, unit: str, near: Sequence[str],
                copy: RowCopy | None, written: int, serial: bool) -> list[str]:
    """Lines for rows that follow one another, none of which is cut.

    They may be short: there is nothing else in their loop, and a mask for the last
    vector where the processor has masks.  benchmarks/notes/cpu.md#gathers-of-rows.
    """
    extents = [f"n{d}" for d in range(frame.rank)]
    outer, row = [f"k{d}" for d in range(frame.rank - 1)], extents[-1]
    whole = ["begin < end", f"begin % {row} == 0", f"end % {row} == 0",
             *[unit]*bool(unit), divided.whole(row)]
    bound = [line for o in frame.operands if o.code != "r"
             for line in o.bind(offset(o, outer))]
    step = [f"first += {row}", *divided.next_row(), *advance(extents[:-1], outer)]
    if copy:
        loops = copy_loops(copy, frame, bound, step, written)
    elif serial:
        loops = _rows_in_turn(row, near, bound, step, written)
    else:
        loops = ["while first < end:", *indented([*bound, loop(
            "point_between", "0", row, near, masked=has_masks()), *step])]
    return [f"if {' and '.join(whole)}:", *indented([
        "first = begin", f"row = first // {row}",
        *unravel("row", extents[:-1], outer), *divided.begin_rows(), *loops,
        "return"])]


def _rows_in_turn(row: str, names: Sequence[str], bound: Sequence[str],
                  step: Sequence[str], written: int) -> list[str]:
    """Lines of rows whose elements are stored, or added, one after another.

    Those of few elements are written out: benchmarks/notes/cpu.md#gathers-of-rows.
    """
    points = [invoke("point_between", [str(j), *names]) for j in range(written)]
    return [*[f"while first < end and {row} == {written}:",
              *indented([*bound, *points, *step])]*bool(written),
            "while first < end:", *indented([
                *bound, f"for j in range({row}):",
                *indented([invoke("point_between", ["j", *names])]), *step])]


def _point(name: str, function: Typed, elements: Elements, outputs: Sequence[Operand],
           ) -> tuple[list[str], list[str]]:
    """Lines of the function of a point, and the names that it takes besides ``j``."""
    results = [f"r{k}" for k in range(len(function.results))]
    body = elements.evaluate(function, results)
    body += [out.store("j", dtype, r) for out, dtype, r in
             zip(outputs, function.results, results, strict=False)]
    names = list(dict.fromkeys((*elements.names(function),
                                *(n for out in outputs for n in out.names))))
    return inlined(name, ["j", *names], body), names


def _run(point: str, names: Sequence[str], serial: bool, costly: bool,
         halves: bool = False) -> list[str]:
    """Lines of the inner loop, over ``j0`` … ``j1 - 1``."""
    if serial:
        return ["for j in range(j0, j1):", *indented([invoke(point, ["j", *names])])]
    return [loop(point, "j0", "j1", names, masked=costly, vectors=halves)]


def _copied_runs(copied: Sequence[Operand], run: Sequence[str]) -> list[str]:
    """The loop ``j0`` … ``j1 - 1`` by pieces, for which strided inputs are copied."""
    return [*(f"{o.name}_far = address({o.name})" for o in copied),
            "j = j0", "stop = j1", "while j < stop:", *indented([
                "j0 = j", f"j1 = min(stop, j0 + {_COPIED})",
                *(line for o in copied for line in (
                    f"near = address({o.name}_room)", f"copy_every_second(near, "
                    f"{o.name}_far + {2*o.dtype.itemsize}*j0, j1 - j0, "
                    f"{o.dtype.itemsize})",
                    f"{o.name} = {short(o.dtype)}_pointer("
                    f"near - {o.dtype.itemsize}*j0)")),
                *run, "j = j1"])]


def _has_strided_halves(typed: TypedMap, frame: Frame) -> bool:
    """Whether operands of 16 bits lie apart, and the function has no branches."""
    straight = "raw" not in typed.kinds and is_straight(typed.function)
    return straight and any(o.code in ("s", "t") and o.dtype.itemsize == 2
                            for o in frame.operands)


def _nest(frame: Frame, run: Sequence[str], boxes: Sequence[bool],
          whole: Sequence[str]) -> list[str]:
    """Lines of the loop nest over the points begin … end - 1, `whole` rows first."""
    extents = [f"n{d}" for d in range(frame.rank)]
    lines = [*frame.unpack(), f"size = {' * '.join(extents)}"]
    fixed = [o for o in frame.operands if o.code == "r"]
    moving = [o for o in frame.operands if o.code != "r"]
    lines += [*(line for o in fixed for line in o.bind()), *whole]
    if frame.rank == 1:
        bound = [line for o in moving for line in o.bind()]
        return [*lines, *row_lines(boxes, ()), *bound, "first = 0", "j0 = begin",
                "j1 = end", *run]
    outer = [f"k{d}" for d in range(frame.rank - 1)]
    inside = ["j0 = done - first", f"j1 = min({extents[-1]}, end - first)",
              *row_lines(boxes, outer)]
    for o in moving:
        inside += o.bind(offset(o, outer))
    inside += [*run, f"first += {extents[-1]}", "done = first",
               *advance(extents[:-1], outer)]
    return [*lines, "if begin < end:", *indented([
        f"row = begin // {extents[-1]}", f"first = row * {extents[-1]}",
        *unravel("row", extents[:-1], outer), "done = begin",
        "while done < end:", *indented(inside)])]
