"""Kernels as callables: loaded once per device, launched with packed parameters.

What a launch needs lies in two blocks of memory, whose addresses the driver is given:
the configuration (grid, block, shared memory, stream) and the parameters.  A launch
writes what differs from the last one and makes one call, through ctypes: 4.75 µs, of
which the driver takes 4.41 (benchmarks/notes/host.md#what-a-launch-costs).
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...backend import Extents, NumberOf, Start
from ...gpu.arguments import ArgumentBuffer
from .attributes import attributes
from .compile import DESCRIPTOR, Kernel, loaded
from .driver import Device, check, cu, entries, loading
from .fast_launch import fast_start
from .notes import NOTES, Launched

__all__ = ["Parameters", "Program"]

_DEFAULT_SHARED = 48 * 1024  # more shared memory than this must be asked for

#: ``CUlaunchConfig``: grid, block, bytes of shared memory; stream; attributes (none).
_CONFIGURATION = struct.Struct("=7I4xQQI4x")
_STREAM = 4  # which 8-byte word of it

#: ``CUDA_ERROR_INVALID_CONTEXT``: the thread has none; ``CUDA_ERROR_INVALID_HANDLE``:
#: it has another one, where the function is not known.
_OTHER_CONTEXT = (201, 400)


#: Parameters that are assigned to as they are.
_CTYPES: dict[str, Any] = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "*": ctypes.c_uint64}


class Parameters:
    """The configuration and the parameters of one launch at a time.

    Attributes
    ----------
    words
        The parameters.
    configuration, pointers
        The configuration and the parameters, as 8-byte words.
    arguments
        The addresses of both, as the driver takes them.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.words = ArgumentBuffer(kernel.name, kernel.parameters)
        self.configuration = (ctypes.c_uint64 * (_CONFIGURATION.size // 8))()
        self.pointers = (ctypes.c_uint64 * self.words.count).from_buffer(
            self.words.buffer) if self.words.count else None
        addresses = self.words.addresses
        table = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        # What `cast` gives keeps what it points to.
        self.arguments = (ctypes.cast(self.configuration, ctypes.c_void_p),
                          ctypes.cast(table, ctypes.c_void_p))

    def slot(self, parameter: int) -> tuple[Any, int]:
        """An array, and the index in it, to which a number of the call is assigned."""
        # A seventh of what `pack` takes: benchmarks/notes/host.md#what-a-launch-costs.
        kind, part = self.words.parameters[parameter], self.words.part(parameter, 1)
        number = _CTYPES.get(kind[0] if kind[0] == "*" else kind)
        if number is None:
            return _Packed(part), 0
        return (number * 1).from_buffer(self.words.buffer, part.offset), 0

    def configure(self, grid: Extents, block: Extents, shared: int,
                  stream: int) -> None:
        """Write the configuration of a launch."""
        _CONFIGURATION.pack_into(self.configuration, 0, *grid, *block, shared, stream,
                                 0, 0)


class _Packed:
    """Looks like an array whose one element is a number of any dtype."""

    def __init__(self, words: ArgumentBuffer) -> None:
        self._words = words

    def __setitem__(self, index: int, value: Any) -> None:
        self._words.pack((value,))


class Program:
    """A kernel; compiled, or found in the cache, when a device first needs it.

    Parameters
    ----------
    kernel
        The text and its parameters.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._memory = Parameters(kernel)
        self._functions: dict[int, Any] = {}
        self._allowed: dict[int, int] = {}
        self._clusters: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def launch(self, device: Device, stream: int, blocks: int | Extents,
               values: Sequence[Any], shared: int = 0,
               block: Extents | None = None) -> None:
        """Start blocks on `stream`.

        Parameters
        ----------
        blocks
            How many, or along each axis.
        values
            One number for each of the kernel's parameters; addresses are integers.
        shared
            Bytes of dynamic shared memory for each block.
        block
            Threads along each axis; by default as many as the kernel says.

        Raises
        ------
        KernelTypeError
            If a number does not fit its parameter.
        DriverError
            If the driver refuses the launch.
        """
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        threads = block or (self.kernel.threads, 1, 1)
        notes = NOTES.get()
        if notes is not None:
            notes.append(Launched(self, grid, threads, tuple(values), shared))
            return
        driver, memory = entries(), self._memory
        if driver.context() != device.address:
            with device.current():
                self.launch(device, stream, blocks, values, shared, block)
            return
        with self._lock:
            function = self._ready(device, shared)
            memory.words.pack(values)
            memory.configure(grid, threads, shared, stream)
            configuration, parameters = memory.arguments
            code = driver.launch(configuration, function, parameters, None)
        if code:
            check((code,))

    def bind(self, device: Device, launched: Launched) -> Start:
        """A launch of which only pointers, numbers and the stream are open."""
        with device.current():
            function = ctypes.c_void_p(self.function(device, launched.shared))

        def prepare() -> tuple[Any, ...]:
            memory = Parameters(self.kernel)
            memory.words.pack([0 if isinstance(v, NumberOf) else v
                               for v in launched.values])
            memory.configure(launched.grid, launched.block, launched.shared, 0)
            numbers = [(*memory.slot(at), v.position) for at, v in enumerate(
                launched.values) if isinstance(v, NumberOf)]
            return (memory.pointers, numbers, memory.configuration, *memory.arguments)

        start = _starter(device, function, prepare, launched.pointers)
        return _faster(start, function, prepare(), launched) or start

    def function(self, device: Device, shared: int = 0) -> int:
        """The driver's handle; the device's context is current."""
        with self._lock:
            return int(self._ready(device, shared).value)

    def attributes(self, device: Device) -> dict[str, int]:
        """Registers, memory and limits of the kernel."""
        with device.current():
            return attributes(self.function(device))

    def clusters(self, device: Device, shared: int) -> int:
        """Number of the kernel's clusters that run at the same time.

        Fewer than the multiprocessors have room for: a cluster's are neighbours.
        """
        key = device.ordinal, shared
        if key not in self._clusters:
            driver, kernel = cu(), self.kernel
            with device.current(), self._lock:
                function = driver.CUfunction(self._ready(device, shared).value)
                config = driver.CUlaunchConfig()
                config.gridDimX, config.blockDimX = kernel.cluster, kernel.threads
                config.gridDimY = config.gridDimZ = 1
                config.blockDimY = config.blockDimZ = 1
                config.sharedMemBytes = shared
                self._clusters[key] = check(
                    driver.cuOccupancyMaxActiveClusters(function, config))
        return self._clusters[key]

    def _ready(self, device: Device, shared: int) -> Any:
        """The function, which may have so much shared memory."""
        function = self._functions.get(device.ordinal)
        if function is None:
            function = self._load(device)
        if shared > self._allowed[device.ordinal]:
            self._allow(device, function, shared)
        return function

    def _load(self, device: Device) -> Any:
        driver = cu()
        with loading():
            module = loaded(self.kernel, device)
        function = check(driver.cuModuleGetFunction(module, self.kernel.name.encode()))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        static = check(driver.cuFuncGetAttribute(attribute, function))
        self._allowed[device.ordinal] = _DEFAULT_SHARED - static
        handle = self._functions[device.ordinal] = ctypes.c_void_p(int(function))
        return handle

    def _allow(self, device: Device, function: Any, shared: int) -> None:
        attribute = cu().CUfunction_attribute
        most = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check(cu().cuFuncSetAttribute(function.value, most, shared))
        self._allowed[device.ordinal] = shared


def _faster(start: Start, function: ctypes.c_void_p, memory: tuple[Any, ...],
            launched: Launched) -> Start | None:
    """`start` without Python, if it can be had."""
    words, _, configuration, *_ = memory
    address = entries().address
    kinds = launched.program.kernel.parameters
    numbers = [(kinds[at] == "float64", at, v.position)
               for at, v in enumerate(launched.values) if isinstance(v, NumberOf)]
    plain = address and words is not None and len(words) == len(kinds) and \
        DESCRIPTOR not in kinds
    if not plain or not {kinds[at] for _, at, _ in numbers} <= {"float32", "float64"}:
        return None
    return fast_start(start, address, function.value or 0, launched.pointers,
                      bytes(words), numbers, bytes(configuration))


def _starter(device: Device, function: ctypes.c_void_p,
             prepare: Callable[[], tuple[Any, ...]], pointers: int) -> Start:
    """Make the function that starts a kernel, in Python.

    It is a function, and not a method, because it runs for every call: local names are
    found soonest.  A thread takes memory from a list and puts it back, which needs no
    lock: that would take 0.14 µs, and asking for the context first 0.16
    (benchmarks/notes/host.md#what-a-launch-costs).
    """
    launch, idle = entries().launch, [prepare()]

    def start(addresses: Sequence[int], scalars: tuple[Any, ...], stream: int) -> None:
        try:
            memory = idle.pop()
        except IndexError:  # other threads have it
            memory = prepare()
        words, numbers, configuration, where, table = memory
        words[:pointers] = addresses
        for slots, at, position in numbers:
            slots[at] = scalars[position]
        configuration[_STREAM] = stream
        code = launch(where, function, table, None)
        if code:
            # Another context refuses, so that nobody needs to ask for it before.
            if code in _OTHER_CONTEXT:
                with device.current():
                    code = launch(where, function, table, None)
            check((code,))
        idle.append(memory)

    return start
