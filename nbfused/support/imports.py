"""Call a function once a module is imported, without importing it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["when_imported"]


def when_imported(name: str, call: Callable[[], object]) -> None:
    """Call `call` when the module `name` has been imported, at once if it has."""
    if _is_ready(name):
        call()
        return
    if not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WAITING)
    _WAITING.calls.setdefault(name, []).append(call)


def _is_ready(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class _Waiting(MetaPathFinder):
    """Finds nothing itself: it lets the loader of a module call what waits for it."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Callable[[], object]]] = {}
        self._asked = threading.local()

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that calls."""
        if name not in self.calls or getattr(self._asked, "name", None) == name:
            return None
        self._asked.name = name
        try:
            spec = find_spec(name)
        finally:
            self._asked.name = None
        if spec is not None and spec.loader is not None:
            spec.loader = _Calling(spec.loader, name)
        return spec

    def imported(self, name: str) -> None:
        """Call what waits for a module; a spec may be asked for without an import."""
        for call in self.calls.pop(name, ()):
            call()


class _Calling(Loader):
    """A loader that calls functions after it has loaded a module."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader, self._name = loader, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module that the loader itself makes."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Load it, then call."""
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _WAITING.imported(self._name)


_WAITING = _Waiting()
