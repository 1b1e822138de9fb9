"""A registry of backends: known, selected, and by the devices that they own.

A backend is imported when it is first needed: importing nbfused touches no driver, so
that a process may still fork.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import BackendNotAvailableError, DeviceError, NbFusedWarning
from ..support.forks import LOCK
from ..support.stamp import renew
from .plugins import Source, ask, check_name, make, origin, why_not
from .unowned import not_allowed, not_enabled, not_selected

if TYPE_CHECKING:
    from ..backend import Backend
    from .info import BackendInfo, Backends

__all__ = ["Registry", "split_names"]


class Registry:
    """A registry of backends by name, their instances, and the selection of them.

    Parameters
    ----------
    builtin
        Name → ``"module:Class"``.
    plugins
        Called once, when a name outside `builtin` matters; pairs like `builtin`'s.

    Attributes
    ----------
    restricted
        The backends of the ``use_backend`` around the caller.
    epoch
        Another object whenever devices may have got other owners.
    """

    def __init__(self, builtin: Mapping[str, Source],
                 plugins: Callable[[], Iterable[tuple[str, Source]]] = tuple) -> None:
        self._sources: dict[str, Source] = dict(builtin)
        self._builtin = frozenset(builtin)
        self._plugins = plugins
        self._searched = False
        self._loaded: dict[str, Backend] = {}
        self._selected: tuple[str, ...] | None = None  # None: every usable one
        self._owners: dict[str, Backend] = {}
        self.epoch = object()
        renew()
        self.restricted: ContextVar[tuple[Backend, ...] | None] = ContextVar(
            "nbfused_backends", default=None)

    def names(self) -> tuple[str, ...]:
        """All known names: built-ins, then in order of registration."""
        with LOCK:
            if not self._searched:
                self._searched = True
                for name, source in self._plugins():
                    self._add(name, source)
            return tuple(self._sources)

    def register(self, name: str, backend: Source) -> None:
        """Register `backend` under `name`; the first one of a name stays."""
        check_name(name)
        with LOCK:
            self._add(name, backend)
            self._forget()

    def _forget(self) -> None:
        """Drop the cached owners of devices."""
        self._owners.clear()
        self.epoch = object()
        renew()

    def state(self) -> Any:
        """A value that changes whenever `backend_for` may answer differently."""
        return self.restricted.get() or self.epoch

    def _add(self, name: str, source: Source) -> None:
        if name in self._sources:
            warnings.warn(
                f"a second backend named {name!r} ({origin(source)}) is ignored; the "
                f"first one ({origin(self._sources[name])}) stays",
                NbFusedWarning, stacklevel=4)
        else:
            self._sources[name] = source

    def load(self, name: str) -> Backend:
        """Load the usable backend called `name`.

        Raises
        ------
        BackendNotAvailableError
            If there is none, or it cannot be used; the cause is in the text.
        """
        if name not in self._sources and name not in self.names():
            raise BackendNotAvailableError(
                f"no backend is called {name!r}; found {self._found()}")
        try:
            backend = self._instance(name)
        except BackendNotAvailableError as error:
            raise BackendNotAvailableError(
                f"backend {name!r} is not usable: {error}; found {self._found(name)}"
            ) from error
        why = why_not(backend)
        if why is not None:
            raise BackendNotAvailableError(
                f"backend {name!r} is not usable: {why}; found {self._found(name)}")
        return backend

    def instance(self, name: str) -> Backend:
        """The instance of the backend called `name`, with or without a device.

        Raises
        ------
        BackendNotAvailableError
            It cannot be imported.
        """
        return self._instance(name)

    def _instance(self, name: str) -> Backend:
        found = self._loaded.get(name)
        if found is not None:
            return found
        with LOCK:
            if name not in self._loaded:
                self._loaded[name] = make(self._sources[name])
            return self._loaded[name]

    def why_not(self, name: str) -> str | None:
        """The reason why a backend cannot be used, or None.  Never raises."""
        try:
            return why_not(self._instance(name))
        except BackendNotAvailableError as error:
            return str(error)

    def _found(self, *besides: str) -> str:
        states = []
        for name in self.names():
            if name not in besides:
                why = self.why_not(name)
                states.append(f"{name} ({'usable' if why is None else why})")
        return ", ".join(states) or "no other"

    def enable(self, selection: str) -> None:
        """Select backends: ``"auto"``, a name, or a list such as ``"cuda,cpu"``."""
        names = split_names(selection)
        chosen = None if names in ((), ("auto",)) else names
        for name in chosen or ():
            try:
                self.load(name)
            except BackendNotAvailableError as error:
                raise BackendNotAvailableError(
                    f"NBFUSED_BACKEND={selection}: {error}") from error
        with LOCK:
            self._selected = chosen
            self._forget()

    def backend_for(self, device: str, name: str = "array") -> Backend:
        """Find the enabled backend that owns `device`.

        Raises
        ------
        DeviceError
            If no enabled backend owns the device.
        """
        restricted = self.restricted.get()
        if restricted is None:
            owner = self._owners.get(device)
            return owner if owner is not None else self._search(device, name)
        for backend in restricted:
            if backend.owns(device):
                return backend
        raise DeviceError(not_allowed(device, name, [b.name for b in restricted],
                                      self._first()))

    def _search(self, device: str, name: str) -> Backend:
        causes = []
        for candidate in self._candidates(device):
            why = self.why_not(candidate)
            if why is not None:
                causes.append(f"{candidate} is not usable: {why}")
                continue
            backend = self._loaded[candidate]
            owned, why = ask(f"{candidate}.owns()", partial(backend.owns, device))
            if why is not None:
                causes.append(why)
            elif owned:
                self._owners[device] = backend
                return backend
        raise DeviceError(self._unowned(device, name, causes))

    def _candidates(self, device: str) -> Iterator[str]:
        """Names to ask for an owner: under ``auto`` only matching built-ins.

        It comes first, so that most processes need not look for plugins.
        """
        if self._selected is not None:
            yield from self._selected
            return
        kind = device.partition(":")[0]
        if kind in self._builtin:
            yield kind
        yield from (n for n in self.names() if n not in self._builtin)

    def _unowned(self, device: str, name: str, causes: list[str]) -> str:
        kind = device.partition(":")[0]
        if self._selected is None or (kind not in self.names() and not causes):
            return not_enabled(device, name, causes, self.names())
        return not_selected(device, name, self._selected, self._first())

    def accelerator(self) -> Backend | None:
        """The first enabled backend of other devices than the host's, if one is there.

        Installed plugins are not looked for.
        """
        names = self._sources if self._selected is None else self._selected
        return next((self._loaded[n] for n in names
                     if n != "cpu" and self.why_not(n) is None), None)

    def default_device(self) -> str:
        """The device of new arrays when none is named."""
        return "cpu" if self._selected is None and self.restricted.get() is None else \
            self._first()

    def _first(self) -> str:
        """The default device of the first backend that calls may go to."""
        from .info import device_of

        restricted = self.restricted.get()
        if restricted is not None:
            return device_of(restricted[0])
        assert self._selected is not None
        return device_of(self._instance(self._selected[0]))

    @contextmanager
    def use(self, *names: str | Backend) -> Iterator[None]:
        """Restrict calls in a ``with`` block to these backends, in this order."""
        chosen: list[Backend] = []
        for name in names:
            if isinstance(name, str):
                chosen += [self.load(part) for part in split_names(name)]
            else:
                chosen.append(make(name))
        if not chosen:
            raise BackendNotAvailableError(
                f"use_backend() got no backend; found {self._found()}")
        token = self.restricted.set(tuple(chosen))
        try:
            yield
        finally:
            self.restricted.reset(token)

    def synchronize(self) -> None:
        """Wait for all backends that have been used, starting none."""
        for name, backend in self._loaded.copy().items():
            if self.why_not(name) is None:
                backend.synchronize()

    def info(self) -> Backends:
        """Describe all known backends; this may start drivers."""
        from .info import Backends

        return Backends((name, self._record(name)) for name in self.names())

    def _record(self, name: str) -> BackendInfo:
        from .info import BackendInfo, devices_of

        why = self.why_not(name)
        if why is not None:
            return BackendInfo(name, False, False, why, ())
        backend = self._instance(name)
        devices, why = ask(f"{name}.devices()", partial(devices_of, backend))
        if why is not None:
            return BackendInfo(name, False, False, why, ())
        restricted = self.restricted.get()
        if restricted is not None:
            enabled = backend in restricted
        else:
            enabled = self._selected is None or name in self._selected
        return BackendInfo(name, True, enabled, None, devices)


def split_names(selection: str) -> tuple[str, ...]:
    """Split a list of names such as ``"cuda, cpu"``."""
    return tuple(part.strip() for part in selection.split(",") if part.strip())
