"""What an array is: one description for the arrays of every library.

`describe` reads the address, shape, strides, dtype, device and stream of an array
without copying it; its `Library` makes arrays of the same kind.  No library is imported
here: one is looked up only when an array of it has come.  What is named here is
imported when it is first used: a device starts before that (`starting`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .creation import from_dlpack, to_numpy
    from .description import Array, Library, Reading
    from .detect import describe, dtype_of, is_array, library_of
    from .device_array import DeviceArray
    from .devices import canonical_device, ordinal
    from .dtypes import BFLOAT16, check_dtype
    from .host import host_view
    from .overlap import ByteRange, byte_range, may_overlap, same_memory, self_overlaps
    from .readings import reading_of
    from .starting import array, empty, full, zeros

__all__ = [
    "BFLOAT16", "Array", "ByteRange", "DeviceArray", "Library", "Reading", "array",
    "byte_range",
    "canonical_device", "check_dtype", "describe", "dtype_of", "empty", "from_dlpack",
    "full", "host_view", "is_array", "library_of", "may_overlap", "ordinal",
    "reading_of", "same_memory", "self_overlaps", "to_numpy", "zeros",
]

_MODULES = {
    "creation": "from_dlpack to_numpy",
    "description": "Array Library Reading",
    "detect": "describe dtype_of is_array library_of",
    "device_array": "DeviceArray",
    "devices": "canonical_device ordinal",
    "dtypes": "BFLOAT16 check_dtype",
    "host": "host_view",
    "overlap": "ByteRange byte_range may_overlap same_memory self_overlaps",
    "readings": "reading_of",
    "starting": "array empty full zeros",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found
