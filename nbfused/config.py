"""Settings, each of them an environment variable ``NBFUSED_<NAME>`` read at import.

========================== ============ ================================================
variable                   default      meaning
========================== ============ ================================================
AUTOTUNE                   ``readonly`` choices among kernels: ``readonly`` uses those
                                        kept on disk and shipped, ``1`` also measures
                                        and keeps what has none, ``0`` uses rules only
BACKEND                    ``auto``     backends to enable: ``auto``, a name, or a list
                                        such as ``cuda,cpu`` in order of priority
CACHE_DIR                  per user     folder of the compiled kernels
CACHE_DISABLE              0            1: neither read nor write compiled kernels
CACHE_SIZE                 ``1G``       bound on that folder in bytes; also 512M, 2G
CHECK_GRADS                0            1: each backward() compares the rules that users
                                        wrote with finite differences
CUDA_ARRAY_INTERFACE_SYNC  1            0: ignore the stream that a foreign array names
DEBUG                      0            1: checks that cost time (indices, labels, saved
                                        arrays, repeated elements)
DETERMINISTIC              0            1: kernels are chosen by rules only, whatever
                                        was measured: the same bits in every run
DISABLE_PLUGINS            0            1: do not look for backends in entry points
DUMP_SOURCE                none         folder that generated source is written to
HIPCC                      on the path  the compiler of the ``rocm`` backend
LOG_LEVEL                  none         ``DEBUG``, ``INFO`` ...: log to standard error
NUM_THREADS                all cores    threads of the ``cpu`` backend
ROCM_ARCH                  the device's what ``rocm`` compiles for: ``gfx90a``, or a
                                        list such as ``gfx90a,gfx1030``
ROCM_EMULATE               0            1: ``rocm`` runs on the CPU, by a C++ compiler;
                                        ``nvidia``: on an NVIDIA GPU, by nvcc
ROCM_MATRIX                0            1: matrix instructions of AMD devices, not run
                                        on any yet
========================== ============ ================================================

Booleans are ``0`` or ``1``.  `config` mirrors them in lower case; assigning to it has
the same effect, except for ``backend``, which is read once, at import: see
`nbfused.use_backend`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import SettingError

__all__ = ["Config", "config", "dump_source"]

PREFIX = "NBFUSED_"

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _boolean(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _size(text: str) -> int:
    digits = text[:-1] if text[-1:].upper() in _UNITS else text
    if not digits.isdigit():
        raise ValueError("a number of bytes, or one with K, M or G such as 512M")
    return int(digits) * _UNITS.get(text[-1:].upper(), 1)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError("a positive whole number")
    return int(text)


def _level(text: str) -> str:
    if not isinstance(logging.getLevelName(text.upper()), int):
        raise ValueError("DEBUG, INFO, WARNING, ERROR or CRITICAL")
    return text.upper()


def _archs(text: str) -> str:
    if not re.fullmatch(r"\w+(\s*,\s*\w+)*", text):
        raise ValueError("an architecture such as gfx90a, or several after commas")
    return text


def _autotune(text: str) -> str:
    if text not in ("0", "1", "readonly"):
        raise ValueError("0, 1 or readonly")
    return text


def _emulation(text: str) -> str:
    if text not in ("0", "1", "nvidia"):
        raise ValueError("0, 1 or nvidia")
    return text


_PARSERS: dict[str, Callable[[str], Any]] = {
    "autotune": _autotune, "backend": str, "cache_dir": str, "cache_disable": _boolean,
    "cache_size": _size, "check_grads": _boolean,
    "cuda_array_interface_sync": _boolean, "debug": _boolean,
    "deterministic": _boolean, "disable_plugins": _boolean, "dump_source": str,
    "hipcc": str, "log_level": _level, "num_threads": _count, "rocm_arch": _archs,
    "rocm_emulate": _emulation, "rocm_matrix": _boolean,
}


@dataclass(slots=True)
class Config:
    """The settings of this process; the table is in `nbfused.config`.

    Examples
    --------
    >>> from nbfused.config import config
    >>> with config.override(debug=True):
    ...     config.debug
    True
    """

    autotune: str = "readonly"
    backend: str = "auto"
    cache_dir: str | None = None
    cache_disable: bool = False
    cache_size: int = 1 << 30
    check_grads: bool = False
    cuda_array_interface_sync: bool = True
    debug: bool = False
    deterministic: bool = False
    disable_plugins: bool = False
    dump_source: str | None = None
    hipcc: str | None = None
    log_level: str | None = None
    num_threads: int | None = None
    rocm_arch: str | None = None
    rocm_emulate: str = "0"
    rocm_matrix: bool = False

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Config:
        """The settings that `environment` holds; an empty text counts as unset.

        Raises
        ------
        SettingError
            If a variable has a value that it cannot have.
        """
        values = {}
        for name, parse in _PARSERS.items():
            text = environment.get(PREFIX + name.upper(), "").strip()
            if not text:
                continue
            try:
                values[name] = parse(text)
            except ValueError as error:
                raise SettingError(
                    f"{PREFIX}{name.upper()}={text!r}: expected {error}; set it so, "
                    "or unset it") from None
        return cls(**values)

    @contextmanager
    def override(self, **values: Any) -> Iterator[Config]:
        """Change settings for the length of a ``with`` block, in all threads."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Every setting with its present value."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def dump_source(name: str, text: str) -> None:
    """Write a generated source where ``NBFUSED_DUMP_SOURCE`` says, if it does.

    Raises
    ------
    SettingError
        There is no writing there.
    """
    if config.dump_source is None:
        return
    folder = Path(config.dump_source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    except OSError as error:
        raise SettingError(
            f"{PREFIX}DUMP_SOURCE={config.dump_source!r}: generated source cannot be "
            f"written there ({error}); expected a folder that can be made and written "
            "to: set it to one, or unset it") from error


def _log_to_stderr(level: str | None) -> None:
    """Silent unless asked: a library leaves handlers to the application."""
    logger = logging.getLogger("nbfused")
    logger.addHandler(logging.NullHandler())
    if level is not None:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(level)


config = Config.read(os.environ)
_log_to_stderr(config.log_level)
