"""What an array is: one description for the arrays of every library.

`describe` reads the address, shape, strides, dtype, device and stream of an array
without copying it; its `Library` makes arrays of the same kind.  No library is imported
here: one is looked up only when an array of it has come.
"""

from .creation import array, empty, from_dlpack, full, to_numpy, zeros
from .description import Array, Library, Reading
from .detect import describe, dtype_of, is_array, library_of
from .device_array import DeviceArray
from .devices import canonical_device, ordinal
from .dtypes import BFLOAT16, check_dtype
from .host import host_view
from .overlap import ByteRange, byte_range, may_overlap, same_memory, self_overlaps
from .readings import reading_of

__all__ = [
    "BFLOAT16", "Array", "ByteRange", "DeviceArray", "Library", "Reading", "array",
    "byte_range",
    "canonical_device", "check_dtype", "describe", "dtype_of", "empty", "from_dlpack",
    "full", "host_view", "is_array", "library_of", "may_overlap", "ordinal",
    "reading_of", "same_memory", "self_overlaps", "to_numpy", "zeros",
]
