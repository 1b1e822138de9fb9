"""Kernel text to machine code.  Only this file and `intrinsics` name Numba.

``text -> numba.cuda.compile -> PTX -> ptxas -> disk cache -> the driver``, which
assembles the PTX itself where there is no ptxas (`assemble`), when it is loaded, and
keeps what comes out in a cache of its own.  A process that finds its kernels in the
cache imports no Numba.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import nbfused.cache as cache

from ...config import dump_source, logger
from ...errors import CompileError
from ...support.records import record
from .assemble import Assembly, Version, asked, assemble, installed, target_version
from .driver import Device, DriverError, check, cu, driver_version

__all__ = ["DESCRIPTOR", "Arch", "Kernel", "assembly", "compiled", "keep", "key_of",
           "loaded", "prepare", "prepare_compiler", "ptx"]

_log = logger("compile")
_lock = threading.Lock()

Arch = tuple[int, int]


#: The kind of a parameter that is a tensor map: 128 bytes by value.
DESCRIPTOR = "descriptor"


@record(frozen=True)
class Kernel:
    """The text of one kernel and what its parameters are.

    Attributes
    ----------
    name
        Of the function in `text` and of the entry that profilers show.
    text
        Source for Numba: functions, if it repeats statements, and a ``def`` of `name`.
    parameters
        For each parameter the name of a dtype, after a ``*`` if it is a pointer, or
        `DESCRIPTOR`.
    threads
        Threads per block that it is launched with.
    blocks
        Blocks that should fit on one multiprocessor together; 0: no wish.
    feature
        ``"a"``: instructions that only this very architecture has.
    cluster
        Blocks that make a cluster, if more than 1.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    threads: int
    blocks: int = 0
    feature: str = ""
    cluster: int = 1

    def numbered(self) -> str:
        """The text with line numbers, for error messages."""
        return "".join(f"{k:4} {line}\n"
                       for k, line in enumerate(self.text.splitlines(), 1))


#: Names that NumPy 2.5 has removed and that numba-cuda 0.30, its last release, looks up
#: at import.
_REMOVED = ("row_stack",)


@contextmanager
def _removed_names() -> Iterator[None]:
    """Lend NumPy the names it lost while numba-cuda is imported, no longer."""
    lent = [name for name in _REMOVED if not hasattr(np, name)]
    for name in lent:
        def placeholder(*args: Any, **kwargs: Any) -> None:
            raise NotImplementedError("removed from NumPy")

        placeholder.__name__ = name
        setattr(np, name, placeholder)
    try:
        yield
    finally:
        for name in lent:
            delattr(np, name)


@lru_cache(maxsize=1)
def _numba_cuda() -> Any:
    """The module numba.cuda.

    Raises
    ------
    CompileError
        If it is missing or does not import; the cause is in the text.
    """
    from ...support.generated import fewer_collections

    try:
        with _removed_names(), fewer_collections():
            if find_spec("numba_cuda") is None:  # Numba's own numba.cuda does not serve
                raise ImportError("no module named numba_cuda")
            import numba.cuda
            import numba.cuda.extending
            from numba.cuda.descriptor import cuda_target

            # Loads the modules that Numba itself would import at the first compilation.
            cuda_target.typing_context.refresh()
            cuda_target.target_context.refresh()
    except ImportError as error:
        raise CompileError(
            "a CUDA kernel must be compiled and numba-cuda is not installed; install "
            f"nbfused[cuda13] or nbfused[cuda12] ({error})") from error
    except AttributeError as error:
        raise CompileError(
            f"numba-cuda does not import with NumPy {np.__version__}: {error}; "
            "install NumPy 2.5 or older") from error
    return numba.cuda


def _type(name: str) -> Any:
    """The Numba type of a kernel parameter."""
    from numba import types

    if name.startswith("*"):
        return types.CPointer(_type(name[1:]))
    if name == DESCRIPTOR:
        return types.uint64  # its address, see `_by_value`
    return getattr(types, name)


@contextmanager
def _readable(kernel: Kernel) -> Iterator[str]:
    """The name of a file that tracebacks and ``inspect`` can read the text from."""
    pyfile = f"<nbfused cuda {kernel.name} {_text_digest(kernel)}>"
    linecache.cache[pyfile] = (len(kernel.text), None,
                               kernel.text.splitlines(True), pyfile)
    try:
        yield pyfile
    finally:
        linecache.cache.pop(pyfile, None)


