"""The HIP runtime that a process uses on AMD devices.

CuPy and PyTorch bring their own; two in one process would not know of each other's
memory and streams.
"""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from glob import glob
from pathlib import Path

from ...errors import BackendNotAvailableError
from ..build.toolchain import rocm_folders

__all__ = ["candidates", "hip_library", "loaded_path", "no_device"]

MAPS = Path("/proc/self/maps")
_NAME = re.compile(r"/libamdhip64\.so[.\d]*$")


def loaded_path(maps: Path = MAPS) -> str | None:
    """The HIP runtime that this process has loaded already."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return next((path for path in paths if _NAME.search(path)), None)


def candidates(maps: Path = MAPS) -> list[str]:
    """Paths and names to load, in order."""
    loaded = loaded_path(maps)
    if loaded is not None:
        return [loaded]
    found = [path for folder in rocm_folders()
             for lib in ("lib", "lib64") for path in
             sorted(glob(f"{folder}/{lib}/libamdhip64.so*"), reverse=True)]
    return [*found, *(f"libamdhip64.so.{major}" for major in (7, 6, 5)),
            "libamdhip64.so"]


@lru_cache(maxsize=1)
def hip_library() -> ctypes.CDLL:
    """The runtime; libraries of kernels, linked to none, find it.

    Raises
    ------
    BackendNotAvailableError
        There is none, or it does not load.
    """
    causes = []
    for path in candidates():
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            causes.append(str(error))
    raise BackendNotAvailableError(
        f"the HIP runtime is not installed: no libamdhip64.so ({causes[0]}); install "
        "ROCm (Debian: apt install libamdhip64-5), or set ROCM_PATH")


def no_device() -> str | None:
    """Say why the runtime shows no device; None where it shows one."""
    library = hip_library()
    count = ctypes.c_int()
    code = library.hipGetDeviceCount(ctypes.byref(count))
    if not code and count.value:
        return None
    library.hipGetErrorName.restype = ctypes.c_char_p
    name = library.hipGetErrorName(code).decode()
    return f"the HIP runtime shows no device: {name}; there is no /dev/kfd"
