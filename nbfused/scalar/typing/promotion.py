"""Types of scalar values and how they combine: NumPy's rules, asked of NumPy.

A type is a dtype or, for a Python number, `Weak` (NEP 50).  bfloat16 is not NumPy's
own; its rules are here: with float16 it gives float32, with integers bfloat16, with
wider floats those.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...errors import KernelTypeError
from ...support.dtypes import BFLOAT16, DTYPES, HALVES, number_kind
from ...support.records import record

__all__ = [
    "BOOL", "KINDS", "Type", "Weak", "common_float",
    "compute_dtype", "dtype_named", "is_integer", "promote", "promoted_dtype",
    "resolve",
]


@record(frozen=True)
class Weak:
    """The type of a Python number; `kind` is bool, int, float or complex."""

    kind: str

    def __str__(self) -> str:
        return f"Python {self.kind}"


Type = np.dtype | Weak

BOOL = np.dtype(np.bool_)
_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_COMPUTED = {t.dtype: t.computed for t in HALVES}

#: Python's number types, narrow to wide; each is at least as wide as those before.
KINDS = ("bool", "int", "float", "complex")
_CHARACTERS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}

#: Ufuncs for which a Python bool stays one; the others see the integer.
_BOOLEAN_RULES = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "logical_and", "logical_or",
    "logical_not", "maximum", "minimum",
})
_PYTHON = {"bool": bool, "int": int, "float": float, "complex": complex}


def dtype_named(name: str, label: str = "") -> np.dtype:
    """The dtype called `name`, bfloat16 included; `label` begins the error.

    Raises
    ------
    KernelTypeError
        No such dtype, or kernels do not take it.
    """
    if name not in DTYPES:
        raise KernelTypeError(f"{label}dtype {name} is not supported in kernels; "
                              f"supported: {', '.join(DTYPES)}; convert with astype")
    return DTYPES[name]


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype that values of `dtype` are computed in: float32 for 16-bit floats."""
    return _COMPUTED.get(dtype, dtype)


def is_integer(t: Type) -> bool:
    """Whether `t` is an integer type; bool is not."""
    return t.kind == "int" if isinstance(t, Weak) else t.kind in "iu"


def promote(*types: Type) -> Type:
    """The type that holds values of all `types`, as where branches join."""
    strong = [t for t in types if not isinstance(t, Weak)]
    if not strong:
        return Weak(max((t.kind for t in types), key=KINDS.index))
    numbers = [_PYTHON[t.kind](0) for t in types if isinstance(t, Weak)]
    stand_ins, narrow = _without_bfloat16(strong)
    return narrow(np.result_type(*stand_ins, *numbers))


def promoted_dtype(*types: Type) -> np.dtype:
    """The dtype of `promote`, for types of which at least one is a dtype."""
    found = promote(*types)
    assert not isinstance(found, Weak)
    return found


def common_float(types: Sequence[Type]) -> np.dtype | None:
    """The dtype that all strong floating `types` promote to; None without any."""
    parts = [np.empty(0, t).real.dtype if t.kind == "c" else t for t in types
             if not isinstance(t, Weak) and number_kind(t) in "fc"]
    return promoted_dtype(*parts) if parts else None


class _Narrow:
    """float32 back to bfloat16, if that is what it stood for."""

    def __init__(self, active: bool) -> None:
        self.active = active

    def __call__(self, dtype: np.dtype) -> np.dtype:
        return BFLOAT16 if self.active and dtype == _FLOAT32 else dtype


def _without_bfloat16(strong: Sequence[np.dtype]) -> tuple[list[Any], _Narrow]:
    """`strong` as NumPy can promote them, and the way back for what comes out.

    float32 stands for bfloat16 (and for float16 beside it), Python's int for the
    integers beside it.
    """
    if BFLOAT16 not in strong:
        return list(strong), _Narrow(False)
    stand_ins = [_FLOAT32 if t in (BFLOAT16, _FLOAT16) else 0 if t.kind in "iu" else t
                 for t in strong]
    floats = [t for t in strong if number_kind(t) in "fc"]
    return stand_ins, _Narrow(all(t == BFLOAT16 for t in floats))


@cache
def resolve(rule: str, types: tuple[Type, ...]) -> tuple[tuple[Type, ...], Type]:
    """Operand types and result type of the ufunc called `rule`.

    Python numbers alone give a Python number.

    Raises
    ------
    TypeError
        NumPy's refusal.
    """
    ufunc: np.ufunc = getattr(np, rule)
    strong = [t for t in types if not isinstance(t, Weak)]
    stand_ins, narrow = _without_bfloat16(strong)
    queue = iter(type(s) if s == 0 and not isinstance(s, np.dtype) else s
                 for s in stand_ins)
    query = [_weak_stand_in(rule, t, not strong) if isinstance(t, Weak) else next(queue)
             for t in types]
    dtypes = ufunc.resolve_dtypes((*query, *[None] * ufunc.nout))
    if strong:
        found: list[Type] = [narrow(d) for d in dtypes]
    else:
        found = [Weak(_CHARACTERS[d.kind]) for d in dtypes]
    return tuple(found[:-1]), found[-1]


def _weak_stand_in(rule: str, t: Weak, alone: bool) -> type | np.dtype:
    if t.kind == "bool" and (not alone or rule in _BOOLEAN_RULES):
        return BOOL
    number = _PYTHON["int" if t.kind == "bool" else t.kind]
    return np.dtype(number) if alone else number