@contextmanager
def _function(kernel: Kernel, arch: Arch, pyfile: str) -> Iterator[Any]:
    """The Python function, which may be compiled in a ``with`` block."""
    from ..isa.intrinsics import namespace
    from .inlined import inlined

    # A module name of its own keeps the mangled names short.
    names: dict[str, Any] = {**namespace(arch), "__name__": "nbfused"}
    exec(compile(_with_constants(kernel.text, names), pyfile, "exec"), names)
    with inlined(names, kernel.name, (*arch, *kernel.feature)):
        yield names[kernel.name]


#: A literal that is converted to a dtype.
_CONVERTED = re.compile(r"\b([fiu]\d+)\((-?(?:math\.(?:inf|nan)|"
                        r"\d+(?:\.\d*)?(?:e[+-]?\d+)?))\)")


def _with_constants(text: str, names: dict[str, Any]) -> str:
    """A text whose converted literals are global constants, which `names` is given.

    ``f32(0.5)`` is three statements for Numba, and a call whose types it looks for:
    benchmarks/notes/host.md#first-calls.
    """
    known: dict[str, str] = {}

    def constant(found: re.Match[str]) -> str:
        if found[0] not in known:
            try:
                with np.errstate(all="ignore"):
                    value = eval(found[0], names)
            except OverflowError:
                return found[0]
            known[found[0]] = name = f"constant_{len(known)}"
            names[name] = value
        return known[found[0]]

    return _CONVERTED.sub(constant, text)


def _text_digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.text.encode()).hexdigest()[:12]


def ptx(kernel: Kernel, arch: Arch) -> str:
    """Compile to PTX; needs no device.

    Raises
    ------
    CompileError
        With the text and what the compiler said.
    """
    with _lock:  # the first of several threads imports it, the others wait
        cuda = _numba_cuda()
    from numba import types

    signature = types.void(*map(_type, kernel.parameters))
    bounds = (kernel.threads, kernel.blocks) if kernel.blocks else kernel.threads
    try:
        with _lock, _readable(kernel) as pyfile:
            from .pipeline import lean

            with lean(), _function(kernel, arch, pyfile) as function:
                code, _ = cuda.compile(
                    function, signature, device=False, abi="numba",
                    cc=(*arch, *kernel.feature), output="ptx", launch_bounds=bounds)
    except Exception as error:  # Numba's own errors, LLVM's, NVVM's
        raise CompileError(
            f"Numba does not compile the kernel {kernel.name!r} for sm_"
            f"{arch[0]}{arch[1]}: {error}\n{kernel.numbered()}",
            source=kernel.text, log=str(error)) from error
    return _clustered(_by_value(_rename(code, kernel.name), kernel), kernel)


def _clustered(code: str, kernel: Kernel) -> str:
    """With the size of the clusters, for which Numba has no word."""
    if kernel.cluster == 1:
        return code
    return code.replace("\n.maxntid", "\n.explicitcluster\n.reqnctapercluster "
                        f"{kernel.cluster}, 1, 1\n.maxntid", 1)


def _by_value(code: str, kernel: Kernel) -> str:
    """Tensor maps as 128 bytes of the parameters; the kernel takes their address.

    Numba has no such parameters; it was told of addresses.
    """
    for k, kind in enumerate(kernel.parameters):
        if kind != DESCRIPTOR:
            continue
        name = f"{kernel.name}_param_{k}"
        code = re.sub(rf"\.param \.[ub]64 {name}(?=[,\s)])",
                      f".param .align 64 .b8 {name}[128]", code)
        code = re.sub(rf"ld\.param\.[ub]64\s+(%rd\d+), \[{name}\];",
                      rf"mov.b64 \1, {name};\n\tcvta.param.u64 \1, \1;", code)
    return code


def _rename(code: str, name: str) -> str:
    """The entry under `name`, not the mangled one."""
    mangled = re.findall(r"\.entry\s+([\w$]+)", code)
    if len(mangled) != 1:
        raise CompileError(f"expected one kernel, got {mangled}", source=code)
    return re.sub(rf"(?<![\w$]){re.escape(mangled[0])}(?=_param_|[^\w$])", name, code)


