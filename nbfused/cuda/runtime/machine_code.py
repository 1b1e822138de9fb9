"""Machine code from LLVM's text, in memory that can be run.

LLVM, which is there when a kernel has been compiled, makes the code once.  It is kept
on disk, as kernels are, and names no address: what it calls is given to it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from functools import lru_cache

import nbfused.cache as cache

from ...config import logger

__all__ = ["is_possible", "loaded", "machine_code"]


@lru_cache(maxsize=1)
def is_possible() -> bool:
    """Whether such code has been run on such a system."""
    return (sys.implementation.name == "cpython" and sys.platform == "linux"
            and platform.machine() == "x86_64" and struct.calcsize("P") == 8)


def machine_code(name: str, text: str) -> bytes | None:
    """The code of a text, from the cache or by LLVM; None while there is neither."""
    key = cache.digest(name, text)
    code = cache.noted(key) or None
    if code is None and "llvmlite.binding" in sys.modules:
        try:
            code = _compiled(text)
        except Exception as error:  # of another LLVM; Python does the work then
            logger("compile").debug("no machine code of %s: %s", name, error)
            return None
        cache.note(key, code)
    return code


def _compiled(text: str) -> bytes:
    """Machine code for any processor of this kind, at any address."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="small")
    file = llvm.ObjectFileRef.from_data(machine.emit_object(module))
    code = None
    for section in file.sections():
        if section.name() == b".rela.text":
            raise ValueError("the code names addresses")
        if section.name() == b".text":
            code = bytes(section.data())
    if not code:
        raise ValueError("there is no code")
    return code


def loaded(code: bytes) -> tuple[int, mmap.mmap] | None:
    """The address of the code, and the memory that has to stay.

    It can be run, and no longer be written to.  None on a hardened system.
    """
    memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    if protect(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)),
               mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return address, memory
