"""Names of programs, equal in every process, and programs without the graph behind."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .... import cache
from ....autograd.compilers.identity import text_of
from ....specs.fusion.graph import Launch, Value
from ..program import Program

__all__ = ["program_name", "without_graph"]

#: Bytes of constants that are worth to be read for a name.
_CONSTANTS = 1 << 20


def program_name(program: Program, numbers: Sequence[Any]) -> str | None:
    """A name of a program that is called with these numbers.

    None of one that calls functions of the host that no other process finds, or holds
    large constants.
    """
    if sum(x.nbytes for x in program.constants.values()) > _CONSTANTS:
        return None
    try:
        functions = [pickle.dumps(one.function) for one in program.numbers]
        checks = [pickle.dumps(check) for check, _ in program.checks]
    except Exception:  # of any kind, as objects pickle themselves
        return None
    names: dict[Value, str] = {}

    def text(x: Any) -> str:
        if isinstance(x, Value):
            return names.setdefault(x, f"v{len(names)}:{x.shape}:{x.type!r}")
        if isinstance(x, np.ndarray):
            return f"{x.shape}{x.dtype}{x.tobytes().hex()}"
        return f"{type(x).__name__}:{x!r}"

    parts = [[*map(text, program.arguments)], [*map(text, numbers)],
             [text(v) + text(x) for v, x in program.constants.items()]]
    parts += [[text(one.value), repr(function), *map(text, one.args)]
              for one, function in zip(program.numbers, functions, strict=True)]
    parts += [[repr(check), text(x)]
              for check, (_, x) in zip(checks, program.checks, strict=True)]
    parts += [[text_of(one.spec), repr(one.asked), repr(one.exact),
               *map(text, one.inputs), *map(text, one.outputs)]
              for one in program.launches]
    parts += [[text(own), text(new)] for own, new in program.stores.items()]
    return cache.digest("program on buffers", repr(parts))


def without_graph(program: Program) -> Program:
    """The program, without what its launches were made of."""
    known: dict[Value, Value] = {}

    def plain(x: Any) -> Any:
        if not isinstance(x, Value):
            return x
        return known.setdefault(x, replace(x, node=None))

    def plain_launch(one: Launch) -> Launch:
        return replace(one, inputs=tuple(map(plain, one.inputs)),
                       outputs=tuple(map(plain, one.outputs)), nodes=())

    return Program(
        tuple(map(plain, program.arguments)),
        {plain(v): x for v, x in program.constants.items()},
        [replace(one, value=plain(one.value), args=tuple(map(plain, one.args)))
         for one in program.numbers],
        [(check, plain(x)) for check, x in program.checks],
        [plain_launch(one) for one in program.launches],
        {plain(own): plain(new) for own, new in program.stores.items()}, None,
        [x and tuple(map(plain, x)) for x in program.direct],
        [tuple(map(plain, x)) for x in program.last])
