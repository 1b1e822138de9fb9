"""Results that a checkpoint keeps although it computes again: its policy at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from ...errors import ShapeError
from ...specs import Spec
from ..versions import Saved

__all__ = ["KEEPING", "Keeper", "keeping"]


class Keeper:
    """Keeps results of operations in their order, then gives them out again."""

    def __init__(self, saves: Callable[[str, str], bool],
                 kept: list[tuple[Spec, list[Saved]]] | None = None) -> None:
        self.saves = saves
        self.kept: list[tuple[Spec, list[Saved]]] = [] if kept is None else kept
        self.running: Iterator[tuple[Spec, list[Saved]]] | None = None

    def again(self) -> Keeper:
        """One that gives out what this has kept."""
        made = Keeper(self.saves, self.kept)
        made.running = iter(self.kept)
        return made

    def results(self, spec: Spec, run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """The results of an operation: kept ones, or those that `run` computes."""
        if not self.saves(type(spec).__name__.lower(), spec.name):
            return run()
        if self.running is None:
            made = run()
            self.kept.append((spec, [Saved(x, f"a result of {spec.name}, which a "
                                           "checkpoint keeps,") for x in made]))
            return made
        known, arrays = next(self.running, (None, []))
        if known != spec:
            raise ShapeError(f"checkpoint: the function was run again and calls "
                             f"{spec.name} where it did not before; it must do the "
                             "same each time")
        return tuple([x.load() for x in arrays])


#: By thread the keeper of the checkpoint that is running.
KEEPING: dict[int, Keeper] = {}


@contextmanager
def keeping(keeper: Keeper | None) -> Iterator[None]:
    """Let a keeper see the operations that are recorded inside; None: nobody."""
    thread = get_ident()
    before = KEEPING.pop(thread, None)
    if keeper is not None:
        KEEPING[thread] = keeper
    try:
        yield
    finally:
        KEEPING.pop(thread, None)
        if before is not None:
            KEEPING[thread] = before
