"""Attributes of compiled kernels: read from the driver, and two that can be set."""

from __future__ import annotations

from typing import Any

from ...errors import KernelTypeError, RangeError
from .driver import check, cu

__all__ = ["NAMES", "SETTABLE", "attributes", "set_attribute"]

#: The driver's names without ``CU_FUNC_ATTRIBUTE_``, as CuPy spells them.
NAMES = (
    "max_threads_per_block", "shared_size_bytes", "const_size_bytes",
    "local_size_bytes", "num_regs", "ptx_version", "binary_version", "cache_mode_ca",
    "max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout",
)
SETTABLE = ("max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout")


def _which(name: str) -> Any:
    return getattr(cu().CUfunction_attribute, "CU_FUNC_ATTRIBUTE_" + name.upper())


def attributes(function: Any) -> dict[str, int]:
    """Registers, memory and limits of a loaded kernel; its context is current.

    Parameters
    ----------
    function
        The driver's handle, a ``CUfunction``.
    """
    return {name: int(check(cu().cuFuncGetAttribute(_which(name), function)))
            for name in NAMES}


def set_attribute(function: Any, name: str, value: int, most: int) -> None:
    """Set one of `SETTABLE`; the kernel's context is current.

    Parameters
    ----------
    most
        What the device allows.

    Raises
    ------
    KernelTypeError
        If it cannot be set, or `value` is no integer.
    RangeError
        If `value` is negative or above `most`.
    """
    if name not in SETTABLE:
        raise KernelTypeError(f"attribute {name!r} cannot be set; expected one of "
                              f"{', '.join(SETTABLE)}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise KernelTypeError(f"{name}: got {value!r}; expected an integer")
    lowest = -1 if name == "preferred_shared_memory_carveout" else 0
    if not lowest <= value <= most:
        raise RangeError(f"{name}: got {value}; expected {lowest} to {most}")
    check(cu().cuFuncSetAttribute(function, _which(name), int(value)))
