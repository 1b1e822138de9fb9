"""Settings of the process, each read from a variable ``NBFUSED_<NAME>`` at import.

========================== ============ ================================================
variable                   default      meaning
========================== ============ ================================================
AUTOTUNE                   ``readonly`` choices among kernels: ``readonly`` uses those
                                        kept on disk and shipped, ``1`` also measures
                                        and keeps what has none, ``0`` uses rules only
BACKEND                    ``auto``     backends to enable: ``auto``, a name, or a list
                                        such as ``cuda,cpu`` in order of priority
CACHE_DIR                  per user     folder of the compiled kernels; what others than
                                        you and root could have written is not used
CACHE_DISABLE              0            1: neither read nor write compiled kernels
CACHE_SIZE                 ``1G``       bound on that folder in bytes; also 512M, 2G
CHECK_GRADS                0            1: each backward() compares the rules that users
                                        wrote with finite differences
COMPILE_WORKERS            all cores    processes that compile the kernels of a fused
                                        function at the same time; 1: none but this one
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
PTXAS                      the newest   the assembler of the ``cuda`` backend, one that
                                        is no newer than the driver; ``driver``: none
                                        but the driver's own
ROCM_ARCH                  the device's what ``rocm`` compiles for: ``gfx90a``, or a
                                        list such as ``gfx90a,gfx1030``
ROCM_EMULATE               0            1: ``rocm`` runs on the CPU, by a C++ compiler;
                                        ``nvidia``: on an NVIDIA GPU, by nvcc
ROCM_MATRIX                0            1: matrix instructions of AMD devices, not run
                                        on any yet
========================== ============ ================================================

Booleans are ``0`` or ``1``.  `config` mirrors them in lower case; assigning to it has
the same effect, except for ``backend``, which is read once, at import, and cannot be
assigned: see `nbfused.use_backend`.  Variables of a plugin begin with its name:
``NBFUSED_NAME_``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SettingError
from .support.forks import hold_in_forks
from .support.stamp import renew

if TYPE_CHECKING:
    import logging

__all__ = ["Config", "config", "dump_source", "logger", "unknown"]

PREFIX = "NBFUSED_"

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DIGITS = "[0-9]{1,18}"
_THREADS = 1024  # a large array would start as many as there are chunks


def _boolean(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _size(text: str) -> int:
    digits = text[:-1] if text[-1:].upper() in _UNITS else text
    if not re.fullmatch(_DIGITS, digits):
        raise ValueError("a number of bytes, or one with K, M or G such as 512M")
    return int(digits) * _UNITS.get(text[-1:].upper(), 1)


def _count(text: str) -> int:
    if not re.fullmatch(_DIGITS, text) or not 0 < int(text) <= _THREADS:
        raise ValueError(f"a positive whole number up to {_THREADS}")
    return int(text)


def _level(text: str) -> str:
    import logging

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


#: Default and parser of each setting.
_SETTINGS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "autotune": ("readonly", _autotune), "backend": ("auto", str),
    "cache_dir": (None, str), "cache_disable": (False, _boolean),
    "cache_size": (1 << 30, _size), "check_grads": (False, _boolean),
    "compile_workers": (None, _count),
    "cuda_array_interface_sync": (True, _boolean), "debug": (False, _boolean),
    "deterministic": (False, _boolean), "disable_plugins": (False, _boolean),
    "dump_source": (None, str), "hipcc": (None, str), "log_level": (None, _level),
    "num_threads": (None, _count), "ptxas": (None, str), "rocm_arch": (None, _archs),
    "rocm_emulate": ("0", _emulation), "rocm_matrix": (False, _boolean),
}


#: Beginnings of variables that are read elsewhere: by the emulated AMD device and by
#: the tests.
_ELSEWHERE = ("EMULATION_", "TEST_", "FUZZ")


def unknown(environment: Mapping[str, str]) -> list[str]:
    """Variables with the prefix ``NBFUSED_`` that are no settings."""
    known = {PREFIX + name.upper() for name in _SETTINGS}
    return [name for name in environment if name.startswith(PREFIX)
            and name not in known
            and not name.removeprefix(PREFIX).startswith(_ELSEWHERE)]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_text(value: Any) -> bool:
    return value is None or (isinstance(value, (str, os.PathLike))
                             and bool(str(value).strip()) and "\0" not in str(value))


def _passes(parse: Callable[[str], Any]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        try:
            return value is None or bool(parse(value))
        except (AttributeError, TypeError, ValueError):
            return False

    return holds


#: What an assignment may give to a setting: a test, and its words.
_VALUES: dict[Callable[[str], Any], tuple[Callable[[Any], bool], str]] = {
    _boolean: (lambda x: isinstance(x, int) and x in (0, 1), "True or False"),
    _size: (lambda x: x == 0 or _is_count(x), "a number of bytes"),
    _count: (lambda x: x is None or (_is_count(x) and x <= _THREADS),
             f"a positive whole number, or None, and at most {_THREADS}"),
    _autotune: (lambda x: x in ("0", "1", "readonly"), "'0', '1' or 'readonly'"),
    _emulation: (lambda x: x in ("0", "1", "nvidia"), "'0', '1' or 'nvidia'"),
    _archs: (_passes(_archs), "an architecture such as 'gfx90a', or None"),
    _level: (_passes(_level), "'DEBUG', 'INFO', 'WARNING', 'ERROR' or None"),
    str: (_is_text, "a text, or None; NUL is no character of it"),
}


class Config:
    """The settings of this process: an attribute for each ``NBFUSED_<NAME>``.

    Examples
    --------
    >>> import nbfused as nf
    >>> with nf.config.override(debug=True):
    ...     nf.config.debug
    True
    """

    __slots__ = tuple(_SETTINGS)

    autotune: str
    backend: str
    cache_dir: str | None
    cache_disable: bool
    cache_size: int
    check_grads: bool
    compile_workers: int | None
    cuda_array_interface_sync: bool
    debug: bool
    deterministic: bool
    disable_plugins: bool
    dump_source: str | None
    hipcc: str | None
    log_level: str | None
    num_threads: int | None
    ptxas: str | None
    rocm_arch: str | None
    rocm_emulate: str
    rocm_matrix: bool

    def __init__(self, **values: Any) -> None:
        for name, (default, _) in _SETTINGS.items():
            setattr(self, name, values.pop(name, default))
        if values:
            raise TypeError(f"no such settings: {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting; `SettingError` for an invalid value."""
        if name in _SETTINGS:
            holds, words = _VALUES[_SETTINGS[name][1]]
            if not holds(value):
                raise SettingError(f"config.{name} = {value!r}: expected {words}")
        if name == "backend" and self is globals().get("config"):
            raise SettingError(
                f"config.backend = {value!r}: it is read once, at import; set "
                "NBFUSED_BACKEND before that, or use nbfused.use_backend")
        path = isinstance(value, os.PathLike)
        object.__setattr__(self, name, os.fspath(value) if path else value)
        renew()
        if name == "log_level" and self is globals().get("config"):
            _show(value)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Config:
        """Read settings from `environment`; an empty text counts as unset.

        Raises
        ------
        SettingError
            If a variable has a value that it cannot have.
        """
        values = {}
        for name, (_, parse) in _SETTINGS.items():
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
        """Change settings inside a ``with`` block, in all threads."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """All settings with their current values."""
        return {name: getattr(self, name) for name in _SETTINGS}


def dump_source(name: str, text: str) -> None:
    """Write generated source to the folder ``NBFUSED_DUMP_SOURCE``, if set.

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
        (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingError(
            f"{PREFIX}DUMP_SOURCE={config.dump_source!r}: generated source cannot be "
            f"written there ({error}); expected a folder that can be made and written "
            "to: set it to one, or unset it") from error


config: Config = Config.read(os.environ)


def logger(part: str) -> logging.Logger:
    """The logger called ``nbfused.<part>``."""
    return _root().getChild(part)


@cache
def _root() -> logging.Logger:
    """The root logger, silent unless asked: handlers are the application's."""
    import logging  # late: 2 ms, benchmarks/notes/host.md#cold-start

    hold_in_forks()
    root = logging.getLogger("nbfused")
    root.addHandler(logging.NullHandler())
    if config.log_level is not None:
        _show(config.log_level, root)
    return root


@cache
def _handler() -> logging.Handler:
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    return handler


def _show(level: str | None, root: logging.Logger | None = None) -> None:
    """Log messages from `level` on to standard error, or none."""
    root = root or _root()
    root.removeHandler(_handler())
    root.setLevel(level.upper() if level else "NOTSET")
    if level:
        root.addHandler(_handler())
