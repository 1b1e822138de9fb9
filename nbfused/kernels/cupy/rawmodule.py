"""`RawKernel` and `RawModule`: CUDA C++, PTX and cubins, called as in CuPy.

Code that `ElementwiseKernel` and `rawkernel` cannot say, or that exists already.  It
runs on devices only and has no derivative; see `nbfused.kernels.cupy.by_value` for what
may be an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from ...arrays import Array, DeviceArray, check_dtype
from ...backend import Native, NativeBackend, NativeKernel, NativeModule
from ...dispatch.launches import LAUNCHES, Launch, bytes_of
from ...errors import BackendNotAvailableError, DefinitionError, KernelTypeError
from ...op.keywords import check_keywords
from ...registry.backends import default_device, registry
from ..threads.extents import block_extents, grid_extents
from .by_value import arrays_of, pack_arguments
from .launching import bytes_of_shared, current_or_given

__all__ = ["RawKernel", "RawModule"]

#: CuPy's name of a compiler → our backend that has it.
_COMPILERS = {"nvrtc": "cuda"}


class RawModule:
    """Kernels and variables of one piece of CUDA C++, or of a compiled file.

    Nothing is compiled before a kernel is called, `compile` or `get_global`; then for
    each device once, and kept on disk.

    Parameters
    ----------
    code : str
        CUDA C++.
    path : str
        Instead of `code`: a file with PTX or a cubin.
    options : tuple of str
        Of the compiler, such as ``("--use_fast_math", "-DN=4")``.  The architecture
        and the folders of the toolkit's headers are added.
    backend : {"nvrtc"}
        The compiler.
    translate_cucomplex, jitify : bool
        CuPy's; only False.
    enable_cooperative_groups : bool
        Launch so that all blocks of a grid may synchronise.
    name_expressions : sequence of str
        Kernels and variables as C++ names them, ``"f<float>"``: templates are
        instantiated, and `get_function` takes these names.

    Raises
    ------
    KernelTypeError
        Both or neither of `code` and `path`; options that are no tuple of str.
    DefinitionError
        A file that cannot be read.

    Examples
    --------
    >>> import nbfused as nf
    >>> module = nf.RawModule(code='''
    ... template<typename T> __global__ void triple(T* x) { x[threadIdx.x] *= 3; }
    ... ''', name_expressions=["triple<float>"])
    >>> module.get_function("triple<float>").name
    'triple<float>'
    """

    def __init__(self, *, code: str | None = None, path: Any = None,
                 options: Sequence[str] = (), backend: str = "nvrtc",
                 translate_cucomplex: bool = False,
                 enable_cooperative_groups: bool = False,
                 name_expressions: Sequence[str] | None = None,
                 jitify: bool = False) -> None:
        if (code is None) == (path is None):
            raise KernelTypeError("RawModule: expected either code= or path=")
        if backend not in _COMPILERS:
            raise KernelTypeError(f"backend: {backend!r} is no compiler; expected "
                                  f"{', '.join(_COMPILERS)}")
        if translate_cucomplex or jitify:
            raise KernelTypeError(
                "translate_cucomplex and jitify are CuPy's own headers; include "
                "<cuda/std/complex>, which is found with the toolkit's headers")
        if path is not None and name_expressions:
            raise KernelTypeError("name_expressions: a compiled file has its names; "
                                  "give the source as code=")
        _check_text("code", code if path is None else "")
        self.code: str | None = code
        self.path: Any | None = path
        self.backend: str = backend
        self.options: tuple[str, ...] = _texts("options", options)
        self.native: Native = Native(
            code if code is not None else _bytes_at(path), self.options,
            _texts("name_expressions", name_expressions or ()),
            "kernel.cu" if path is None else str(path), bool(enable_cooperative_groups))
        self._modules: dict[str, NativeModule] = {}

    def get_function(self, name: str) -> RawKernel:
        """The kernel called `name`; that there is one is seen at its first use."""
        _check_text("name", name)
        return RawKernel.from_module(self, name)

    def get_global(self, name: str, dtype: DTypeLike = "uint8") -> DeviceArray:
        """A ``__device__`` or ``__constant__`` variable as an array of one dimension.

        Parameters
        ----------
        name : str
            As in the source if it is ``extern "C"``, or one of `name_expressions`.
        dtype : dtype
            Of the elements; bytes by default.

        Returns
        -------
        DeviceArray
            On the default device.  It is the memory itself: what is stored there, the
            kernels see.  `nbfused.from_dlpack` makes it an array of CuPy, if there is
            one.
        """
        _check_text("name", name)
        device = self.default_device()
        address, size = self.loaded(device).variable(name)
        kind = check_dtype(dtype)
        if size % kind.itemsize:
            raise KernelTypeError(f"{name} has {size} bytes, no multiple of the "
                                  f"{kind.itemsize} of {kind}")
        return DeviceArray(address, (size // kind.itemsize,), None, kind, device,
                           owner=self)

    def compile(self) -> None:
        """Compile now, for the default device.

        Raises
        ------
        CompileError
            With the compiler's log.
        BackendNotAvailableError
            Without a device or the compiler.
        """
        self.loaded(self.default_device())

    def available(self) -> NativeBackend:
        """The backend; `BackendNotAvailableError` says why there is none."""
        backend: Any = registry.load(_COMPILERS[self.backend])
        if not hasattr(backend, "native"):
            raise BackendNotAvailableError(
                f"backend {backend.name!r} takes no native code")
        return backend

    def default_device(self) -> str:
        """The device on which kernels without arrays run."""
        backend, device = self.available(), default_device()
        return device if backend.owns(device) else f"{backend.name}:0"

    def loaded(self, device: str) -> NativeModule:
        """The code on one device: of threads that load it at once, the first's.

        Each copy has variables of its own.
        """
        found = self._modules.get(device)
        return found or self._modules.setdefault(
            device, self.available().native(self.native, device))


def _bytes_at(path: Any) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        raise DefinitionError(f"RawModule: 'path' {path!r} cannot be read ({error}); "
                              "expected a file with PTX or a cubin") from error


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise KernelTypeError(f"{name} is a {type(value).__name__}; expected a str")


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(v, str) for v in values):
        raise KernelTypeError(f"{name} is {values!r}; expected a tuple of str")
    return tuple(values)


def _attribute(name: str) -> Any:
    def read(self: RawKernel) -> int:
        return self.attributes[name]

    read.__doc__ = f"``attributes[{name!r}]``."
    return property(read)


def _setting(name: str) -> Any:
    def write(self: RawKernel, value: int) -> None:
        self.on(self.module.default_device()).set_attribute(name, value)

    return _attribute(name).setter(write)


class RawKernel:
    """A kernel written in CUDA C++, called as in CuPy.

    Parameters
    ----------
    code : str
        CUDA C++.
    name : str
        Of the kernel, ``extern "C"`` or not; templates as ``"f<float>"``.
    options, backend, translate_cucomplex, enable_cooperative_groups, jitify
        As for `RawModule`.

    Attributes
    ----------
    attributes : dict
        ``num_regs``, ``shared_size_bytes``, ``local_size_bytes``,
        ``const_size_bytes``, ``max_threads_per_block``, ``binary_version``, … on the
        default device; each is an attribute of the kernel as well.  Of these
        ``max_dynamic_shared_size_bytes`` and ``preferred_shared_memory_carveout`` can
        be assigned to.

    Notes
    -----
    Python's integers, floats and complex numbers are ``long long``, ``double`` and two
    ``double``; NumPy scalars are what their dtype says.  Where the driver tells
    (CUDA 12.4 and newer), number and sizes of the arguments are checked.

    What a kernel writes to is not known here.  Arrays of libraries that never change
    them (JAX) can be passed, to be read; and the tape sees that an array it has saved
    was overwritten under ``NBFUSED_DEBUG=1`` only.

    Examples
    --------
    >>> import nbfused as nf
    >>> add = nf.RawKernel(r'''
    ... extern "C" __global__ void my_add(const float* x, const float* y, float* z) {
    ...     int i = blockDim.x * blockIdx.x + threadIdx.x;
    ...     z[i] = x[i] + y[i];
    ... }''', "my_add")
    >>> if nf.backends()["cuda"].available:
    ...     x = nf.full(25, 2, "float32", device="cuda")
    ...     z = nf.empty(25, "float32", device="cuda")
    ...     add((5,), (5,), (x, x, z))
    """

    def __init__(self, code: str, name: str, options: Sequence[str] = (),
                 backend: str = "nvrtc", translate_cucomplex: bool = False, *,
                 enable_cooperative_groups: bool = False, jitify: bool = False) -> None:
        _check_text("code", code)
        _check_text("name", name)
        self._bind(RawModule(
            code=code, options=options, backend=backend, name_expressions=(name,),
            translate_cucomplex=translate_cucomplex, jitify=jitify,
            enable_cooperative_groups=enable_cooperative_groups), name)

    @classmethod
    def from_module(cls, module: RawModule, name: str) -> RawKernel:
        """A kernel of a module."""
        made = object.__new__(cls)
        made._bind(module, name)
        return made

    def _bind(self, module: RawModule, name: str) -> None:
        self.module: RawModule = module
        self.name: str = name
        self._kernels: dict[str, NativeKernel] = {}

    @property
    def code(self) -> str | None:
        """The source; None if it came compiled."""
        return self.module.code

    @property
    def options(self) -> tuple[str, ...]:
        """The compiler's options."""
        return self.module.options

    def compile(self) -> None:
        """Compile now, for the default device."""
        self.on(self.module.default_device())

    def on(self, device: str) -> NativeKernel:
        """The kernel on one device."""
        found = self._kernels.get(device)
        return found or self._kernels.setdefault(
            device, self.module.loaded(device).kernel(self.name))

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes that the driver reports."""
        return self.on(self.module.default_device()).attributes()

    max_threads_per_block: Any = _attribute("max_threads_per_block")
    shared_size_bytes: Any = _attribute("shared_size_bytes")
    const_size_bytes: Any = _attribute("const_size_bytes")
    local_size_bytes: Any = _attribute("local_size_bytes")
    num_regs: Any = _attribute("num_regs")
    ptx_version: Any = _attribute("ptx_version")
    binary_version: Any = _attribute("binary_version")
    cache_mode_ca: Any = _attribute("cache_mode_ca")
    max_dynamic_shared_size_bytes: Any = _setting("max_dynamic_shared_size_bytes")
    preferred_shared_memory_carveout: Any = _setting("preferred_shared_memory_carveout")

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], *,
                 shared_mem: int = 0, stream: Any = None, **unknown: Any) -> None:
        """Launch.

        Parameters
        ----------
        grid, block : tuple of int
            Blocks, and threads in each: one to three extents.
        args : sequence
            Arrays on one device, None, numbers, structured NumPy scalars.
        shared_mem : int
            Bytes of dynamic shared memory for each block.
        stream : optional
            A handle, or an object of CuPy, PyTorch or cuda.core.  By default the
            current one of the arrays' library.
        **unknown
            Refused.

        Raises
        ------
        RangeError
            A grid, a block or shared memory that the device does not have.
        DeviceError
            An array on the host, or arrays on several devices.
        KernelTypeError
            Wrong number of arguments, or one that its parameter does not hold.
        BackendNotAvailableError, CompileError
            No device, no compiler, or code that it refuses.
        """
        label = f"kernel {self.name!r}"
        if unknown:
            check_keywords(label, unknown, ("shared_mem", "stream"))
        grid, block = grid_extents(grid, label), block_extents(block, label)
        shared = bytes_of_shared(shared_mem, label)
        backend = self.module.available()
        if not isinstance(args, (tuple, list)):
            raise KernelTypeError(f"{label}: args is a {type(args).__name__}; expected "
                                  "a tuple")
        given = arrays_of(args, backend, label)
        arrays = [x for x in given if isinstance(x, Array)]
        device = arrays[0].device if arrays else self.module.default_device()
        kernel = self.on(device)
        values = pack_arguments(given, kernel.sizes, label)
        handle = current_or_given(stream, arrays)
        elsewhere = any(a.stream not in (None, handle) for a in arrays)
        if elsewhere:
            backend.synchronize()  # somebody makes one on another stream
        kernel.launch(grid, block, values, shared, handle)
        if elsewhere and stream is None:
            backend.synchronize()  # and nobody there knows of this launch
        trace = LAUNCHES.get()
        if trace is not None:
            trace.append(Launch("Native", self.name, grid, backend.name,
                                bytes_of(arrays), grid, block))

    def __repr__(self) -> str:
        return f"<nbfused RawKernel {self.name}>"
