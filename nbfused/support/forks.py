"""One lock for lazy imports, compilation and fork.

A child has none of its parent's other threads.  What one of them was importing or
compiling at that moment stays locked in the child, which hangs when it needs the same.
So whoever does that late, not while the program itself is being imported, holds `LOCK`,
and so does a fork.

A thread that imports a module must not wait for `LOCK`: who holds it may be waiting for
that module.  So what programs import by name (``import nbfused.ops``) takes nothing
from the package itself, as ``from .. import`` would, that is imported late: backends
``import nbfused.cache``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, TracebackType
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

__all__ = ["LOCK", "SharedBlock", "cached_property", "free_in_child", "hold_in_forks",
           "once", "when_imported"]

_T = TypeVar("_T")
_Lock = TypeVar("_Lock")

#: There is but one: of two, each could be held by somebody who waits for the other.
LOCK = threading.RLock()


def hold_in_forks(lock: Any = LOCK) -> None:
    """Hold `lock` during forks, taken before locks registered until now.

    What runs before a fork runs in the opposite order of its registration.  `logging`
    holds its lock too, and who holds `LOCK` may log: so this is called again when that
    has been imported.  Who holds `LOCK` twice gives it back twice.
    """
    if hasattr(os, "register_at_fork"):
        hold = _ForkHandlers(lock)
        os.register_at_fork(before=hold.take, after_in_parent=hold.give_back,
                            after_in_child=hold.give_back)


class _ForkHandlers:
    """Fork handlers that take a lock, and release it if it was taken.

    A fork that waits for it may wait for a thread that imports `logging` and calls
    `hold_in_forks`.  What they register then runs after this fork, not before it.
    """

    def __init__(self, lock: Any) -> None:
        self._lock, self._taken = lock, 0

    def take(self) -> None:
        """Take the lock before a fork."""
        late = not _is_imported("logging")
        self._lock.acquire()
        self._taken += 1
        if late and _is_imported("logging"):  # its lock is going to be given back, too
            lock: Any = sys.modules["logging"]._lock
            if not lock._is_owned():
                lock.acquire()

    def give_back(self) -> None:
        """Release the lock after a fork, in both processes."""
        if self._taken:
            self._taken -= 1
            self._lock.release()


def _is_imported(name: str) -> bool:
    """Whether a module is there, and no thread is still running its text."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


hold_in_forks()

#: Locks that `free_in_child` was given and that still exist.
_FREED: WeakSet[Any] = WeakSet()


def free_in_child(lock: _Lock) -> _Lock:
    """Release `lock` in forked children, which do not have the thread that holds it.

    For locks of data that another thread may leave at any line, as dicts.  It is for
    the others that a fork waits: see `hold_in_forks`.
    """
    _FREED.add(lock)
    return lock


class SharedBlock:
    """A ``with`` block of any number of threads that changes the process meanwhile.

    Parameters
    ----------
    begin
        Called by the first thread that enters.
    end
        Called by the last one that leaves; in a forked child at once if no block is
        its own.
    """

    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin, self._end = begin, end
        self._lock = free_in_child(threading.Lock())
        self._threads: list[int] = []
        _BLOCKS.append(self)

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._begin()
            self._threads.append(threading.get_ident())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        with self._lock:
            self._threads.remove(threading.get_ident())
            if not self._threads:
                self._end()

    @property
    def is_open(self) -> bool:
        """Whether a thread is in a block."""
        return bool(self._threads)

    def leave_to_parent(self) -> None:
        """End the blocks of threads that a forked child does not have."""
        own = [each for each in self._threads if each == threading.get_ident()]
        if self._threads and not own:
            self._end()
        self._threads = own


#: All of them: each is made once, by a module.
_BLOCKS: list[SharedBlock] = []


def _renew() -> None:
    """Free the locks of a forked child, then end the blocks of its parent's threads."""
    for lock in list(_FREED):
        lock._at_fork_reinit()
    for block in _BLOCKS:
        block.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def once(function: Callable[..., _T]) -> Callable[..., _T]:
    """Decorator: compute a value for each tuple of arguments once, under `LOCK`.

    Of `functools.cache` two threads may get two values, of which one is soon forgotten:
    machine code whose address the other has written down must not be.
    """
    found: dict[Any, _T] = {}

    @wraps(function)
    def cached(*args: Any) -> _T:
        if args not in found:
            with LOCK:
                if args not in found:
                    found[args] = function(*args)
        return found[args]

    return cached


class cached_property(Generic[_T]):
    """`functools.cached_property` without a lock, as from Python 3.12 on.

    Two threads may both compute a value; the last one stays.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None,
                owner: type) -> cached_property[_T] | _T:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


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
