"""Loading of backends by name: built-ins, entry points, import paths."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..config import PREFIX, config
from ..errors import BackendNotAvailableError, DefinitionError, NbFusedWarning
from ..version import PROTOCOL_VERSION

if TYPE_CHECKING:
    from ..backend import Backend

__all__ = ["BUILTIN", "GROUP", "Source", "ask", "check_name", "entry_points",
           "make", "origin", "warn_of_unknown", "why_not"]

GROUP = "nbfused.backends"

BUILTIN = {
    "cpu": "nbfused.cpu:CpuBackend",
    "cuda": "nbfused.cuda:CudaBackend",
    "rocm": "nbfused.rocm:RocmBackend",
}

Source: TypeAlias = "str | type | Backend | Callable[[], Any]"
"""``"module:Class"``, a class or function that makes a backend, or the backend."""


def entry_points() -> Iterator[tuple[str, Source]]:
    """Names and paths of installed plugins, without importing them."""
    if config.disable_plugins:
        return
    # Here: 20 ms that most processes save, benchmarks/notes/host.md#cold-start.
    from importlib import metadata

    for point in metadata.entry_points(group=GROUP):
        yield point.name, point.value


def warn_of_unknown(names: Sequence[str]) -> None:
    """Warn of variables named like settings that nothing reads.

    Parameters
    ----------
    names
        As `config.unknown` gives them.
    """
    from difflib import get_close_matches

    owned = tuple(PREFIX + name.upper().replace("-", "_") for name, _ in entry_points())
    known = [PREFIX + name.upper() for name in config.as_dict()]
    for name in names:
        if not name.startswith(owned):
            nearest, = get_close_matches(name.upper(), known, 1, 0.0)
            warnings.warn(f"{name} is no setting of nbfused and has no effect; the "
                          f"nearest one is {nearest}; set that, or unset {name}",
                          NbFusedWarning, stacklevel=3)


def check_name(name: str) -> None:
    """Raise `DefinitionError` for a name unfit for ``NBFUSED_BACKEND``."""
    if not isinstance(name, str) or not re.fullmatch(r"[^\s,]+", name) or \
            name == "auto":
        raise DefinitionError(
            "register: 'name' must be a word that NBFUSED_BACKEND can list, without "
            f"commas, and not 'auto', got {name!r}; choose another one")


def make(source: Source) -> Backend:
    """Load the backend that `source` names; any failure states its cause.

    Raises
    ------
    BackendNotAvailableError
        If it cannot be imported or made, or speaks another protocol.
    """
    try:
        target = _imported(source) if isinstance(source, str) else source
        maker = isinstance(target, type) or not hasattr(target, "build")
        backend = target() if maker and callable(target) else target
    except BackendNotAvailableError:
        raise
    except Exception as error:
        # Code of others: whatever it raises, the other backends must go on.
        raise BackendNotAvailableError(
            f"importing {origin(source)} failed: {_text(error)}") from error
    return _checked(backend, origin(source))


def origin(source: Source) -> str:
    """Describe the source of a backend, for messages."""
    if isinstance(source, str):
        return source
    named = source if hasattr(source, "__qualname__") else type(source)
    return f"{named.__module__}:{named.__qualname__}"


def why_not(backend: Backend) -> str | None:
    """The reason why `backend` cannot be used, or None; also if asking fails."""
    try:
        return backend.available()
    except Exception as error:
        return f"{backend.name}.available() failed: {_text(error)}"


def ask(name: str, question: Callable[[], Any]) -> tuple[Any, str | None]:
    """Call a backend's method; the reason of a failure instead of its exception."""
    try:
        return question(), None
    except Exception as error:
        return None, f"{name} failed: {_text(error)}"


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        package, _, kind = module.rpartition(".")
        raise BackendNotAvailableError(
            f"this version of nbfused has no {kind} backend" if package == "nbfused"
            else f"there is no module {module}") from error


def _checked(backend: Any, where: str) -> Backend:
    spoken = getattr(backend, "protocol", None)
    if spoken != PROTOCOL_VERSION:
        raise BackendNotAvailableError(
            f"{where} speaks version {spoken} of the backend protocol, this nbfused "
            f"version {PROTOCOL_VERSION}; install versions that match")
    return cast("Backend", backend)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
