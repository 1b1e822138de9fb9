"""Devices and their memory, through the C ABI of ``hip/runtime.hip``.

A process has one HIP runtime: the one that CuPy or PyTorch has loaded already, else the
system's.  Kernels use the stream of the arrays' library, in its devices' memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import lru_cache
from typing import Any

from ...errors import BackendNotAvailableError, DeviceError
from ...gpu.devices import ApiError, Devices, GpuDevice
from ..build.compile import load, runtime_library
from ..build.kernel import Kernel
from ..build.toolchain import AMD, EMULATION, find
from .hip_library import hip_library
from .pool import Pool
from .topology import chosen, gfx_target

__all__ = ["Device", "HipError", "check", "described", "device", "device_count",
           "runtime", "standing_in", "used_devices"]

#: ``hipErrorLaunchFailure``.
LAUNCH_FAILURE = 719

#: How `nbf_copy` calls the directions.
TO_DEVICE, TO_HOST, WITHIN = 0, 1, 2

#: Parameters of the functions that return a code.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "device_count": (POINTER(c_int),),
    "attribute": (POINTER(c_int), c_int, c_int),
    "pci_bus_id": (c_char_p, c_int, c_int),
    "memory": (c_int, POINTER(c_size_t), POINTER(c_size_t)),
    "malloc": (c_int, POINTER(c_void_p), c_size_t),
    "free": (c_int, c_void_p),
    "copy": (c_int, c_void_p, c_void_p, c_size_t, c_int, c_void_p),
    "stream_synchronize": (c_int, c_void_p),
    "device_synchronize": (c_int,),
    "first_unknown": (POINTER(c_void_p), c_int),
    "launch": (c_int, c_void_p, POINTER(c_uint), c_size_t, c_void_p, c_void_p),
}
_TEXTS: dict[str, tuple[Any, ...]] = {
    "platform": (), "error_name": (c_int,), "error_string": (c_int,)}


class HipError(ApiError):
    """The HIP runtime refused a call; `code` is its ``hipError_t``."""


@lru_cache(maxsize=1)
def runtime() -> Any:
    """The functions ``nbf_…`` of the runtime's library, built at the first call.

    Raises
    ------
    BackendNotAvailableError
        The compiler or the HIP runtime is missing.
    CompileError
        The library cannot be built.
    """
    if find().name == AMD:
        hip_library()
    library = runtime_library()
    for name, parameters in _FUNCTIONS.items():
        function = getattr(library, f"nbf_{name}")
        function.argtypes, function.restype = parameters, c_int
    for name, parameters in _TEXTS.items():
        function = getattr(library, f"nbf_{name}")
        function.argtypes, function.restype = parameters, c_char_p
    return library


def described(code: int) -> str:
    """The name of an error and what the runtime says of it."""
    name = runtime().nbf_error_name(code).decode()
    text = runtime().nbf_error_string(code).decode()
    return name if text in ("", name) else f"{name}: {text}"


def check(code: int) -> None:
    """Raise for what a function of the runtime returned.

    Raises
    ------
    HipError
        If it is not success.
    """
    if code:
        raise HipError(f"the HIP runtime says {described(code)}", code)


def device_count() -> int:
    """Number of devices that the runtime shows; starts it.

    Raises
    ------
    BackendNotAvailableError
        There is none.
    """
    count = c_int()
    code = runtime().nbf_device_count(byref(count))
    if code:
        raise BackendNotAvailableError(
            f"the HIP runtime shows no device: {described(code)}")
    return count.value


class Device(GpuDevice):
    """A device and its properties.

    Attributes
    ----------
    arch : str
        ``"gfx90a"``; ``"sm_90"`` on an NVIDIA GPU; ``"emulation"``.
    processors : int
        Number of compute units.
    wave : int
        Threads of a wave, 32 or 64.
    threads_limit, shared_limit : int
        Threads of a block, and bytes of its shared memory, at most.
    """

    kind = "rocm"

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        (self.processors, self.wave, self.threads_limit, self.shared_limit, major,
         minor) = [self._attribute(k) for k in range(6)]
        self.arch = self._arch(major, minor)
        self._pool = Pool(self._malloc, self._free,
                          keep=find().name != EMULATION)  # freed is freed: shows bugs

    def _attribute(self, which: int) -> int:
        value = c_int()
        check(runtime().nbf_attribute(byref(value), which, self.ordinal))
        return value.value

    def _arch(self, major: int, minor: int) -> str:
        name = find().name
        if name == AMD:
            place = ctypes.create_string_buffer(64)
            check(runtime().nbf_pci_bus_id(place, 64, self.ordinal))
            return gfx_target(place.value.decode())
        return name if name == EMULATION else f"sm_{major}{minor}"

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures that kernels are compiled for (``NBFUSED_ROCM_ARCH``)."""
        return (self.arch,) if self.arch == EMULATION else chosen(
            self.label, self.arch)

    def current(self) -> AbstractContextManager[None]:
        """Nothing to do: every call names its device."""
        return nullcontext()

    def _allocate(self, size: int, stream: int) -> int:
        return self._pool.allocate(size, stream)

    def free(self, address: int, stream: int = 0) -> None:
        """Give memory of `allocate` back, for use in the order of `stream`."""
        if address:
            self._pool.free(address, stream)

    def drop(self, address: int) -> None:
        """Give memory of the default stream back; the pool keeps it."""
        self.free(address)

    def trim(self) -> None:
        """Free the memory that nobody uses, after the device has finished."""
        self.synchronize()
        self._pool.trim()

    def _malloc(self, size: int) -> int:
        address = c_void_p()
        check(runtime().nbf_malloc(self.ordinal, byref(address), size))
        return int(address.value or 0)

    def _free(self, address: int) -> None:
        check(runtime().nbf_free(self.ordinal, address))

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = c_size_t(), c_size_t()
        check(runtime().nbf_memory(self.ordinal, byref(free), byref(total)))
        return free.value, total.value

    def upload(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes from the host."""
        self.copy(to, source, size, TO_DEVICE)

    def download(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes to the host, once the default stream has come so far."""
        self.copy(to, source, size, TO_HOST)

    def copy(self, to: int, source: int, size: int, kind: int, stream: int = 0) -> None:
        """Copy bytes in the order of `stream`; the host's part is done on return.

        Raises
        ------
        DeviceError
            If a device's side is where no device has memory: the runtime may take that
            for the host's.
        """
        sides = {TO_DEVICE: (to,), TO_HOST: (source,), WITHIN: (to, source)}[kind]
        unknown = self.first_unknown(sides)
        if size and unknown < len(sides):
            raise DeviceError(
                f"a copy of {size:,} bytes has its device's side at "
                f"{sides[unknown]:#x}, where no device has memory; expected memory of "
                f"{self.label} that has not been freed")
        check(runtime().nbf_copy(self.ordinal, to, source, size, kind, stream))

    def first_unknown(self, addresses: Sequence[int]) -> int:
        """The number of the first address that is on no device; how many if all are."""
        count = len(addresses)
        return int(runtime().nbf_first_unknown((c_void_p*count)(*addresses), count))

    def load(self, kernel: Kernel) -> int:
        """The address of the kernel's entry, found or built now.

        Raises
        ------
        CompileError
            The compiler refuses the kernel.
        """
        return load(kernel, self.archs)

    def start(self, entry: int, extents: Any, shared: int, stream: int,
              words: int) -> int:
        """Launch a loaded kernel; the runtime's code.

        `extents` are six of C's unsigned integers, of the grid and of a block, and
        `words` the address of the arguments.  Without extents nothing is launched, and
        the kernel's attributes are written to `words`.
        """
        return int(runtime().nbf_launch(self.ordinal, entry, extents, shared, stream,
                                        words))

    def synchronize(self) -> None:
        """Wait for everything launched on this device."""
        check(runtime().nbf_device_synchronize(self.ordinal))


_devices = Devices("rocm", "runtime", Device, device_count)


def device(ordinal: int) -> Device:
    """The device with this number, made at the first call.

    Raises
    ------
    DeviceError
        If there is no such device.
    """
    return _devices[ordinal]


def used_devices() -> tuple[Device, ...]:
    """The devices that `device` has been asked for."""
    return tuple(_devices.values())


@contextmanager
def standing_in(other: Device) -> Iterator[None]:
    """Let `other` be the device of its number within the ``with`` block."""
    before = dict(_devices)
    _devices[other.ordinal] = other
    try:
        yield
    finally:
        _devices.clear()
        _devices.update(before)
