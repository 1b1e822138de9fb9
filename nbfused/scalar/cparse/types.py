"""C's arithmetic types as dtypes, and the conversions that C makes between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...support.dtypes import DTYPES, TYPES
from ...support.records import record
from ..typing.promotion import compute_dtype

__all__ = ["ALIASES", "INT64", "TRAITS", "WORDS", "Trait", "array_dtype",
           "common_dtype", "is_array", "promote", "struct_dtype", "struct_name",
           "type_name", "type_text"]

_INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)

#: What the types of C and CUDA are called in dtypes; `long` is that of Linux.
ALIASES: Mapping[str, np.dtype] = {
    **DTYPES,
    **{name: t.dtype for t in TYPES.values() for name in t.c},
}

#: The keywords that fundamental types are type_name with.
WORDS = frozenset({"char", "short", "int", "long", "float", "double", "signed",
                   "unsigned"})


@record(frozen=True)
class Trait:
    """A question of ``<type_traits>``: the number of its types, and its answer."""

    arity: int
    answer: Callable[..., bool]


def _of_kinds(kinds: str) -> Trait:
    """The question if a type is of one of these kinds."""
    return Trait(1, lambda dtype: dtype.kind in kinds)


#: Questions about types by their names in C++.
TRAITS: Mapping[str, Trait] = {
    "is_same": Trait(2, operator.eq),
    "is_floating_point": _of_kinds("f"), "is_integral": _of_kinds("biu"),
    "is_arithmetic": _of_kinds("biuf"), "is_signed": _of_kinds("if"),
    "is_unsigned": _of_kinds("bu"), "is_complex": _of_kinds("c"),
}


def type_name(words: Sequence[str]) -> str:
    """The dtype's name of a type such as ``unsigned long long``."""
    if "double" in words:
        return "float64"
    if "float" in words:
        return "float32"
    bits = (8 if "char" in words else 16 if "short" in words else 64
            if "long" in words else 32)
    return f"{'u' if 'unsigned' in words else ''}int{bits}"


def promote(dtype: np.dtype) -> np.dtype:
    """C's integral promotion: int at least; float for 16-bit floats."""
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 4):
        return _INT32
    return compute_dtype(dtype)


def common_dtype(a: np.dtype, b: np.dtype) -> np.dtype:
    """The usual arithmetic conversions; NumPy's differ for mixed integers."""
    a, b = promote(a), promote(b)
    if a.kind in "iu" and b.kind in "iu":
        wide = max(a, b, key=lambda d: (d.itemsize, d.kind == "u"))
        return wide
    if a.kind == "c" or b.kind == "c":
        parts = [np.empty(0, d).real.dtype for d in (a, b) if d.kind in "fc"]
        return np.result_type(np.complex64, *parts)
    return max((d for d in (a, b) if d.kind == "f"), key=lambda d: d.itemsize)


def struct_dtype(name: str, members: Sequence[tuple[str, np.dtype]]) -> np.dtype:
    """The dtype of a struct, which has its name as the title of the first member.

    So two structs of the same members are two types, as in C++.
    """
    fields: list[Any] = list(members)
    if name:
        fields[0] = (name, members[0][0]), members[0][1]
    return np.dtype(fields, align=True)


def struct_name(dtype: np.dtype) -> str:
    """The name of a struct; empty for a number, or a struct without a name."""
    if dtype.names is None or dtype.fields is None:
        return ""
    title = dtype.fields[dtype.names[0]][2:]
    return str(title[0]) if title else ""


def array_dtype(dtype: np.dtype, size: int) -> np.dtype:
    """The dtype of an array that is a member of a struct: a struct of its elements."""
    return struct_dtype(f"[{size}]", [(str(k), dtype) for k in range(size)])


def is_array(dtype: np.dtype) -> bool:
    """True of the dtype of an array that is a member."""
    return struct_name(dtype).startswith("[")


def type_text(dtype: np.dtype) -> str:
    """A type as errors name it."""
    return str(dtype) if dtype.names is None else struct_name(dtype) or "a struct"
