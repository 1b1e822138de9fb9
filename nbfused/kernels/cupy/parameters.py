"""Lists of parameters as CuPy writes them: ``"float32 x, raw T y"``."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import check_dtype
from ...errors import DefinitionError, KernelTypeError, NbFusedWarning
from ...support.dtypes import DTYPES
from ...support.records import record

__all__ = ["ParameterInfo", "check_name", "check_texts", "check_unique",
           "ignore_options", "parse_parameters", "resolve_types"]


@record(frozen=True)
class ParameterInfo:
    """A parameter of a kernel.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype or None
        None where the type is a placeholder.
    ctype : str
        The type as it is written: a dtype's name or one letter.
    raw : bool
        Whether the kernel indexes it.
    """

    name: str
    dtype: np.dtype | None
    ctype: str
    raw: bool = False


def parse_parameters(text: str, what: str) -> tuple[ParameterInfo, ...]:
    """The parameters of a list.

    Raises
    ------
    DefinitionError
        A type that is no dtype, a reserved name, a keyword that is not ``raw``; the
        message names the token.  It is a `ValueError`.
    """
    if not isinstance(text, str):
        raise KernelTypeError(f"'{what}' must be a string such as 'float32 x, T y', "
                              f"got {type(text).__name__}")
    return _parameters(text, what)


@lru_cache(maxsize=1024)
def _parameters(text: str, what: str) -> tuple[ParameterInfo, ...]:
    core = re.search(r"\w+\([^)]*\)?", text)
    if core:
        raise DefinitionError(
            f"'{what}': {core.group()!r} has core dimensions, as of a gufunc; expected "
            "a type and a name: use nf.row or nf.reduction along an axis, or 'raw T x'")
    parts = [p.strip() for p in text.split(",")] if text.strip() else []
    return tuple(_parameter(p, what) for p in parts)


def _parameter(text: str, what: str) -> ParameterInfo:
    words = text.split()
    if len(words) < 2:
        raise DefinitionError(f"'{what}': {text!r} must be a type and a name, such as "
                              "'float32 x'")
    *keywords, ctype, name = words
    for word in keywords:
        if word != "raw":
            raise DefinitionError(f"'{what}': unknown keyword {word!r} in {text!r}; "
                                  "there is only 'raw'")
    if len(ctype) == 1 and ctype.isalpha():
        return ParameterInfo(_checked(name, what), None, ctype, "raw" in keywords)
    if ctype not in DTYPES:
        raise DefinitionError(
            f"'{what}': unknown type {ctype!r} in {text!r}; expected a dtype "
            f"({', '.join(DTYPES)}) or one letter that stands for any")
    return ParameterInfo(_checked(name, what), DTYPES[ctype], ctype, "raw" in keywords)


def _checked(name: str, what: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise DefinitionError(f"'{what}': {name!r} is no name")
    if name == "i" or name.startswith("_"):
        raise DefinitionError(f"'{what}': can not use {name!r} as a parameter name; i "
                              "and names that begin with _ are reserved")
    return name


def check_name(name: str) -> None:
    """`DefinitionError` unless `name` can name a kernel."""
    if not isinstance(name, str) or not name.isidentifier():
        raise DefinitionError(f"'name': invalid kernel name {name!r}; expected an "
                              "identifier")


def check_texts(**texts: Any) -> None:
    """`DefinitionError` for what must be C and is no string."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DefinitionError(f"'{name}' must be a string in C, got "
                                  f"{type(text).__name__}")


def ignore_options(kernel: str, options: Sequence[str]) -> None:
    """Warn of NVRTC's options, which nothing here reads."""
    if not isinstance(options, (tuple, list)):
        raise DefinitionError(f"'options' must be a tuple of strings, got "
                              f"{type(options).__name__}")
    if options:
        warnings.warn(f"{kernel}: options {options!r} are NVRTC's and are ignored; "
                      "only nf.RawKernel compiles with it", NbFusedWarning,
                      stacklevel=3)


def check_unique(params: Sequence[ParameterInfo]) -> None:
    """`DefinitionError` if two parameters have one name."""
    names = [p.name for p in params]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"the parameter {name!r} is declared twice")


def resolve_types(kernel: str, params: Sequence[ParameterInfo],
                  given: Sequence[np.dtype | None],
                  numbers: Mapping[str, Any]) -> dict[str, np.dtype]:
    """The dtypes of the placeholders.

    Parameters
    ----------
    kernel
        Its name.
    params, given
        Parameters, outputs first, and the dtype of the array of each; None for a
        number and for an output that is to be made.
    numbers
        For each parameter that is a number, its value: what has no array for its
        letter decides itself.

    Raises
    ------
    KernelTypeError
        Arrays of two dtypes for one letter or of another than declared, or a letter
        that only an output has that is not given.
    """
    found: dict[str, tuple[np.dtype, str]] = {}
    for p, dtype in zip(params, given, strict=True):
        if dtype is None:
            continue
        dtype = check_dtype(dtype, f"{kernel}: '{p.name}'")
        if p.dtype is not None and dtype != p.dtype:
            raise KernelTypeError(f"{kernel}: '{p.name}' is declared {p.dtype}, got an "
                                  f"array of {dtype}; convert it with astype")
        if p.dtype is None:
            first, name = found.setdefault(p.ctype, (dtype, p.name))
            if first != dtype:
                raise KernelTypeError(
                    f"{kernel}: type {p.ctype} is {first} in '{name}' and {dtype} in "
                    f"'{p.name}'; convert one with astype, or use two letters")
    types = {letter: dtype for letter, (dtype, _) in found.items()}
    for p in params:
        if p.dtype is None and p.ctype not in types:
            values = [numbers[q.name] for q in params if q.ctype == p.ctype
                      and q.name in numbers]
            if not values:
                raise KernelTypeError(
                    f"{kernel}: type {p.ctype} of '{p.name}' cannot be inferred from "
                    "the inputs; pass the output as an argument")
            types[p.ctype] = check_dtype(np.result_type(*map(np.asarray, values)),
                                         f"{kernel}: '{p.name}'")
    return types
