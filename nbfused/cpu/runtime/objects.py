"""Object files with machine code: packing, checking, and linking by llvmlite."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ...support.records import record

__all__ = ["ENTRY", "Entry", "Packed", "address_of", "has_bfloat16_products",
           "has_float16", "has_wide_conversions", "host", "link", "machine", "pack",
           "unpack", "usable"]

#: ``kernel(arguments, begin, end)``: every argument is in one block of 8-byte words.
#: It gives 0 unless its text returns another number.
Entry = Callable[[bytes, int, int], int]

#: Symbol of a kernel in its object file.
ENTRY = "nbfused_kernel"

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
_found: set[str] = set()
#: Engines, each of which owns the memory of a kernel's code, of kernels that nobody can
#: call any more.  They are closed by the next `link`, under the lock of compilation:
#: a kernel may go at any moment, in any thread, and LLVM has locks of its own.
_dead: deque[Any] = deque()


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # of assembly in LLVM text


#: Features that LLVM does not add by itself, by how a processor's name begins.  AMD's
#: gathers and scatters take longer than as many loads and stores:
#: benchmarks/notes/cpu.md#strided-elements.
_TUNING = {"znver": ",+prefer-no-gather,+prefer-no-scatter"}


@cache
def host() -> tuple[str, str]:
    """Name and features of this processor, for which code is generated."""
    _initialize()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell
        features = ""
    name = llvm.get_host_cpu_name()
    return name, features + "".join(
        more for begin, more in _TUNING.items() if name.startswith(begin))


def has_float16() -> bool:
    """Whether the processor, for which code is generated, converts float16."""
    return _has("f16c")


def has_bfloat16_products() -> bool:
    """Whether that processor multiplies pairs of bfloat16."""
    return _has("avx512bf16") and _has("avx512f") and _has("avx512bw")


def has_wide_conversions() -> bool:
    """Whether that processor has vectors that convert and multiply 64-bit integers."""
    return _has("avx512dq")


def _has(feature: str) -> bool:
    return f"+{feature}" in host()[1].split(",") and not {
        "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} & os.environ.keys()


def has_wide_vectors() -> bool:
    """Whether the processor, for which code is generated, has vectors of 64 bytes."""
    return "+avx512f" in host()[1].split(",")


def machine() -> Any:
    """An LLVM target machine for this processor."""
    name, features = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, jit=True)


@record(frozen=True)
class Packed:
    """An object file with its processor and the symbols it imports."""

    host: tuple[str, str]
    symbols: tuple[str, ...]
    code: bytes


def pack(symbols: Sequence[str], code: bytes) -> bytes:
    """Serialise an object file for the cache."""
    head = json.dumps({"host": host(), "symbols": list(symbols),
                       "digest": hashlib.sha256(code).hexdigest()}).encode()
    return len(head).to_bytes(8, "little") + head + code


def unpack(data: bytes) -> Packed:
    """Deserialise an object file that `pack` made.

    Raises
    ------
    ValueError, KeyError, TypeError
        It is something else: LLVM ends a process that gives it half an object file.
    """
    size = int.from_bytes(data[:8], "little")
    head, code = json.loads(data[8:8 + size]), data[8 + size:]
    name, features = map(str, head["host"])
    if head["digest"] != hashlib.sha256(code).hexdigest():
        raise ValueError("the object file is not the one that was packed")
    return Packed((name, features), tuple(map(str, head["symbols"])), code)


def usable(packed: Packed) -> bool:
    """Whether this processor can run the code, and its symbols exist."""
    return packed.host == host() and all(map(_known, packed.symbols))


def _known(name: str) -> bool:
    """Whether this process has the symbol `name`."""
    if name not in _found:
        _first_engine()  # makes libm known to `address_of_symbol`
        if llvm.address_of_symbol(name) is None:
            return False
        _found.add(name)
    return True


@cache
def _first_engine() -> Any:
    return _engine()


def _engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())


def address_of(entry: Any) -> int:
    """The address of a kernel's machine code."""
    return ctypes.c_void_p.from_buffer(entry).value or 0


def link(code: bytes) -> Entry:
    """Load an object file that `unpack` accepted, for as long as the entry lives.

    Who calls it holds `forks.LOCK`.  Who calls the entry by its address (`address_of`)
    has to hold the entry, too.
    """
    while _dead:
        _dead.popleft().close()
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    entry = _PROTOTYPE(engine.get_function_address(ENTRY))
    weakref.finalize(entry, _dead.append, engine).atexit = False
    return entry
