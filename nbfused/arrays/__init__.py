"""Arrays of every library, described alike: shape, strides, dtype, device, stream.

`describe` reads the address, shape, strides, dtype, device and stream of an array
without copying it; its `Library` makes arrays of the same kind.  No library is imported
here: one is looked up only when an array of it has come.  What is named here is
imported when it is first used: a device starts before that (`constructors`).

============== =========================================================================
`allocation`   `DeviceArray` over memory that a backend allocates
`constructors` `array`, `empty`, `zeros` and `full`, which start a device that they name
`creation`     creation of arrays on a device, and conversion of arrays back to NumPy
`description`  `Array` describes an array, `Library` makes arrays like it
`detect`       recognition of an array's library from its type
`device_array` `DeviceArray`, for devices that no other library has arrays on
`devices`      names of devices: ``"cpu"``, ``"cuda:0"``
`dtypes`       the dtypes that kernels support, and checks of dtypes
`indexing`     basic indexing and reshaping as arithmetic on shapes and strides
`libraries`    a module for each library of arrays
`memory`       NumPy arrays over an address, made without reading the memory
`operators`    operators of `DeviceArray`, and the namespace that arrays name
`overlap`      tests for shared memory between arrays
`reading`      generated source text that reads an argument's address and cache key
`traced`       placeholders of arrays while a function is traced
`watched`      an index of watched objects by ranges of addresses
============== =========================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .constructors import array, empty, full, zeros
    from .creation import from_dlpack, to_numpy
    from .description import Array, Library, Reading
    from .detect import describe, dtype_of, is_array, library_of
    from .device_array import DeviceArray
    from .devices import canonical_device, ordinal
    from .dtypes import BFLOAT16, check_dtype
    from .libraries.numpy import NUMPY, host_view
    from .overlap import ByteRange, byte_range, may_overlap, same_memory, self_overlaps
    from .reading import reading_of

__all__ = [
    "BFLOAT16", "NUMPY", "Array", "ByteRange", "DeviceArray", "Library", "Reading",
    "array", "byte_range", "canonical_device", "check_dtype", "describe", "dtype_of",
    "empty", "from_dlpack", "full", "host_view", "is_array", "library_of",
    "may_overlap", "ordinal", "reading_of", "same_memory", "self_overlaps", "to_numpy",
    "zeros",
]

_MODULES = {
    "creation": "from_dlpack to_numpy",
    "description": "Array Library Reading",
    "detect": "describe dtype_of is_array library_of",
    "device_array": "DeviceArray",
    "devices": "canonical_device ordinal",
    "dtypes": "BFLOAT16 check_dtype",
    "libraries.numpy": "NUMPY host_view",
    "overlap": "ByteRange byte_range may_overlap same_memory self_overlaps",
    "reading": "reading_of",
    "constructors": "array empty full zeros",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = found
    return found
