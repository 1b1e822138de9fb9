"""What Row's kernels need besides: clusters, cheaper loads and arithmetic.

Arithmetic is cheap where a row's elements share an operand.

A cluster is 2 to 8 blocks on neighbouring multiprocessors (compute capability 9.0 and
newer) that can store to one another's shared memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import WIDTHS, asm

__all__ = ["row_namespace"]

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def _stream(width: int, unpacked: Any, *, last: bool = False) -> Any:
    """``ld.global``; loads keep their order.

    With ``.L1::no_allocate`` or ``evict_first`` they take longer.  `last`: what they
    bring is the last to leave the second cache (``createpolicy``, ``evict_last``).
    """
    policy = (".reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 "
              "policy, 1.0;") if last else ""
    hint, operand = (".L2::cache_hint", ", policy") if last else ("", "")

    @intrinsic
    def stream(typing: Any, pointer: Any, index: Any, wanted: Any) -> Any:
        """``width`` elements from `index` on if `wanted`, else zeros; aligned."""
        kind, count = pointer.dtype, _words(pointer.dtype, width)
        names = [f"${k}" for k in range(count)]
        zeros = " ".join(f"mov.b32 {n}, 0;" for n in names)
        text = (f"{{ .reg .pred p; {policy} setp.ne.b32 p, ${count + 1}, 0; {zeros} "
                f"@p ld.global{hint}{_listed(names)}, [${count}]{operand}; }}")

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
    """How many elements there are before the next that an access may begin with."""

    @intrinsic
    def until_aligned(typing: Any, pointer: Any, index: Any) -> Any:
        """For accesses of ``width`` elements, from `index` on."""
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
                         _shared(context, builder, kind, *values), effect=True)
            return _elements(builder, loaded, count, context.get_data_type(kind), width)

        return types.UniTuple(kind, width)(pointer, types.int64), codegen

    return near


def _words(kind: Any, width: int) -> int:
    """How many words of 32 bits an access moves."""
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
    """The same for elements that are converted at once, not kept in pairs.

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


def _shared(context: Any, builder: Any, kind: Any, pointer: Any, index: Any) -> Any:
    """The address in this block's shared memory, as instructions take it."""
    element = context.get_data_type(kind)
    place = builder.gep(pointer, [index], source_etype=element)
    return builder.ptrtoint(builder.addrspacecast(place, element.as_pointer(3)), _I32)


# --- conversions that are not kept


def _again(text: str) -> Any:
    @intrinsic
    def again(typing: Any, bits: Any) -> Any:
        """A 16-bit float as float32, converted anew wherever it is used.

        What is kept from stage to stage is then 16 bits wide.
        """

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return asm(builder, _F32, text, "=f,h", values[0], effect=True)

        return types.float32(types.uint16), codegen

    return again


bf16_again = _again("{ .reg .b16 low; mov.b16 low, 0; mov.b32 $0, {low, $1}; }")
f16_again = _again("cvt.f32.f16 $0, $1;")


# --- arithmetic with what a row has one of


@intrinsic
def divide_near(typing: Any, a: Any, b: Any) -> Any:
    """``a / b`` in float32 within 0.51 units in the last place; no branch.

    The inverse of `b` is ``high + low`` and the quotient ``a*high + a*low``; below
    2**-120 it is off by the smallest number at most.  What concerns only `b` is
    computed once where all elements have it.  Both parts have the sign of `b`:
    infinities are not subtracted from one another.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, y = values
        scale = _scale(builder, y)
        divisor = builder.fmul(y, scale)
        rough = asm(builder, _F32, "rcp.approx.f32 $0, $1;", "=f,f", divisor)
        less = builder.bitcast(  # than the inverse, by more than the error of `rough`
            builder.sub(builder.bitcast(rough, _I32), _I32(4)), _F32)
        minus = builder.fsub(_F32(-0.0), divisor)
        rest = builder.fmul(builder.fma(minus, less, _F32(1.0)), rough)
        high = _unless_nan(builder, rest, less, rough)  # of infinity it is 0, not less
        low = _unless_nan(builder, rest, rest, rough)
        quotient = builder.fma(x, high, builder.fmul(x, low))
        return builder.fmul(quotient, scale)

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def divide_nearly(typing: Any, a: Any, b: Any) -> Any:
    """``a / b`` within 2 units in the last place: `divide_near` without correction."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x, y = values
        scale = _scale(builder, y)
        inverse = asm(builder, _F32, "rcp.approx.f32 $0, $1;", "=f,f",
                      builder.fmul(y, scale))
        return builder.fmul(builder.fmul(x, inverse), scale)

    return types.float32(types.float32, types.float32), codegen


def _scale(builder: Any, y: Any) -> Any:
    """A power of two that keeps the inverse of `y` a normal number."""
    size = builder.bitcast(builder.and_(builder.bitcast(y, _I32), _I32(0x7FFFFFFF)),
                           _F32)
    return builder.select(
        builder.fcmp_ordered("<", size, _F32(2.0**-100)), _F32(2.0**64),
        builder.select(builder.fcmp_ordered(">", size, _F32(2.0**100)),
                       _F32(2.0**-64), _F32(1.0)))


