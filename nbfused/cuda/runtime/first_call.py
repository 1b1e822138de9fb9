"""Starting a device while the program imports what it will need.

The driver takes a fifth of a second to start and to make a device's context, and needs
no Python for that; what calls need of nbfused takes half as long to import.  One after
the other 340 ms, together 238: benchmarks/notes/host.md#cold-start.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["start"]

_LOCK = threading.Lock()
_STARTED: set[int] = set()


def start(ordinal: int, meanwhile: Callable[[], None]) -> None:
    """Make the primary context of a device, at the first call for it.

    It says nothing of errors: whoever uses the device meets them, and has the words.

    Parameters
    ----------
    meanwhile
        Runs in this thread, as other imports do.
    """
    with _LOCK:
        if ordinal in _STARTED:
            return
        _STARTED.add(ordinal)
    try:
        # Here, as the other thread would have to wait for this one after it.
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        meanwhile()
        return
    other = threading.Thread(target=_retain, args=(library, ordinal),
                             name="nbfused start")
    try:
        other.start()
    except RuntimeError:  # no thread to be had: all of it happens here, later
        meanwhile()
        return
    try:
        meanwhile()
        _import()
    finally:
        other.join()


def _import() -> None:
    """The modules that launch a kernel, and what they find out once."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return
    from ..map import launcher as map  # noqa: F401
    from . import compile, fast_launch

    compile.prepare()
    fast_launch.prepare()
    with suppress(Exception):  # of the bindings; who needs the driver meets it too
        driver.cuDriverGetVersion()  # they look up all functions at the first call


def _retain(library: Any, ordinal: int) -> None:
    """`driver.Device` retains the context once more; it lives as long as the process.

    By ctypes, because the bindings are imported meanwhile.
    """
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if library.cuInit(0) == 0 and \
            library.cuDeviceGet(ctypes.byref(device), ordinal) == 0:
        library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
