"""Compilation of a kernel's text by Numba to machine code, through the cache.

The text defines ``kernel(a, begin, end)``, where ``a`` points to 8-byte words.  Its
names are those of `print_numba.NAMES`, `intrinsics`, `halves` and `math`.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import nbfused.cache as artefacts

from ...config import dump_source, logger
from ...errors import CompileError
from ...support.forks import LOCK
from . import objects

__all__ = ["MissingError", "build", "compile_text", "key_of", "noted"]

_log = logger("compile")

#: Files whose functions generated text calls: a change makes old kernels stale.
_LINKED = ("cpu/text/intrinsics.py", "cpu/text/halves.py", "cpu/text/stream_code.py",
           "cpu/mathematics/*.py", "cpu/raw/atomics.py", "cpu/contract/tile.py",
           "cpu/contract/*_code.py", "cpu/contract/pairs/*_code.py",
           "cpu/runtime/team_code.py",
           "cpu/text/call_code.py",
           "cpu/runtime/compile.py", "cpu/runtime/pipeline.py",
           "support/llvm/*.py")


@cache
def _revision() -> str:
    root = Path(__file__).parents[2]
    return "".join(path.read_text("utf-8") for pattern in _LINKED
                   for path in sorted(root.glob(pattern)))


class MissingError(Exception):
    """Raised in a `noted` block where machine code is not in the cache."""


_MISSING: ContextVar[dict[str, str] | None] = ContextVar("nbfused_missing",
                                                         default=None)


@contextmanager
def noted() -> Iterator[dict[str, str]]:
    """Note the texts to compile in a ``with`` block, by their keys, and compile none.

    `build` raises `MissingError` for each of them.
    """
    missing: dict[str, str] = {}
    token = _MISSING.set(missing)
    try:
        yield missing
    finally:
        _MISSING.reset(token)


def key_of(text: str) -> str:
    """The key of the cache for the machine code of a text."""
    return artefacts.digest("cpu", text, _revision(), *objects.host())


def build(*texts: str) -> objects.Entry:
    """Compile the first text, or load its machine code from the cache.

    Parameters
    ----------
    *texts
        The first one is built; the others are going to be.

    Raises
    ------
    CompileError
        Numba refuses the text.
    """
    text, missing = texts[0], _MISSING.get()
    with LOCK:  # LLVM has locks of its own
        key = key_of(text)
        found = artefacts.get(key, objects.unpack)
        if found is not None and not objects.usable(found):
            from .pipeline import target

            target()  # it may call what only Numba has, such as complex powers
            found = found if objects.usable(found) else None
        if found is None and missing is not None:
            missing.update((key_of(each), each) for each in texts)
            raise MissingError
        dump_source(f"cpu_{key[:16]}.py", text)
        if found is None:
            data = compile_text(text)
            artefacts.put(key, data)
            found = objects.unpack(data)
            if not objects.usable(found):
                raise CompileError("a kernel calls a function that this process lacks",
                                   source=text, log=str(found.symbols))
        return objects.link(found.code)


@cache
def _namespace() -> dict[str, Any]:
    """The names that kernel text may use; importing them imports Numba."""
    from numba import njit

    from ...scalar.printing.numba import NAMES
    from ..contract.direct_code import DIRECT
    from ..contract.dots_code import DOTS
    from ..contract.pairs.direct_code import PAIR_PRODUCTS
    from ..contract.pairs.pack_code import PACKS
    from ..contract.pairs.tile_code import PAIR_TILES
    from ..contract.streams_code import STREAMED
    from ..contract.tile_code import TILES
    from ..contract.transpose_code import TRANSPOSES
    from ..mathematics.functions import MATH
    from ..raw.atomics import ATOMICS
    from ..raw.printing import PRINT
    from ..text.call_code import CALLS
    from ..text.halves import HALVES
    from ..text.intrinsics import INTRINSICS
    from ..text.stream_code import STREAMS
    from .team_code import SHARED_WORDS

    return {**NAMES, **INTRINSICS, **HALVES, **MATH, **_additions(HALVES), **ATOMICS,
            **STREAMS, **SHARED_WORDS, **CALLS, **PRINT, **TILES, **TRANSPOSES,
            **DIRECT, **DOTS, **STREAMED, **PACKS, **PAIR_TILES, **PAIR_PRODUCTS,
            "inlined": njit}


def _additions(halves: dict[str, Any]) -> dict[str, Any]:
    """Functions ``atomic_add(pointer, offset, value)``, for one thread only."""
    from numba import njit

    @njit
    def atomic_add(pointer: Any, offset: int, value: Any) -> None:
        pointer[offset] += value

    def rounded(decode: Any, encode: Any) -> Any:
        @njit
        def add(pointer: Any, offset: int, value: Any) -> None:
            pointer[offset] = encode(decode(pointer[offset]) + value)

        return add

    return {"atomic_add": atomic_add} | {
        f"atomic_add_{t}": rounded(halves[f"{t}_to_f32"], halves[f"f32_to_{t}"])
        for t in ("f16", "bf16")}


_NAME = re.compile(r"[^\W\d]\w*")
_READ = re.compile(r"^    (\w+) = a\[\d+\]$", re.MULTILINE)


def _without_unread(text: str) -> str:
    """Drop arguments that a kernel reads and does not use; Numba types every line.

    A frame has the strides of all axes; one in five stands in no address.
    """
    times = Counter(_NAME.findall(text))
    return _READ.sub(lambda line: line[0] if times[line[1]] > 1 else "", text)


def prepare_compiler() -> None:
    """Import the compiler, and what kernels call."""
    from . import pipeline  # noqa: F401

    _namespace()


def compile_text(text: str) -> bytes:
    """Compile a text to what the cache keeps: machine code and its imports.

    Raises
    ------
    CompileError
        Numba refuses the text.
    """
    from numba import config, types
    from numba.core.errors import NumbaError

    if config.DISABLE_JIT:
        raise CompileError("NUMBA_DISABLE_JIT=1: Numba compiles nothing, and a kernel "
                           "that is not in the cache needs it; unset it", source=text)
    from ..text.intrinsics import forget_functions
    from .pipeline import optimized

    namespace = dict(_namespace())
    start = time.perf_counter()
    try:
        exec(compile(_without_unread(text), "<nbfused cpu kernel>", "exec"), namespace)
        compiled = optimized(namespace["kernel"], (
            types.CPointer(types.int64), types.int64, types.int64))
    except (NumbaError, SyntaxError) as error:
        raise CompileError(f"Numba cannot compile a generated kernel: {error}",
                           source=text, log=str(error)) from error
    finally:
        forget_functions()
    _log.info("%s: %.2f s", text.partition("\n")[0], time.perf_counter() - start)
    return _emit(compiled.library.get_llvm_str(), compiled.fndesc.llvm_func_name)


#: Numba's functions have two more parameters: where the result goes, and the exception.
#: None is stored as a null pointer.
_WRAPPER = """
define i64 @{entry}(ptr %a, i64 %begin, i64 %end) {{
  %result = alloca i64
  %fault = alloca ptr
  store i64 0, ptr %result
  %status = call i32 @"{name}"(ptr %result, ptr %fault, ptr %a, i64 %begin, i64 %end)
  %answer = load i64, ptr %result
  ret i64 %answer
}}
"""

#: A float16 with the sign of a float64: LLVM converts both, the latter by a function of
#: this name that processes lack, and the linker would leave a call of address 0.
_NARROW = """
define half @__truncdfhf2(double %value) {
  %single = fptrunc double %value to float
  %half = fptrunc float %single to half
  ret half %half
}
"""


def _emit(assembly: str, name: str) -> bytes:
    """Compile LLVM text to an object file in which only `ENTRY` is visible."""
    import llvmlite.binding as llvm

    wrapper = _WRAPPER.format(entry=objects.ENTRY, name=name)
    narrow = _NARROW if " half" in assembly else ""
    module = llvm.parse_assembly(assembly + wrapper + narrow)
    symbols = []
    for function in module.functions:
        if function.is_declaration:
            if not function.name.startswith("llvm."):
                symbols.append(function.name)
        elif function.name != objects.ENTRY:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    return objects.pack(symbols, objects.machine().emit_object(module))
