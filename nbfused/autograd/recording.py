"""The recording switch of the tape: `no_grad`, and the modes used inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from ..errors import KernelTypeError

__all__ = ["RECORDING", "grad_mode", "no_grad", "recording"]

F = TypeVar("F", bound=Callable[..., Any])

#: Whether operations on tracked Variables are recorded, in this context.  None inside
#: a backward pass that does not record: inside of a `vmap` only its own tape is off
#: then, while after `no_grad` (False) that outside is, too.
RECORDING: ContextVar[bool | None] = ContextVar("nbfused_recording", default=True)


def recording() -> bool:
    """Whether operations on tracked Variables are recorded."""
    return RECORDING.get() is True


@contextmanager
def grad_mode(record: bool) -> Iterator[None]:
    """Switch recording on or off inside a ``with`` block."""
    before = RECORDING.get()
    RECORDING.set(record)
    try:
        yield
    finally:
        RECORDING.set(before)


class no_grad:
    """Context manager and decorator that switches recording off.

    It decorates functions, generators and coroutines; ``@no_grad`` and ``@no_grad()``
    mean the same.

    Parameters
    ----------
    function : callable, optional
        What to decorate.

    Raises
    ------
    KernelTypeError
        What is decorated is a class, an asynchronous generator, or no function.

    Examples
    --------
    >>> with no_grad():
    ...     recording()
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Make the context manager, or decorate a function."""
        made = super().__new__(cls)
        return made if function is None else made(function)

    def __init__(self) -> None:
        self._before: list[bool | None] = []

    def __enter__(self) -> no_grad:
        self._before.append(RECORDING.get())
        RECORDING.set(False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        # No token: one is of use in its own context only, and a generator's last step
        # may be taken in another.
        RECORDING.set(self._before.pop())

    def __call__(self, function: F) -> F:
        """Decorate `function` so that nothing in it is recorded."""
        if isinstance(function, type) or not callable(function) \
                or inspect.isasyncgenfunction(function):
            raise KernelTypeError(f"no_grad: expected a function to decorate, got "
                                  f"{function!r}; decorate its methods, or write 'with "
                                  "no_grad():' around what is not to be recorded")

        def run(*args: Any, **kwargs: Any) -> Any:
            with no_grad():
                return function(*args, **kwargs)

        def steps(*args: Any, **kwargs: Any) -> Any:
            return _unrecorded(function(*args, **kwargs))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            with no_grad():
                return await function(*args, **kwargs)

        made = steps if inspect.isgeneratorfunction(function) else \
            wait if inspect.iscoroutinefunction(function) else run
        return wraps(function)(made)  # type: ignore[return-value]


def _unrecorded(inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run each step of the generator `inner` without recording."""
    step, given = inner.send, None
    while True:
        try:
            with no_grad():
                made = step(given)
        except StopIteration as end:
            return end.value
        try:
            step, given = inner.send, (yield made)
        except GeneratorExit:
            with no_grad():
                inner.close()
            raise
        except BaseException as error:  # the generator's own business
            step, given = inner.throw, error