def _unless_nan(builder: Any, x: Any, value: Any, otherwise: Any) -> Any:
    """`value`; where `x` is NaN, `otherwise`."""
    return builder.select(builder.fcmp_ordered("==", x, x), value, otherwise)


@intrinsic
def column_is(typing: Any, column: Any, number: Any) -> Any:
    """``column == number`` for a column below ``2**32``."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        low = builder.icmp_unsigned("==", *(builder.trunc(v, _I32) for v in values))
        high = builder.trunc(builder.lshr(values[1], _I64(32)), _I32)
        return builder.and_(low, builder.icmp_unsigned("==", high, _I32(0)))

    return types.boolean(types.int64, types.int64), codegen


# --- clusters


@intrinsic
def cluster_rank(typing: Any) -> Any:
    """``%cluster_ctarank``: which of its cluster's blocks this is."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        rank = asm(builder, _I32, "mov.u32 $0, %cluster_ctarank;", "=r")
        return builder.zext(rank, _I64)

    return types.int64(), codegen


@intrinsic
def cluster_sync(typing: Any) -> Any:
    """``barrier.cluster``: all threads of the cluster, and what they have stored."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "barrier.cluster.arrive.release.aligned; "
            "barrier.cluster.wait.acquire.aligned;", "~{memory}", effect=True)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def cluster_store(typing: Any, pointer: Any, index: Any, value: Any, rank: Any,
                  barriers: Any, which: Any) -> Any:
    """``st.async``: to the shared memory of the block `rank`, told to a barrier there.

    `pointer` and `barriers` are those of the same places in this block's; elements of
    4 or 8 bytes.
    """
    kind = pointer.dtype
    size = kind.bitwidth

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = context.cast(builder, values[2], value, kind)
        if isinstance(kind, types.Float):
            number = builder.bitcast(number, ir.IntType(size))
        asm(builder, ir.VoidType(),
            "{ .reg .b32 far, told; mapa.shared::cluster.u32 far, $0, $3; "
            "mapa.shared::cluster.u32 told, $1, $3; "
            "st.async.shared::cluster.mbarrier::complete_tx::bytes"
            f".b{size} [far], $2, [told]; }}",
            f"r,r,{'l' if size == 64 else 'r'},r,~{{memory}}",
            _shared(context, builder, kind, values[0], values[1]),
            _shared(context, builder, types.uint64, values[4], values[5]),
            number, builder.trunc(values[3], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(pointer, types.int64, value, types.int64, barriers,
                      types.int64), codegen


@intrinsic
def barrier_start(typing: Any, barriers: Any, which: Any) -> Any:
    """``mbarrier.init`` for one arrival; others see it after `cluster_sync`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(), "mbarrier.init.shared::cta.b64 [$0], 1; "
            "fence.mbarrier_init.release.cluster;", "r,~{memory}",
            _shared(context, builder, types.uint64, *values), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64), codegen


@intrinsic
def barrier_bytes(typing: Any, barriers: Any, which: Any, size: Any) -> Any:
    """``mbarrier.arrive.expect_tx``: the phase ends when `size` bytes have come."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
            _shared(context, builder, types.uint64, *values[:2]),
            builder.trunc(values[2], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64, types.int64), codegen


@intrinsic
def barrier_until(typing: Any, barriers: Any, which: Any, phase: Any) -> Any:
    """``mbarrier.try_wait.parity``: until the phase of this parity has ended."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asm(builder, ir.VoidType(),
            "{ .reg .pred p; AGAIN: "
            "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; "
            "@p bra DONE; bra AGAIN; DONE: }", "r,r,~{memory}",
            _shared(context, builder, types.uint64, *values[:2]),
            builder.trunc(values[2], _I32), effect=True)
        return context.get_dummy_value()

    return types.void(barriers, types.int64, types.int64), codegen


_FUNCTIONS = (column_is, divide_near, divide_nearly, cluster_rank, cluster_sync,
              cluster_store, barrier_start, barrier_bytes, barrier_until)


def row_namespace(arch: tuple[int, int]) -> dict[str, Any]:
    """The names that kernel text may use besides the common ones."""
    last = arch >= (8, 0)
    return {**{f"stream{n}": _stream(n, _elements) for n in WIDTHS},
            **{f"stream_last{n}": _stream(n, _elements, last=last) for n in WIDTHS},
            **{f"load_if{n}": _stream(n, _converted) for n in WIDTHS},
            **{f"until_aligned{n}": _until_aligned(n) for n in WIDTHS},
            **{f"near{n}": _near(n) for n in WIDTHS},
            "bf16_again": bf16_again, "f16_again": f16_again,
            **{f.__name__: f for f in _FUNCTIONS}}
