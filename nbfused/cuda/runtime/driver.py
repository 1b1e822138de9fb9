"""Devices and their memory, through the driver API.

Everything happens in the *primary* context of a device, the one that CuPy, PyTorch,
JAX and Numba use too.  Temporaries come from a memory pool of our own, so that nobody
else's pool changes its habits; they are allocated and freed in the order of a stream.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from ...errors import BackendNotAvailableError
from ...gpu.devices import ApiError, Devices, GpuDevice
from ...support.records import record
from .notes import NOTES

__all__ = ["Device", "DriverError", "Entries", "check", "cu", "device",
           "device_count", "driver_version", "entries", "loading", "used_devices"]


class DriverError(ApiError):
    """The CUDA driver refused a call; `code` is its ``CUresult``."""


#: What to do about errors whose texts do not say so.
_WAYS_OUT = {
    3: "; a process that was forked after CUDA had started cannot use it: use "
       "multiprocessing's start method 'spawn', or fork before the first array",
    709: "; somebody has reset the device, as numba.cuda.close() does: nbfused cannot "
         "use it again in this process",
}


@lru_cache(maxsize=1)
def cu() -> Any:
    """The module of bindings; the driver is initialised.

    Raises
    ------
    BackendNotAvailableError
        If the bindings, the driver or a device is missing.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise BackendNotAvailableError(
            "the package cuda-bindings is not installed; install nbfused[cuda13] or "
            f"nbfused[cuda12] ({error})") from error
    try:
        code = int(driver.cuInit(0)[0])
    except Exception as error:  # the bindings raise errors of several packages
        raise BackendNotAvailableError(
            f"the NVIDIA driver (libcuda) cannot be loaded: {error}") from error
    if code:
        raise BackendNotAvailableError(
            f"the NVIDIA driver does not start: {_describe(driver, code)}")
    return driver


@lru_cache(maxsize=1)
def entries() -> Entries:
    """The driver's functions that every launch calls, through ctypes.

    An empty launch takes 1.2 µs so and 1.6 by the bindings, and machine code needs the
    function's address: benchmarks/notes/host.md#what-a-launch-costs.
    """
    cu()
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    # Keeps the interpreter's lock: it only reads a variable of the thread.
    current = ctypes.PyDLL("libcuda.so.1").cuCtxGetCurrent

    def context() -> int | None:
        found = ctypes.c_void_p()  # its own: threads ask at the same time
        current(ctypes.byref(found))
        return found.value

    address = ctypes.cast(launch, ctypes.c_void_p).value
    return Entries(launch, context, address or 0)


@record(frozen=True)
class Entries:
    """Functions of the driver; arguments are ctypes' own.

    Attributes
    ----------
    launch
        ``cuLaunchKernelEx(configuration, function, parameters, None)``, a ``CUresult``.
    context
        The address of this thread's current context; None if there is none.
    address
        Of the driver's ``cuLaunchKernelEx``; 0: machine code must not call it.
    """

    launch: Callable[..., int]
    context: Callable[[], int | None]
    address: int = 0


def _describe(driver: Any, code: int) -> str:
    result = driver.CUresult(code)
    error, text = driver.cuGetErrorString(result)
    return f"{result.name}: {text.decode()}" if not int(error) else result.name


def check(answer: tuple[Any, ...]) -> Any:
    """Give what a driver call returned besides its status.

    Raises
    ------
    DriverError
        If the status is not success.
    """
    code = int(answer[0])
    if code:
        raise DriverError(f"the CUDA driver says {_describe(cu(), code)}"
                          f"{_WAYS_OUT.get(code, '')}", code)
    return answer[1] if len(answer) == 2 else answer[1:]


@contextmanager
def loading() -> Iterator[None]:
    """Allow this thread to load code, or to start a device, while a stream is captured.

    The usual modes of capture refuse that, although it enters no graph.
    """
    driver = cu()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = check(driver.cuThreadExchangeStreamCaptureMode(mode))
    try:
        yield
    finally:
        check(driver.cuThreadExchangeStreamCaptureMode(before))


def device_count() -> int:
    """Number of devices that the driver shows (``CUDA_VISIBLE_DEVICES`` counts)."""
    return int(check(cu().cuDeviceGetCount()))


@lru_cache(maxsize=1)
def driver_version() -> tuple[int, int]:
    """The newest CUDA version that the driver supports, ``(13, 0)``."""
    version = int(check(cu().cuDriverGetVersion()))
    return version // 1000, version % 1000 // 10


#: May be entered by many threads at once.
_NOTHING = nullcontext()


