"""Loads of Row's kernels: all on their way together, in their order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import WIDTHS, asm
from .inline_ptx import SHARED

__all__ = ["LINE", "loads_namespace", "shared_address"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)

#: Bytes of a line of shared memory: benchmarks/notes/rows.md#bulk-copies.
LINE = 128

#: Which cache keeps what a load brings: the policy, the load's suffix and operand.
_HINTS = {
    "": ("", "", ""),
    "near": ("", ".L1::evict_last", ""),
    "last": (".reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 "
             "policy, 1.0;", ".L2::cache_hint", ", policy"),
    "first": (".reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 "
              "policy, 1.0;", ".L2::cache_hint", ", policy"),
}


def _stream(width: int, unpacked: Any, hint: str = "") -> Any:
    """``ld.global``; loads keep their order.

    Rows take longer with ``.L1::no_allocate`` or ``evict_first``.  What they bring is
    the last to leave the first cache (`hint` ``"near"``) or the second (``"last"``), or
    the first to leave that (``"first"``).
    """
    policy, suffix, operand = _HINTS[hint]

    @intrinsic
    def stream(typing: Any, pointer: Any, index: Any, wanted: Any) -> Any:
        """``width`` elements from `index` on if `wanted`, else zeros; aligned."""
        kind, count = pointer.dtype, _words(pointer.dtype, width)
        names = [f"${k}" for k in range(count)]
        zeros = " ".join(f"mov.b32 {n}, 0;" for n in names)
        text = (f"{{ .reg .pred p; {policy} setp.ne.b32 p, ${count + 1}, 0; {zeros} "
                f"@p ld.global{suffix}{_listed(names)}, [${count}]{operand}; }}")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            element = context.get_data_type(kind)
            place = builder.gep(values[0], [values[1]], source_etype=element)
            loaded = asm(builder, _struct(count), text,
                         ",".join([*["=&r"]*count, "l", "r"]),
                         builder.ptrtoint(place, _I64), builder.zext(values[2], _I32),
                         effect=True)
            return unpacked(builder, loaded, count, element, width)

        return types.UniTuple(kind, width)(pointer, types.int64, types.boolean), codegen

    return stream


def _until_aligned(width: int) -> Any:
    """Number of elements before the next that an access may begin with."""

    @intrinsic
    def until_aligned(typing: Any, pointer: Any, index: Any) -> Any:
        """Elements before an aligned access of ``width`` elements, from `index` on."""
        kind = pointer.dtype

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            element = context.get_data_type(kind)
            place = builder.gep(values[0], [values[1]], source_etype=element)
            number = builder.udiv(builder.ptrtoint(place, _I64),
                                  _I64(kind.bitwidth // 8))
            return builder.and_(builder.neg(number), _I64(width - 1))

        return types.int64(pointer, types.int64), codegen

    return until_aligned


def _near(width: int) -> Any:
    """``ld.shared``: elements that an earlier `copy_async` has brought."""

    @intrinsic
    def near(typing: Any, pointer: Any, index: Any) -> Any:
        """``width`` elements from `index` on; aligned."""
        kind, count = pointer.dtype, _words(pointer.dtype, width)
        text = f"ld.shared{_listed([f'${k}' for k in range(count)])}, [${count}];"

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            loaded = asm(builder, _struct(count), text,
                         ",".join([*["=r"]*count, "r", "~{memory}"]),
                         shared_address(context, builder, kind, *values), effect=True)
            return _elements(builder, loaded, count, context.get_data_type(kind), width)

        return types.UniTuple(kind, width)(pointer, types.int64), codegen

    return near


def _copy_bulk(hint: str = "") -> Any:
    """``cp.async.bulk``: as `_stream`, by the copy engine."""
    policy, suffix, operand = _HINTS[hint]
    text = (f"{{ {policy} cp.async.bulk.shared::cluster.global"
            f".mbarrier::complete_tx::bytes{suffix} [$0], [$1], $2, [$3]{operand}; }}")

    @intrinsic
    def copy_bulk(typing: Any, target: Any, source: Any, index: Any, size: Any,
                  barrier: Any) -> Any:
        """``size`` bytes from `index` on, a multiple of 16, told to `barrier`."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            element = context.get_data_type(source.dtype)
            place = builder.gep(values[1], [values[2]], source_etype=element)
            asm(builder, ir.VoidType(), text, "r,l,r,r,~{memory}",
                shared_address(context, builder, target.dtype, values[0], _I64(0)),
                builder.ptrtoint(place, _I64), builder.trunc(values[3], _I32),
                shared_address(context, builder, barrier.dtype, values[4], _I64(0)),
                effect=True)
            return context.get_dummy_value()

        return types.void(target, source, types.int64, types.int64, barrier), codegen

    return copy_bulk


