"""LLVM intrinsics that generated kernels call and Numba's Python lacks.

Imported only when a kernel is compiled: a process that finds its kernels in the cache
never imports Numba.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...support.dtypes import TYPES
from ..runtime.pipeline import compile_function

__all__ = ["INTRINSICS", "forget_functions"]

_I64 = ir.IntType(64)

#: Names of marks of a loop, each with its values.
Marks = Sequence[tuple[Any, ...]]

#: What keeps LLVM from unrolling a loop.
_ROLLED: Marks = (("llvm.loop.unroll.disable",),)

_TRUE = ir.Constant(ir.IntType(1), 1)

#: What makes LLVM mask the last vector of a loop instead of adding a scalar loop.
_MASKED: Marks = (("llvm.loop.vectorize.predicate.enable", _TRUE),)

#: What makes it vectorise where it overrates the cost of masked loads, as of strided
#: halves (benchmarks/notes/cpu.md#strided-elements).
_VECTORS: Marks = (("llvm.loop.vectorize.enable", _TRUE),)

#: Marks that ask for vectors: LLVM says on the terminal if it cannot.
_ASKING = ("llvm.loop.vectorize.enable", "llvm.loop.vectorize.width",
           "llvm.loop.interleave.count")

#: A function of the C library's that LLVM text calls, and LLVM knows no vectors of.
_C_FUNCTION = re.compile(
    r'^declare .*@(?!"?(?:llvm\.|(?:sqrt|a(?:cos|sin|tan2?))f?\b))', re.MULTILINE)

#: How many vectors LLVM puts side by side at most.
_INTERLEAVED = 16

#: Fewer lanes than so many are not worth a vector.
_LEAST = 4

#: Iterations of which the first of two loops makes a multiple: what LLVM unrolls at
#: most, sixteen lanes four times.
_WHOLE = 64

#: How elements lie in memory; 16-bit floats are moved as their bits, bools as bytes.
_STORED = {t.short: getattr(types, t.stored) for t in TYPES.values()}


class _DistinctNode(ir.MDValue):
    """An LLVM metadata node that is never merged with an equal one.

    Nor may llvmlite, which shares nodes of equal operands, take one for another.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__

    def descr(self, buf: list[str]) -> None:
        operands = ", ".join(op.get_reference() if isinstance(op.type, ir.MetaDataType)
                             else f"{op.type} {op.get_reference()}"
                             for op in self.operands)
        buf.append(f"distinct !{{ {operands} }}\n")


def _distinct(module: ir.Module, *operands: Any, cyclic: bool = False) -> _DistinctNode:
    node = _DistinctNode(module, list(operands), name=str(len(module.metadata)))
    if cyclic:  # a loop's identity is its own first operand
        node.operands = (node, *node.operands)
    return node


#: Functions of the kernel that is being compiled.
_compiled: dict[Any, dict[Any, Any]] = {}


def forget_functions() -> None:
    """Drop Numba's records of a kernel's functions, 0.2 MB each.

    benchmarks/notes/host.md#what-a-kernel-keeps.
    """
    _compiled.clear()


def _emit_call(context: Any, builder: Any, body: Any, signature: Any,
               values: Sequence[Any]) -> bool:
    """Emit a call of a kernel's function, inlined; whether it calls the C library's.

    Calling its dispatcher instead would make machine code of it for nobody's use, which
    takes as long as the kernel itself.  Such functions return nothing and never raise.
    """
    function = body.dispatcher.py_func
    known = _compiled.setdefault(function, {})
    if signature not in known:
        found = compile_function(
            context, function, signature.args, signature.return_type, inline=True)
        text = found.library.get_llvm_str()
        known[signature] = found, _C_FUNCTION.search(text) is not None
    found, calls_c = known[signature]
    context.active_code_library.add_linking_library(found.library)
    context.call_internal_no_propagate(builder, found.fndesc, signature, values)
    return calls_c


def _signature(*args: Any) -> Any:
    return types.void(*(types.unliteral(t) for t in args))


@intrinsic
def call(typing: Any, body: Any, args: Any) -> Any:
    """``body(*args)``, inlined."""
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        inner = _signature(*args.types)
        unpacked = cgutils.unpack_tuple(builder, values[1])
        _emit_call(context, builder, signature.args[0], inner, unpacked)
        return context.get_dummy_value()

    return types.void(body, args), codegen


