"""The dtypes that kernels take: one table, a row for each."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .records import record

__all__ = ["BFLOAT16", "DTYPES", "HALVES", "TYPES", "ElementType", "number_kind",
           "rank_of", "short", "storage"]


@record(frozen=True, eq=False)
class ElementType:
    """A dtype as the parts of the package know it.

    Attributes
    ----------
    dtype
        NumPy's object, or that of ml_dtypes.
    kind
        As NumPy's, but ``"f"`` for bfloat16.
    short
        Its name in kernel text for Numba, and in names of functions.
    computed
        The dtype that its values are computed in.
    stored
        The name of the dtype that its elements are moved as: bools are bytes, 16-bit
        floats their bits.
    cpp
        The C++ type that its values have, if they are computed in it.
    packed
        How `struct` lays a number out in words of 8 bytes, if it is stored as itself.
    dlpack
        DLPack's type code.
    c
        What the types of C and CUDA are called besides; `long` is that of Linux.
    torch
        PyTorch's method that converts to it.
    """

    dtype: np.dtype
    kind: str
    short: str
    computed: np.dtype
    stored: str
    cpp: str
    packed: str
    dlpack: int
    c: tuple[str, ...]
    torch: str


#: The table, by dtype.
TYPES: dict[np.dtype, ElementType] = {}

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
#: The dtype bfloat16, of `ml_dtypes`.
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _row(name: str, short: str, cpp: str = "", packed: str = "", *, stored: str = "",
         computed: str = "", kind: str = "", dlpack: int | None = None,
         c: tuple[str, ...] = (), torch: str = "") -> None:
    dtype = BFLOAT16 if name == "bfloat16" else np.dtype(name)
    kind = kind or dtype.kind
    TYPES[dtype] = ElementType(
        dtype, kind, short, np.dtype(computed or name), stored or name, cpp, packed,
        _CODES[kind] if dlpack is None else dlpack, c, torch)


_row("bool", "b1", "bool", stored="uint8", torch="bool")
_row("int8", "i8", "int8_t", "b7x", c=("int8_t",))
_row("int16", "i16", "int16_t", "h6x", c=("int16_t",), torch="short")
_row("int32", "i32", "int32_t", "i4x", c=("int32_t",), torch="int")
_row("int64", "i64", "int64_t", "q", torch="long",
     c=("int64_t", "ptrdiff_t", "ssize_t", "IndexT", "longlong"))
_row("uint8", "u8", "uint8_t", "B7x", c=("uint8_t", "uchar"))
_row("uint16", "u16", "uint16_t", "H6x", c=("uint16_t", "ushort"))
_row("uint32", "u32", "uint32_t", "I4x", c=("uint32_t", "uint"))
_row("uint64", "u64", "uint64_t", "Q", c=("uint64_t", "size_t", "ulong", "ulonglong"))
_row("float16", "f16", stored="uint16", computed="float32", c=("half", "__half"),
     torch="half")
_row("float32", "f32", "float", "f4x", torch="float")
_row("float64", "f64", "double", "d", torch="double")
_row("complex64", "c64", "nbf::complex<float>", "f4x f4x",
     c=("cuComplex", "cuFloatComplex"))
_row("complex128", "c128", "nbf::complex<double>", "d d", c=("cuDoubleComplex",))
_row("bfloat16", "bf16", stored="uint16", computed="float32", kind="f", dlpack=4,
     c=("__nv_bfloat16",), torch="bfloat16")

#: Every dtype that kernels take, by its name.
DTYPES: dict[str, np.dtype] = {dtype.name: dtype for dtype in TYPES}
#: Those whose values are computed in another.
HALVES = tuple([t for t in TYPES.values() if t.computed != t.dtype])


def number_kind(dtype: np.dtype) -> str:
    """The kind of a dtype; ``"f"`` for bfloat16, which to NumPy is of kind V."""
    return "f" if dtype == BFLOAT16 else dtype.kind


def rank_of(dtype: np.dtype) -> int:
    """The place of its kind among bool, integers, floats and complex numbers."""
    return "bifc".index(number_kind(dtype).replace("u", "i"))


def storage(dtype: np.dtype) -> str:
    """The name of the dtype that elements are moved as."""
    return TYPES[dtype].stored


def short(dtype: np.dtype) -> str:
    """The name that functions of kernels give a dtype: ``f32``, ``i64``, ``bf16``."""
    return TYPES[dtype].short
