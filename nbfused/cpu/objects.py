"""Machine code in memory: object files linked into the process by llvmlite."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

__all__ = ["ENTRY", "Entry", "address_of", "host", "link", "machine", "pack", "symbols",
           "unpack"]

#: ``kernel(arguments, begin, end)``: every argument is in one block of 8-byte words.
#: It gives 0 unless its text returns another number.
Entry = Callable[[bytes, int, int], int]

#: Symbol of a kernel in its object file.
ENTRY = "nbfused_kernel"

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
_lock = threading.Lock()
_engines: list[Any] = []  # an engine owns the memory of its code
_found: set[str] = set()


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host() -> tuple[str, str]:
    """Name and features of this processor; code for another one may be illegal."""
    _initialize()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell
        features = ""
    return llvm.get_host_cpu_name(), features


def machine() -> Any:
    """A target machine for this processor."""
    name, features = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, jit=True)


def pack(symbols: Sequence[str], code: bytes) -> bytes:
    """An object file together with the processor and the symbols that it needs."""
    head = json.dumps({"host": host(), "symbols": list(symbols)}).encode()
    return len(head).to_bytes(8, "little") + head + code


def _known(name: str) -> bool:
    """Whether this process has a function called `name`; it may have it later."""
    if name not in _found:
        with _lock:
            if not _engines:  # the first one makes libm known to `address_of_symbol`
                _engines.append(_engine())
        if llvm.address_of_symbol(name) is None:
            return False
        _found.add(name)
    return True


def _engine() -> Any:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())


def symbols(data: bytes) -> list[str]:
    """The functions that an object file calls."""
    size = int.from_bytes(data[:8], "little")
    names: list[str] = json.loads(data[8:8 + size])["symbols"]
    return names


def unpack(data: bytes) -> bytes | None:
    """The object file in `data`, or None if it cannot be used in this process."""
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + size])
    if tuple(head["host"]) != host():
        return None
    if not all(map(_known, head["symbols"])):
        return None
    return data[8 + size:]


def address_of(entry: Any) -> int:
    """Where the machine code of a kernel is."""
    return ctypes.c_void_p.from_buffer(entry).value or 0


def link(code: bytes) -> Entry:
    """Load an object file that `unpack` accepted; it stays until the process ends."""
    with _lock:
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        return _PROTOTYPE(engine.get_function_address(ENTRY))
