"""Copies of memory as LLVM intrinsics for generated text."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..runtime import objects

__all__ = ["STREAMS"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _width() -> int:
    """Bytes of one streaming store: 32, as 64 were 4 to 6 % slower.

    benchmarks/notes/cpu.md#dead-ends-of-the-cpu.
    """
    return 32 if "+avx" in objects.host()[1].split(",") else 16


@intrinsic
def stream(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy whole cache lines past the caches.

    Stores are marked `!nontemporal`: ``movntps`` on x86, ``stnp`` on Arm.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, origin, size = values
        width = _width()
        pointer = ir.VectorType(_I32, width // 4).as_pointer()
        mark = builder.module.add_metadata([_I32(1)])
        steps = builder.udiv(size, _I64(width))
        with cgutils.for_range(builder, steps, intp=_I64) as loop:
            at = builder.mul(loop.index, _I64(width))
            vector = builder.load(
                builder.inttoptr(builder.add(origin, at), pointer), align=width)
            store = builder.store(
                vector, builder.inttoptr(builder.add(to, at), pointer), align=width)
            store.set_metadata("nontemporal", mark)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def order_stores(typing: Any) -> Any:
    """Emit a fence that orders streaming stores before later ones."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


#: Bytes of the vectors that `copy_bytes` moves; the first also moves what is longer.
_VECTORS = (32, 16, 8, 4, 2, 1)


@intrinsic(prefer_literal=True)
def copy_bytes(typing: Any, target: Any, source: Any, size: Any, widest: Any) -> Any:
    """Copy some bytes to other memory: by vectors of which the last two overlap.

    With `widest`, one of `_VECTORS`, there are less than twice as many, or it is the
    first of them.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, origin, size = values[:3]
        leave = builder.append_basic_block("copied")
        for width in _VECTORS[_VECTORS.index(widest.literal_value):]:
            fits, less = (builder.append_basic_block(f"{name}{width}")
                          for name in ("copy", "below"))
            builder.cbranch(builder.icmp_signed(">=", size, _I64(width)), fits, less)
            builder.position_at_end(fits)
            last = builder.sub(size, _I64(width))
            if width == _VECTORS[0]:
                with cgutils.for_range_slice(builder, _I64(0), last, _I64(width),
                                             inc=True) as (at, _):
                    _move(builder, to, origin, at, width)
            else:
                _move(builder, to, origin, _I64(0), width)
            _move(builder, to, origin, last, width)
            builder.branch(leave)
            builder.position_at_end(less)
        builder.branch(leave)
        builder.position_at_end(leave)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, widest), codegen


#: Bytes that `copy_every_second` stores at once, from the most to an element.
_STORED = (64, 16)


@intrinsic(prefer_literal=True)
def copy_every_second(typing: Any, target: Any, source: Any, count: Any, size: Any,
                      ) -> Any:
    """Copy every second of some elements of `size` bytes to contiguous memory.

    LLVM would load them one by one, as it must not read beyond the last one.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        to, origin, count = values[:3]
        itemsize, begin = size.literal_value, _I64(0)
        for width in (*_STORED, itemsize):
            lanes = max(width // itemsize, 1)
            rest = builder.sub(count, begin)
            more = _I64(int(lanes > 1))  # one element beyond a vector is read
            blocks = builder.sdiv(builder.sub(rest, more), _I64(lanes))
            end = builder.add(begin, builder.mul(blocks, _I64(lanes)))
            with cgutils.for_range_slice(builder, begin, end, _I64(lanes),
                                         inc=True) as (at, _):
                _move_even(builder, to, origin, at, lanes, itemsize)
            begin = end
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, size), codegen


def _move_even(builder: Any, to: Any, origin: Any, at: Any, lanes: int,
               itemsize: int) -> None:
    """Move every second of ``2*lanes`` elements."""
    element = ir.IntType(8*itemsize)
    read = builder.add(origin, builder.mul(at, _I64(2*itemsize)))
    place = builder.add(to, builder.mul(at, _I64(itemsize)))
    if lanes == 1:
        value = builder.load(builder.inttoptr(read, element.as_pointer()))
        builder.store(value, builder.inttoptr(place, element.as_pointer()))
        return
    both = builder.load(builder.inttoptr(read, ir.VectorType(
        element, 2*lanes).as_pointer()), align=itemsize)
    even = ir.Constant(ir.VectorType(_I32, lanes), [2*k for k in range(lanes)])
    value = builder.shuffle_vector(both, both, even)
    builder.store(value, builder.inttoptr(place, ir.VectorType(
        element, lanes).as_pointer()), align=itemsize)


@intrinsic
def prefetch(typing: Any, place: Any) -> Any:
    """Fetch the cache line of an address, which may be any."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(
            builder.module, kind, name)
        builder.call(function, [builder.inttoptr(values[0], pointer), _I32(0), _I32(3),
                                _I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def _move(builder: Any, to: Any, origin: Any, at: Any, width: int) -> None:
    """Move a vector of any alignment."""
    pointer = ir.IntType(8*width).as_pointer() if width <= 8 else ir.VectorType(
        _I32, width // 4).as_pointer()
    vector = builder.load(builder.inttoptr(builder.add(origin, at), pointer), align=1)
    builder.store(vector, builder.inttoptr(builder.add(to, at), pointer), align=1)


@intrinsic
def address(typing: Any, pointer: Any) -> Any:
    """Convert a pointer to an address."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(values[0], _I64)

    return types.int64(pointer), codegen


@intrinsic
def enter(typing: Any, entry: Any, arguments: Any, begin: Any, end: Any) -> Any:
    """Call the kernel at the address `entry`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64] * 3)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


#: Text of a kernel calls these by name.
STREAMS: dict[str, Any] = {"stream": stream, "order_stores": order_stores,
                           "copy_bytes": copy_bytes,
                           "copy_every_second": copy_every_second, "prefetch": prefetch,
                           "address": address, "enter": enter}
