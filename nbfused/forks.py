"""What makes a fork safe while other threads are at work.

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
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["LOCK", "cached_property", "hold_in_forks"]

_T = TypeVar("_T")

#: There is but one: of two, each could be held by somebody who waits for the other.
LOCK = threading.RLock()


def hold_in_forks(lock: Any = LOCK) -> None:
    """Have a fork take a lock before the locks that others have it hold until now.

    What runs before a fork runs in the opposite order of its registration.  `logging`
    holds its lock too, and who holds `LOCK` may log: so this is called again when that
    has been imported.  Who holds `LOCK` twice gives it back twice.
    """
    if hasattr(os, "register_at_fork"):
        hold = _Hold(lock)
        os.register_at_fork(before=hold.take, after_in_parent=hold.give_back,
                            after_in_child=hold.give_back)


class _Hold:
    """Takes a lock for a fork, and gives it back if it was taken.

    A fork that waits for it may wait for a thread that imports `logging` and calls
    `hold_in_forks`.  What they register then runs after this fork, not before it.
    """

    def __init__(self, lock: Any) -> None:
        self._lock, self._taken = lock, 0

    def take(self) -> None:
        """Before a fork."""
        late = "logging" not in sys.modules
        self._lock.acquire()
        self._taken += 1
        logging = sys.modules.get("logging") if late else None
        if logging is not None:  # its lock is going to be given back, too
            logging._lock.acquire()

    def give_back(self) -> None:
        """After a fork, in both processes."""
        if self._taken:
            self._taken -= 1
            self._lock.release()


hold_in_forks()


class cached_property(Generic[_T]):
    """`functools.cached_property` as it is from Python 3.12 on: without a lock.

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