@intrinsic
def whole_lines(typing: Any) -> Any:
    """Have dynamic shared memory, of which some is in use, begin with a line of it.

    The copy engine is slow where it writes to parts of lines.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.module.globals[SHARED].align = LINE
        return context.get_dummy_value()

    return types.void(), codegen


def _words(kind: Any, width: int) -> int:
    """Words of 32 bits that an access moves."""
    count = kind.bitwidth//8*width//4
    if not 1 <= count <= 4:
        raise TypeError(f"{width} elements of {kind} are no access of 4, 8 or 16 bytes")
    return int(count)


def _listed(names: list[str]) -> str:
    """Type and registers of a load."""
    return f".v{len(names)}.b32 {{{', '.join(names)}}}" if len(names) > 1 \
        else f".b32 {names[0]}"


def _struct(count: int) -> Any:
    return _I32 if count == 1 else ir.LiteralStructType([_I32]*count)


def _elements(builder: Any, loaded: Any, count: int, element: Any, width: int) -> Any:
    """Loaded words as a tuple of elements."""
    words = ir.Constant(ir.VectorType(_I32, count), ir.Undefined)
    for k in range(count):
        word = loaded if count == 1 else builder.extract_value(loaded, k)
        words = builder.insert_element(words, word, _I32(k))
    vector = builder.bitcast(words, ir.VectorType(element, width))
    packed = ir.Constant(ir.ArrayType(element, width), ir.Undefined)
    for k in range(width):
        packed = builder.insert_value(
            packed, builder.extract_element(vector, _I32(k)), k)
    return packed


def _converted(builder: Any, loaded: Any, count: int, element: Any, width: int) -> Any:
    """Loads of elements that are converted at once, not kept in pairs.

    The upper half of a word is then a bfloat16's float32 after one instruction.
    """
    if element != ir.IntType(16):
        return _elements(builder, loaded, count, element, width)
    packed = ir.Constant(ir.ArrayType(element, width), ir.Undefined)
    for k in range(width):
        word = loaded if count == 1 else builder.extract_value(loaded, k // 2)
        half = builder.trunc(builder.lshr(word, _I32(k % 2*16)), element)
        packed = builder.insert_value(packed, half, k)
    return packed


def shared_address(context: Any, builder: Any, kind: Any, pointer: Any,
                   index: Any) -> Any:
    """The address in this block's shared memory, as instructions take it."""
    element = context.get_data_type(kind)
    place = builder.gep(pointer, [index], source_etype=element)
    return builder.ptrtoint(builder.addrspacecast(place, element.as_pointer(3)), _I32)


def loads_namespace(arch: tuple[int, int]) -> dict[str, Any]:
    """The names for kernel text."""
    last, first = ("last", "first") if arch >= (8, 0) else ("", "")
    return {**{f"stream{n}": _stream(n, _elements) for n in WIDTHS},
            **{f"stream_near{n}": _stream(n, _elements, "near") for n in WIDTHS},
            **{f"stream_last{n}": _stream(n, _elements, last) for n in WIDTHS},
            **{f"load_if{n}": _stream(n, _converted) for n in WIDTHS},
            **{f"load_last{n}": _stream(n, _converted, last) for n in WIDTHS},
            **{f"load_first{n}": _stream(n, _converted, first) for n in WIDTHS},
            **{f"until_aligned{n}": _until_aligned(n) for n in WIDTHS},
            **{f"near{n}": _near(n) for n in WIDTHS},
            "whole_lines": whole_lines, "copy_bulk": _copy_bulk(),
            "copy_bulk_last": _copy_bulk(last)}
