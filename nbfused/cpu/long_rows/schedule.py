"""The phases of a Row whose chunks are shared: which stage is folded when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...specs import TypedRow

__all__ = ["Schedule"]


class Schedule:
    """The phases in which the stages of a Row are folded, each over all chunks.

    A stage whose elements need what an earlier one gives waits for all of its chunks.

    Attributes
    ----------
    folded, known
        For each stage, the phase that folds it, and the one after which what it gives
        is known.
    last
        The phase that computes the results.
    """

    def __init__(self, typed: TypedRow) -> None:
        self.folded: list[int] = []
        self.known: list[int] = []
        made: dict[str, int] = {}
        for stage in typed.stages:
            at = 1 + _latest(stage.element.function.params, made)
            known = max(at, _latest(stage.post.function.params, made))
            made |= dict.fromkeys(stage.names, known)
            self.folded.append(at)
            self.known.append(known)
        self.last = 1 + max(self.known, default=-1)

    def folds(self, phase: int) -> list[int]:
        """The stages that a phase folds."""
        return [k for k, at in enumerate(self.folded) if at == phase]

    def finishes(self, phase: int) -> list[int]:
        """The stages that the phase before was the last to wait for."""
        return [k for k, at in enumerate(self.known) if at == phase - 1]


def _latest(names: Iterable[str], made: Mapping[str, int]) -> int:
    """The phase after which all of some names are known; -1 of inputs."""
    return max((made[name] for name in names if name in made), default=-1)