class Device(GpuDevice):
    """A device's primary context, its properties and its pool of temporaries.

    Attributes
    ----------
    name : str
        Of the model, ``"NVIDIA H200"``.
    cuda : tuple of int
        The newest CUDA version that the driver supports.
    arch : tuple of int
        Compute capability, ``(9, 0)``.
    processors : int
        Number of multiprocessors.
    address : int
        Of the context.
    shared_limit : int
        Bytes of shared memory that one block may ask for.
    cache_size : int
        Bytes of the L2 cache.
    """

    kind = "cuda"

    def __init__(self, ordinal: int) -> None:
        driver = cu()
        handle = check(driver.cuDeviceGet(ordinal))
        self.ordinal = ordinal
        self.name, self.cuda = _name(driver, handle), driver_version()
        self.context = check(driver.cuDevicePrimaryCtxRetain(handle))
        self.address = int(self.context)
        self._dropped: deque[tuple[int, bool]] = deque()
        attribute = driver.CUdevice_attribute

        def value(name: str) -> int:
            which = getattr(attribute, "CU_DEVICE_ATTRIBUTE_" + name)
            return int(check(driver.cuDeviceGetAttribute(which, handle)))

        self.arch = (value("COMPUTE_CAPABILITY_MAJOR"),
                     value("COMPUTE_CAPABILITY_MINOR"))
        self.processors = value("MULTIPROCESSOR_COUNT")
        self.shared_limit = value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.cache_size = value("L2_CACHE_SIZE")
        self.shared_total = value("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
        with self.current():
            pools = value("MEMORY_POOLS_SUPPORTED")
            self._pool = _make_pool(ordinal) if pools else None

    def current(self) -> AbstractContextManager[None]:
        """Make the primary context current in this thread, and undo that after.

        Where none is current the first device's stays, as with the runtime API: threads
        that only work with our arrays have it from their first launch on.  Another
        device's would become the current device of all libraries.
        """
        now = entries().context()
        if now is None and self.ordinal == 0:
            check(cu().cuCtxSetCurrent(self.context))
            return _NOTHING
        return _NOTHING if now == self.address else self._pushed()

    @contextmanager
    def _pushed(self) -> Iterator[None]:
        check(cu().cuCtxPushCurrent(self.context))
        try:
            yield
        finally:
            check(cu().cuCtxPopCurrent())

    def _allocate(self, size: int, stream: int) -> int:
        if self._dropped and stream == 0:
            self._reclaim()
        driver = cu()
        if self._pool is None:
            return int(check(driver.cuMemAlloc(size)))
        return int(check(driver.cuMemAllocFromPoolAsync(size, self._pool, stream)))

    def free(self, address: int, stream: int = 0) -> None:
        """Give memory of `allocate` back once `stream` has come so far."""
        driver = cu()
        if address == 0:
            return
        if self._pool is None:
            answer = driver.cuMemFree(address)
        else:
            answer = driver.cuMemFreeAsync(address, stream)
        check(answer)

    def workspace(self, size: int, stream: int) -> AbstractContextManager[int]:
        """Memory for the kernels launched on `stream` within the ``with`` block."""
        notes = NOTES.get()
        if notes is None or notes.memory is None:
            return super().workspace(size, stream)
        return nullcontext(notes.memory.workspace(size))

    def drop(self, address: int, busy: bool = False) -> None:
        """Free memory of the default stream with the next call that asks for some.

        Not at once: somebody may capture a graph just then, which that would spoil.
        `busy` memory may be in use on other streams until the device is idle.
        """
        self._dropped.append((address, busy))

    def _reclaim(self) -> None:
        while self._dropped:
            try:
                address, busy = self._dropped.pop()
            except IndexError:  # another thread was sooner
                return
            if busy:
                check(cu().cuCtxSynchronize())
            self.free(address)

    def trim(self) -> None:
        """Free what the pool holds and nobody uses, after the device has finished."""
        self._reclaim()
        check(cu().cuCtxSynchronize())
        if self._pool is not None:
            check(cu().cuMemPoolTrimTo(self._pool, 0))

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        with self.current():
            free, total = check(cu().cuMemGetInfo())
        return int(free), int(total)

    def upload(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes from the host."""
        with self.current():
            check(cu().cuMemcpyHtoD(to, source, size))

    def download(self, to: int, source: int, size: int) -> None:
        """Copy `size` bytes to the host, once the default stream has come so far."""
        with self.current():
            check(cu().cuMemcpyDtoH(to, source, size))

    def synchronize(self) -> None:
        """Wait for everything launched on this device."""
        with self.current():
            check(cu().cuCtxSynchronize())


def _name(driver: Any, handle: Any) -> str:
    """The model's name; the driver fills the rest of the text with zeros."""
    return check(driver.cuDeviceGetName(128, handle)).partition(b"\0")[0].decode()


def _make_pool(ordinal: int) -> Any:
    """A pool that keeps what it has across synchronisations."""
    driver = cu()
    props = driver.CUmemPoolProps()
    props.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.handleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
    props.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    props.location.id = ordinal
    pool = check(driver.cuMemPoolCreate(props))
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    check(driver.cuMemPoolSetAttribute(pool, threshold,
                                       driver.cuuint64_t(2**64 - 1)))
    return pool


def _make(ordinal: int) -> Device:
    with loading():
        return Device(ordinal)


_devices = Devices("cuda", "driver", _make, device_count)


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
