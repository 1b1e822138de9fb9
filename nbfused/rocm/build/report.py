"""Resources of compiled kernels: registers, memory, spills, read from libraries.

A library for AMD devices has a section with a bundle of code objects, an ELF file for
each architecture, and each of these a note with a map of its kernels in MessagePack.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...support.records import record

__all__ = ["Resources", "as_table", "resources"]

_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_METADATA = 32  # NT_AMDGPU_METADATA


@record(frozen=True)
class Resources:
    """Resources of one kernel on one architecture.

    Attributes
    ----------
    name, arch
        Of the kernel, and what it was compiled for.
    vgprs, sgprs
        Registers: of each thread, and of each wave.
    lds, scratch
        Bytes: shared memory of a block, and memory of a thread for what has no place in
        registers, local arrays among it.
    spills
        Registers of a thread that are kept in memory.
    wave
        Threads of a wave.
    """

    name: str
    arch: str
    vgprs: int
    sgprs: int
    lds: int
    scratch: int
    spills: int
    wave: int


def resources(library: bytes | Path) -> list[Resources]:
    """The kernels of a shared library, by architecture and name.

    Libraries that were built for emulation or for NVIDIA devices have none.

    Raises
    ------
    ValueError
        The code objects are compressed.
    """
    data = library if isinstance(library, bytes) else library.read_bytes()
    found = [_kernel(arch, kernel) for arch, code in _code_objects(data)
             for kernel in _kernels(code)]
    return sorted(found, key=lambda r: (r.arch, r.name))


def _kernel(arch: str, said: dict[str, Any]) -> Resources:
    def count(name: str) -> int:
        return int(said.get(name, 0))

    return Resources(
        _readable(str(said[".name"])), arch,
        count(".vgpr_count"), count(".sgpr_count"), count(".group_segment_fixed_size"),
        count(".private_segment_fixed_size"), count(".vgpr_spill_count"),
        count(".wavefront_size"))


def _readable(mangled: str) -> str:
    """The kernel's own name, and as much of its hash as tells it apart."""
    found = re.search(r"_([0-9a-f]{20})_kernel", mangled)
    name = found and re.search(rf"k_(\w+?)_{found[1]}", mangled)
    return f"{name[1]}_{found[1][:6]}" if found and name else mangled


def _code_objects(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Architecture and ELF file of every code object in a library."""
    section = _sections(data).get(".hip_fatbin", b"")
    if section.startswith(_COMPRESSED):
        raise ValueError("the code objects are compressed; build without "
                         "--offload-compress")
    start = section.find(_BUNDLE)
    while start >= 0:
        count, = struct.unpack_from("<Q", section, start + len(_BUNDLE))
        at = start + len(_BUNDLE) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<3Q", section, at)
            triple = section[at + 24:at + 24 + length].decode()
            at += 24 + length
            if triple.startswith("hip") and size:
                yield (triple.rpartition("--")[2],
                       section[start + offset:start + offset + size])
        start = section.find(_BUNDLE, start + 1)


def _sections(elf: bytes) -> dict[str, bytes]:
    """The content of an ELF file's sections by name; empty if it is none."""
    if elf[:5] != b"\x7fELF\2":
        return {}
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<3H", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + k*size) for k in range(count)]
    text = headers[names][4]
    return {elf[text + h[0]:elf.index(b"\0", text + h[0])].decode():
            elf[h[4]:h[4] + h[5]] for h in headers}


def _kernels(code: bytes) -> Iterator[dict[str, Any]]:
    notes, at = _sections(code).get(".note", b""), 0
    while at < len(notes):
        name, size, kind = struct.unpack_from("<3I", notes, at)
        start = at + 12 + -(-name // 4)*4
        if kind == _METADATA:
            note = _MessagePack(notes[start:start + size]).value()
            yield from note["amdhsa.kernels"]
        at = start + -(-size // 4)*4


#: First byte → how the number, or the length, that follows is packed.
_NUMBERS = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q",
            0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
_TEXTS = {0xd9: ">B", 0xda: ">H", 0xdb: ">I"}
_LISTS = {0xdc: ">H", 0xdd: ">I"}
_MAPS = {0xde: ">H", 0xdf: ">I"}
_CONSTANTS = {0xc0: None, 0xc2: False, 0xc3: True}


class _MessagePack:
    """A reader of the part of MessagePack that LLVM writes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _number(self, form: str) -> Any:
        found, = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def value(self) -> Any:
        """The next value."""
        first = self._number(">B")
        if first < 0x80 or first >= 0xe0:
            return first if first < 0x80 else first - 256
        if first < 0x90:
            return self._map(first & 15)
        if first < 0xa0:
            return [self.value() for _ in range(first & 15)]
        if first < 0xc0:
            return self._text(first & 31)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first in _TEXTS:
            return self._text(self._number(_TEXTS[first]))
        if first in _LISTS:
            return [self.value() for _ in range(self._number(_LISTS[first]))]
        return self._map(self._number(_MAPS[first]))

    def _text(self, length: int) -> str:
        self._at += length
        return self._data[self._at - length:self._at].decode()

    def _map(self, count: int) -> dict[Any, Any]:
        return {self.value(): self.value() for _ in range(count)}


def as_table(found: list[Resources]) -> str:
    """A line for each kernel; sizes in bytes."""
    width = max((len(r.name) for r in found), default=6)
    head = (f"{'kernel':{width}} {'arch':8} {'wave':>4} {'VGPRs':>5} {'SGPRs':>5} "
            f"{'LDS':>6} {'scratch':>7} {'spills':>6}")
    return "\n".join([head, *(
        f"{r.name:{width}} {r.arch:8} {r.wave:4} {r.vgprs:5} {r.sgprs:5} {r.lds:6} "
        f"{r.scratch:7} {r.spills:6}" for r in found)])