def assembly(kernel: Kernel, device: Device) -> Assembly:
    """The code of a kernel, from the cache or compiled now.

    Raises
    ------
    CompileError
        If Numba refuses the kernel, or the ptxas of the settings does not run.
    """
    found = cache.get(key_of(kernel, device), partial(Assembly.unpacked, kernel.name))
    if found is not None:
        return found
    code = compiled(kernel, device.arch, device.cuda, asked())
    keep(kernel, device, code)
    return code


def compiled(kernel: Kernel, arch: Arch, cuda: Version, ptxas: str | None) -> Assembly:
    """The code of a kernel, compiled now.

    Parameters
    ----------
    cuda
        The newest CUDA version that the driver supports.
    ptxas
        As `asked`; other processes have none of this one's settings.

    Raises
    ------
    CompileError
        If Numba refuses the kernel, or the ptxas of the settings does not run.
    """
    return assemble(ptx(kernel, arch), kernel.name, _target(kernel, arch), cuda, ptxas)


def prepare_compiler() -> None:
    """Import the compiler and what kernels call, and look for an assembler."""
    _numba_cuda()
    from ..isa.intrinsics import namespace

    namespace((9, 0))
    installed()


def key_of(kernel: Kernel, device: Device) -> str:
    """The key of the cache for the code of a kernel."""
    return cache.digest(kernel.text, *kernel.parameters, f"{kernel.threads}",
                        f"{kernel.blocks}", f"{kernel.cluster}",
                        _target(kernel, device.arch), asked() or "", _own_digest())


def _target(kernel: Kernel, arch: Arch) -> str:
    return f"sm_{arch[0]}{arch[1]}{kernel.feature}"


def keep(kernel: Kernel, device: Device, code: Assembly) -> None:
    """Keep code that was compiled in the cache."""
    _dump(kernel)
    cache.put(key_of(kernel, device), code.packed())
    _log.debug("compiled %s for sm_%d%d: %d bytes, %d of machine code", kernel.name,
               *device.arch, len(code.ptx), len(code.machine))


def prepare() -> None:
    """Find out what all keys of the cache have in common."""
    cache.digest(_own_digest())


@lru_cache(maxsize=1)
def _own_digest() -> bytes:
    """Digest of all that shapes the machine code besides the text."""
    cuda = Path(__file__).parents[1]
    support = cuda.parent / "support"
    files = [*(cuda / "runtime" / f"{name}.py" for name in
               ("assemble", "compile", "pipeline")), *sorted(cuda.glob("isa/*.py")),
             *sorted(support.glob("llvm/*.py"))]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).digest()


def _dump(kernel: Kernel) -> None:
    """Write the text where ``NBFUSED_DUMP_SOURCE`` says."""
    dump_source(f"cuda_{kernel.name}_{_text_digest(kernel)}.py", kernel.text)


_LOG_BYTES = 16384


def loaded(kernel: Kernel, device: Device) -> Any:
    """The module with the kernel, in the current context.

    Without machine code the driver assembles the PTX, and keeps the outcome on disk.
    Its linker would give a cubin that we could keep, but it assembles code as if it
    came in parts: a Map of 16-bit elements takes 61 registers then instead of 32,
    ``setmaxnreg`` is ignored, and the products of ``wgmma`` wait for one another.

    Raises
    ------
    CompileError
        If Numba or the driver refuses the kernel.
    """
    code, newest = assembly(kernel, device), driver_version()
    if code.machine and code.cuda <= newest:
        try:
            return check(cu().cuModuleLoadData(code.machine))
        except DriverError as error:
            _log.debug("machine code of %s is not loaded: %s", kernel.name, error)
    return _load(kernel, target_version(code.ptx, newest))


def _load(kernel: Kernel, code: str) -> Any:
    """The module of PTX, which the driver assembles."""
    option = cu().CUjit_option
    log = bytearray(_LOG_BYTES)
    options = [option.CU_JIT_ERROR_LOG_BUFFER,
               option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    try:
        return check(cu().cuModuleLoadDataEx(
            code.encode() + b"\0", len(options), options, [log, _LOG_BYTES]))
    except DriverError as error:
        text = log.split(b"\0", 1)[0].decode(errors="replace").strip()
        raise CompileError(
            f"the CUDA driver does not assemble the kernel {kernel.name!r}: {error}\n"
            f"{text}", source=code, log=text) from error
