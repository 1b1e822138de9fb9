"""Memory accesses: several elements at once, and past the registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from ...support.dtypes import TYPES
from .inline_ptx import MEMORY, SHARED, asm, dynamic_shared, instruction, tuple_of

__all__ = ["WIDTHS", "accesses", "asm"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)

#: Numbers of elements that `load` and `store` move at once.
WIDTHS = (1, 2, 4, 8, 16)
_KINDS = frozenset(t.stored for t in TYPES.values())


# --- several elements in one access


class _Access:
    """`width` neighbouring elements as LLVM's vector; a complex number is two.

    Elements of 8 and 16 bits are moved in words of 32 bits: a vector of more than four
    parts would become several accesses.
    """

    def __init__(self, context: Any, kind: Any, width: int) -> None:
        self.context, self.kind, self.width = context, kind, width
        self.parts = 2 if isinstance(kind, types.Complex) else 1
        self.scalar = context.get_data_type(
            kind.underlying_float if self.parts == 2 else kind)
        bits = kind.bitwidth*width
        self.packed = 32 // kind.bitwidth if kind.bitwidth < 32 <= bits else 1
        count = width*self.parts // self.packed
        moved = self.scalar if self.packed == 1 else _I32
        self.vector = moved if count == 1 else ir.VectorType(moved, count)
        self.align = min(bits // 8, 16)

    def address(self, builder: Any, pointer: Any, index: Any) -> Any:
        """A pointer to the vector that begins at an index."""
        element = self.context.get_data_type(self.kind)
        base = builder.gep(pointer, [index], source_etype=element)
        return builder.bitcast(base, self.vector.as_pointer())

    def load(self, builder: Any, pointer: Any, index: Any) -> list[Any]:
        """The elements."""
        loaded = builder.load(self.address(builder, pointer, index), align=self.align)
        parts = [loaded]
        if isinstance(self.vector, ir.VectorType):
            parts = [builder.extract_element(loaded, _I32(k))
                     for k in range(self.vector.count)]
        if self.packed > 1:
            return [self._unpack(builder, word, k) for word in parts
                    for k in range(self.packed)]
        if self.parts == 1:
            return parts
        empty = ir.Constant(self.context.get_value_type(self.kind), ir.Undefined)
        return [builder.insert_value(builder.insert_value(empty, real, 0), imag, 1)
                for real, imag in zip(parts[::2], parts[1::2], strict=True)]

    def store(self, builder: Any, pointer: Any, index: Any, values: list[Any]) -> None:
        """Write the elements."""
        parts = values if self.parts == 1 else [
            builder.extract_value(v, k) for v in values for k in (0, 1)]
        if self.packed > 1:
            parts = [self._pack(builder, parts[k:k + self.packed])
                     for k in range(0, self.width, self.packed)]
        whole = parts[0]
        if len(parts) > 1:
            whole = ir.Constant(self.vector, ir.Undefined)
            for k, part in enumerate(parts):
                whole = builder.insert_element(whole, part, _I32(k))
        builder.store(whole, self.address(builder, pointer, index), align=self.align)

    def _unpack(self, builder: Any, word: Any, k: int) -> Any:
        shifted = builder.lshr(word, _I32(k*self.kind.bitwidth))
        return builder.trunc(shifted, self.scalar)

    def _pack(self, builder: Any, values: list[Any]) -> Any:
        word = builder.zext(values[0], _I32)
        for k, value in enumerate(values[1:], 1):
            shifted = builder.shl(builder.zext(value, _I32),
                                  _I32(k*self.kind.bitwidth))
            word = builder.or_(word, shifted)
        return word


def _load(width: int) -> Any:
    @intrinsic
    def load(typing: Any, pointer: Any, index: Any) -> Any:
        """``width`` elements from `index` on, as a tuple; naturally aligned."""
        result = types.UniTuple(pointer.dtype, width)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            access = _Access(context, pointer.dtype, width)
            return tuple_of(builder, access.load(builder, *values))

        return result(pointer, types.int64), codegen

    return load


def _store(width: int) -> Any:
    @intrinsic
    def store(typing: Any, pointer: Any, index: Any, elements: Any) -> Any:
        """Write the tuple `elements` from `index` on; naturally aligned."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address, at, packed = values
            parts = [context.cast(builder, builder.extract_value(packed, k),
                                  elements[k], pointer.dtype) for k in range(width)]
            _Access(context, pointer.dtype, width).store(builder, address, at, parts)
            return context.get_dummy_value()

        return types.void(pointer, types.int64, elements), codegen

    return store


