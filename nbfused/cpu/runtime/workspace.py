"""Temporary memory that each thread keeps for kernels that it calls."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from .schedule import LINE

__all__ = ["WORKSPACE"]

#: Bytes of sums and of copies up to which each thread keeps them: new memory of some
#: megabytes takes longer than what is made there.  This one is not measured.
_KEPT = 1 << 24


class _Workspace(threading.local):
    """Memory for packed factors and sums, and control words."""

    def __init__(self) -> None:
        self.room, self.at, self.size = b"", 0, 0
        self.control = (ctypes.c_int64 * LINE)()

    def take(self, size: int, slots: int) -> tuple[int, int, int]:
        """Addresses of `size` bytes and of the control words, and their count."""
        if size > self.size:
            room: Any = (ctypes.c_uint8 * (size + LINE))()
            self.room, self.size = room, size
            self.at = -(-ctypes.addressof(room) // LINE) * LINE
        if (slots + 1) * (LINE // 8) > len(self.control):
            self.control = (ctypes.c_int64 * ((slots + 1) * (LINE // 8)))()
        return self.at, ctypes.addressof(self.control), self.control[0]

    def reserve(self, size: int) -> tuple[int, np.ndarray | None]:
        """The address of `size` bytes, and who owns those that are too many to keep."""
        if size <= _KEPT:
            return self.take(size, 0)[0], None
        own = np.empty(size, np.uint8)
        return own.ctypes.data, own


WORKSPACE = _Workspace()
