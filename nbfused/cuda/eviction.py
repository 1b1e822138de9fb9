"""Accesses to what a kernel reads or writes once, which need not stay in a cache.

A line that is read once would push out of L2 what others will read, or a line that must
be written to memory first.  With the policy ``evict_first`` such lines replace one
another.  That needs compute capability 8.0; older chips pass the first cache only.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from .accesses import WIDTHS, Access, asm, copy_of, l2_policy, load_of, store_of

__all__ = ["eviction_namespace"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class Once(Access):
    """``ld.global`` and ``st.global`` with ``.L1::no_allocate.L2::cache_hint``.

    Accesses of 4, 8 and 16 bytes, in words of 32 bits; others are plain.
    """

    #: Priority in the first cache and policy of the second, if any.
    first, policy = ".L1::no_allocate", "evict_first"

    @property
    def count(self) -> int:
        """Words of an access; 0 if it is plain."""
        size = self.kind.bitwidth*self.width // 8
        return size // 4 if size in (4, 8, 16) else 0

    def fetch(self, builder: Any, address: Any) -> Any:
        """The vector at an address."""
        return self.fetch_if(builder, address, None)

    def fetch_if(self, builder: Any, address: Any, wanted: Any) -> Any:
        """The vector at an address if it is `wanted`, else zeros."""
        count = self.count
        if not count:
            if wanted is not None:
                raise TypeError(f"{self.width} elements of {self.kind} are no access "
                                "of 4, 8 or 16 bytes")
            return super().fetch(builder, address)
        values = [builder.ptrtoint(address, _I64), *self.policies(builder)]
        kinds = [*["=&r"]*count, *"l"*len(values)]
        names = [f"${k}" for k in range(count)]
        hint = f", ${count + 1}" if self.policy else ""
        text = (f"ld.global{self.hints}{_type(count)} {_listed(names)}, "
                f"[${count}]{hint};")
        if wanted is not None:
            zeros = " ".join(f"mov.b32 {name}, 0;" for name in names)
            text = (f"{{ .reg .pred p; setp.ne.b32 p, ${count + len(values)}, 0; "
                    f"{zeros} @p {text} }}")
            values.append(builder.zext(wanted, _I32))
            kinds.append("r")
        result = _I32 if count == 1 else ir.LiteralStructType([_I32]*count)
        loaded = asm(builder, result, text, ",".join(kinds), *values, effect=True)
        words = ir.Constant(ir.VectorType(_I32, count), ir.Undefined)
        for k in range(count):
            word = loaded if count == 1 else builder.extract_value(loaded, k)
            words = builder.insert_element(words, word, _I32(k))
        return builder.bitcast(words, self.vector)

    def _elements(self, builder: Any, loaded: Any) -> list[Any]:
        """The elements of a vector, which is no load that LLVM would split."""
        if self.packed == 1:
            return super()._elements(builder, loaded)
        vector = builder.bitcast(loaded, ir.VectorType(self.scalar, self.width))
        return [builder.extract_element(vector, _I32(k)) for k in range(self.width)]

    def put(self, builder: Any, vector: Any, address: Any) -> None:
        """Write the vector."""
        count = self.count
        if not count:
            super().put(builder, vector, address)
            return
        words = builder.bitcast(vector, ir.VectorType(_I32, count))
        parts = [builder.extract_element(words, _I32(k)) for k in range(count)]
        names = [f"${k + 1}" for k in range(count)]
        hint = f", ${count + 1}" if self.policy else ""
        policies = self.policies(builder)
        asm(builder, ir.VoidType(),
            f"st.global{self.hints}{_type(count)} [$0], {_listed(names)}{hint};",
            ",".join(["l", *"r"*count, *"l"*len(policies), "~{memory}"]),
            builder.ptrtoint(address, _I64), *parts, *policies, effect=True)

    @property
    def hints(self) -> str:
        """What the instructions say of both caches."""
        return self.first + (".L2::cache_hint" if self.policy else "")

    def policies(self, builder: Any) -> list[Any]:
        """The operand of an instruction with ``.L2::cache_hint``."""
        return [l2_policy(builder, self.policy)] if self.policy else []


def _type(count: int) -> str:
    return f".v{count}.b32" if count > 1 else ".b32"


def _listed(names: list[str]) -> str:
    return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]


def load_if(width: int, access: type[Once]) -> Any:
    """The intrinsic that loads where a condition holds."""

    @intrinsic
    def load(typing: Any, pointer: Any, index: Any, wanted: Any) -> Any:
        """``width`` elements from `index` on if `wanted`, else zeros; aligned."""
        result = types.UniTuple(pointer.dtype, width)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            one = access(context, pointer.dtype, width)
            vector = one.fetch_if(builder, one.address(builder, *values[:2]), values[2])
            return one.tuple_of(builder, vector)

        return result(pointer, types.int64, types.boolean), codegen

    return load


def eviction_namespace(arch: tuple[int, int]) -> dict[str, Any]:
    """The names that kernel text for compute capability `arch` may use.

    ``load_once4(pointer, index)``, ``load_once4_if(pointer, index, wanted)``,
    ``store_once4(pointer, index, values)`` and
    ``copy_once4(target, at, source, index)`` are `load4`, `store4`, `copy_async4` for
    elements of global memory that this kernel does not access again.
    """
    hints = {} if arch >= (8, 0) else {"policy": ""}
    access: type[Once] = type("Once", (Once,), hints)
    found: dict[str, Any] = {}
    for n in WIDTHS:
        found[f"load_once{n}"] = load_of(n, access)
        found[f"load_once{n}_if"] = load_if(n, access)
        found[f"store_once{n}"] = store_of(n, access)
        found[f"copy_once{n}"] = copy_of(n, arch, access.policy)
    return found