def _preferring(width: int, doc: str) -> Any:
    @intrinsic
    def prefer(typing: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            # llvmlite refuses the names of attributes that it does not know.
            set.add(builder.function.attributes, f'"prefer-vector-width"="{width}"')
            return context.get_dummy_value()

        return types.void(), codegen

    prefer.__doc__ = doc
    return prefer


narrow_vectors = _preferring(256, """Limit the kernel to vectors of 32 bytes.

    NumPy's large arrays begin 16 bytes after a line.  Every load of 64 bytes is then
    of two lines, and a kernel that waits for memory has fewer of them on their way; one
    that reads and writes rows at such places takes a fifth longer:
    benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
    """)

wide_vectors = _preferring(512, """Let the kernel use vectors of 64 bytes, if there are.

    LLVM prefers those of 32 on processors whose clock once was slower with wide ones.
    A kernel that computes takes up to 1.8 times as long then:
    benchmarks/notes/cpu.md#maps-on-the-cpu.
    """)


@intrinsic
def unknown_zero(typing: Any) -> Any:
    """0, which the compiler cannot know."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        same = ir.InlineAsm(ir.FunctionType(_I64, [_I64]), "", "=r,0", False)
        return builder.call(same, [_I64(0)])

    return types.int64(), codegen


def _parallel_for(rolled: bool = False, masked: bool = False,
                  vectors: bool = False) -> Any:
    """Call ``body(i, *args)`` for ``begin <= i < end``, in any order.

    The loop is marked `llvm.loop.parallel_accesses`: no iteration depends on what
    another one stores.  So it is vectorised without run-time overlap checks, and also
    where an output is exactly one of the inputs, which those checks would send down
    the scalar loop.  Not where `body` reserves room on the stack: that is one place
    for all iterations.

    A loop of few iterations has to stay `rolled`: unrolled, it is never vectorised.
    A `masked` one has no scalar remainder, which takes as long as many vectors where
    `body` computes: benchmarks/notes/cpu.md#maps-on-the-cpu.  Its `vectors` are made
    whatever LLVM thinks they cost.
    """
    @intrinsic
    def parallel_for(typing: Any, body: Any, begin: Any, end: Any, args: Any) -> Any:
        apart = not _reserves(body.dispatcher.py_func)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _, first, stop, packed = values
            unpacked = cgutils.unpack_tuple(builder, packed)
            inner = _signature(types.int64, *args.types)

            def each(i: Any) -> bool:
                return _emit_call(context, builder, signature.args[0], inner,
                                  [i, *unpacked])

            if masked and apart:
                whole = builder.add(first, builder.and_(
                    builder.sub(stop, first), _I64(-_WHOLE)))
                _emit_loop(builder, first, whole, apart, (), each)
                marks = (*_MASKED, *_VECTORS) if vectors else _MASKED
                _emit_loop(builder, whole, stop, apart, marks, each)
            else:
                marks = _ROLLED if rolled else ()
                _emit_loop(builder, first, stop, apart, marks, each)
            return context.get_dummy_value()

        return types.void(body, types.int64, types.int64, args), codegen

    return parallel_for


def _side_by_side(lanes: int, width: int) -> Marks:
    """Marks of a loop over so many lanes that is vectors of `width`, and no loop.

    LLVM would unroll short loops before it can vectorise them.
    """
    width = max(min(lanes, width), lanes // _INTERLEAVED)
    i32 = ir.IntType(32)
    return (*_ROLLED, ("llvm.loop.vectorize.width", i32(width)),
            ("llvm.loop.interleave.count", i32(lanes // width)))


@intrinsic(prefer_literal=True)
def for_lanes(typing: Any, body: Any, lanes: Any, width: Any, args: Any) -> Any:
    """Call ``body(l, *args)`` for each of some `lanes`, in vectors of `width`."""
    apart = not _reserves(body.dispatcher.py_func)
    inner = _signature(types.int64, *args.types)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        unpacked = cgutils.unpack_tuple(builder, values[3])
        count = lanes.literal_value
        _emit_loop(builder, _I64(0), _I64(count), apart,
                   _side_by_side(count, width.literal_value), lambda i: _emit_call(
                       context, builder, signature.args[0], inner, [i, *unpacked]))
        return context.get_dummy_value()

    return types.void(body, lanes, width, args), codegen


@intrinsic(prefer_literal=True)
def join_lanes(typing: Any, join: Any, lanes: Any, vector: Any, states: Any) -> Any:
    """Combine `lanes` states pairwise into the first of them, in vectors.

    ``join(l, *states, 0, *states, width)`` combines those at ``l`` and ``width + l``.
    """
    apart = not _reserves(join.dispatcher.py_func)
    inner = _signature(types.int64, *states.types, types.int64, *states.types,
                       types.int64)

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        top = cgutils.unpack_tuple(builder, values[3])
        width = lanes.literal_value // 2
        while width:
            end = _I64(width)
            marks = _side_by_side(width, vector.literal_value) \
                if width >= _LEAST else ()
            _emit_loop(builder, _I64(0), end, apart, marks, lambda i, end=end: (
                _emit_call(context, builder, signature.args[0], inner,
                           [i, *top, _I64(0), *top, end])))
            width //= 2
        return context.get_dummy_value()

    return types.void(join, lanes, vector, states), codegen


def _reserves(function: Any) -> bool:
    """Whether a function, or one that it calls, has local arrays."""
    names = function.__code__.co_names
    called = (getattr(function.__globals__.get(n), "py_func", None) for n in names)
    return any(n.endswith("_local") for n in names) or any(
        _reserves(f) for f in called if f is not None)


def _emit_loop(builder: Any, first: Any, stop: Any, apart: bool,
               marks: Marks, body: Any) -> None:
    function = builder.function
    entry, head = builder.block, builder.append_basic_block("parallel")
    leave = builder.append_basic_block("parallel.end")
    builder.cbranch(builder.icmp_signed("<", first, stop), head, leave)
    builder.position_at_end(head)
    i = builder.phi(_I64)
    i.add_incoming(first, entry)
    known = {id(x) for block in function.blocks for x in block.instructions}
    if body(i):
        marks = [m for m in marks if m[0] not in _ASKING]
    calls = [x for block in function.blocks for x in block.instructions
             if isinstance(x, ir.CallInstr) and id(x) not in known]
    step = builder.add(i, _I64(1), flags=("nsw",))
    i.add_incoming(step, builder.block)
    back = builder.cbranch(builder.icmp_signed("<", step, stop), head, leave)
    if apart:
        _mark(builder.module, calls, back, marks)
    builder.position_at_end(leave)


def _mark(module: Any, calls: Sequence[Any], back: Any, marks: Marks) -> None:
    """Attach metadata to calls, which inlining copies to loads and stores."""
    group = _distinct(module)
    for x in calls:
        x.set_metadata("llvm.access.group", group)
    title = ir.MetaDataString(module, "llvm.loop.parallel_accesses")
    accesses = module.add_metadata([title, group])
    others = [module.add_metadata([ir.MetaDataString(module, m), *values])
              for m, *values in marks]
    back.set_metadata("llvm.loop", _distinct(module, accesses, *others, cyclic=True))


def _pointer(stored: Any) -> Any:
    """Convert an address to a pointer to elements of one type."""
    result = types.CPointer(stored)

    @intrinsic
    def pointer(typing: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(result))

        return result(types.int64), codegen

    return pointer


def _local(stored: Any) -> Any:
    """Reserve a constant number of elements on the stack."""
    result = types.CPointer(stored)

    @intrinsic(prefer_literal=True)
    def local(typing: Any, count: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            room = cgutils.alloca_once(builder, context.get_data_type(stored),
                                       size=count.literal_value)
            room.align = 64
            return room

        return result(count), codegen

    return local


def _unary(result: Any, operand: Any, emit: Any) -> Any:
    @intrinsic
    def operation(typing: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return emit(builder, values[0])

        return result(operand), codegen

    return operation


def _bitcast(result: Any, operand: Any, to: Any) -> Any:
    return _unary(result, operand, lambda builder, x: builder.bitcast(x, to))


@intrinsic
def select(typing: Any, condition: Any, a: Any, b: Any) -> Any:
    """``a if condition else b`` without a branch; both have one type."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.select(*values)

    return a(types.boolean, a, a), codegen


#: Text of a kernel calls these by name.
INTRINSICS: dict[str, Any] = {
    "call": call, "select": select, "narrow_vectors": narrow_vectors,
    "wide_vectors": wide_vectors, "unknown_zero": unknown_zero,
    "parallel_for": _parallel_for(),
    "masked_parallel_for": _parallel_for(masked=True),
    "masked_vectors_parallel_for": _parallel_for(masked=True, vectors=True),
    "for_lanes": for_lanes, "join_lanes": join_lanes,
    "rolled_parallel_for": _parallel_for(rolled=True),
    "real_bits": _bitcast(types.float64, types.int64, ir.DoubleType()),
    "f32_bits": _bitcast(types.int32, types.float32, ir.IntType(32)),
    "f32_from_bits": _bitcast(types.float32, types.int32, ir.FloatType()),
    **{f"{name}_pointer": _pointer(stored) for name, stored in _STORED.items()},
    **{f"{name}_local": _local(stored) for name, stored in _STORED.items()},
}