@intrinsic
def _between(typing: Any, first: Any, second: Any) -> Any:
    """Bytes from one pointer to another."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        begin, end = (builder.ptrtoint(v, _I64) for v in values)
        return builder.sub(end, begin)

    return types.int64(first, second), codegen


# --- shared memory


def _shared(kind: Any) -> Any:
    """Dynamic shared memory from a byte offset on, as pointer to elements."""
    result = types.CPointer(kind)

    @intrinsic
    def shared(typing: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            base = dynamic_shared(builder, SHARED, 16)
            first = builder.gep(base, [_I64(0), values[0]])
            target = context.get_value_type(result)
            return builder.addrspacecast(
                builder.bitcast(first, target.pointee.as_pointer(3)), target)

        return result(types.int64), codegen

    return shared


def _copy_async(width: int, arch: tuple[int, int]) -> Any:
    """Copy from global to shared memory past the registers, where the chip can."""
    plain_load, plain_store = _load(width), _store(width)

    @intrinsic
    def copy(typing: Any, target: Any, at: Any, source: Any, index: Any) -> Any:
        """``target[at:at + width] = source[index:index + width]``, naturally aligned.

        Done after `copy_wait`.
        """
        size = source.dtype.bitwidth // 8 * width
        signature = types.void(target, types.int64, source, types.int64)

        def slow(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            loaded = _emit(plain_load, context, builder, (source, types.int64),
                           (values[2], values[3]))
            elements = types.UniTuple(source.dtype, width)
            return _emit(plain_store, context, builder,
                         (target, types.int64, elements),
                         (values[0], values[1], loaded))

        def fast(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            element = context.get_data_type(source.dtype)
            to = builder.gep(values[0], [values[1]], source_etype=element)
            to = builder.ptrtoint(
                builder.addrspacecast(to, element.as_pointer(3)), _I32)
            origin = builder.gep(values[2], [values[3]], source_etype=element)
            cache = "cg" if size == 16 else "ca"
            asm(builder, ir.VoidType(),
                 f"cp.async.{cache}.shared.global [$0], [$1], {size};", f"r,l,{MEMORY}",
                 to, builder.ptrtoint(origin, _I64), effect=True)
            return context.get_dummy_value()

        return signature, fast if arch >= (8, 0) and size in (4, 8, 16) else slow

    return copy


def _emit(function: Any, context: Any, builder: Any, kinds: tuple[Any, ...],
          values: tuple[Any, ...]) -> Any:
    """Inline another intrinsic."""
    signature, codegen = function._defn(None, *kinds)
    return codegen(context, builder, signature, values)


@intrinsic
def _nothing(typing: Any) -> Any:
    """Wait for nothing: `copy_async` is done at once."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_dummy_value()

    return types.void(), codegen


#: ``cp.async.wait_all``: until this thread's `copy_async` are done.
_copy_wait = instruction("copy_wait", "cp.async.wait_all;")


def accesses(arch: tuple[int, int]) -> dict[str, Any]:
    """The names that kernel text for compute capability `arch` may use."""
    return {
        **{f"load{n}": _load(n) for n in WIDTHS},
        **{f"store{n}": _store(n) for n in WIDTHS},
        **{f"copy_async{n}": _copy_async(n, arch) for n in WIDTHS},
        "between": _between,
        "copy_wait": _copy_wait if arch >= (8, 0) else _nothing,
        **{f"shared_{kind}": _shared(getattr(types, kind)) for kind in _KINDS},
    }
