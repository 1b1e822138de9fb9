"""The kernels of a program, compiled side by side before the first of them runs.

The compiler itself takes a second to be imported.  On a GPU's machine that begins when
a function is decorated that never was before, while the program loads its data; and
with the trace of a function that has not been traced on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, cast

import nbfused.cache as cache

from ...arrays import Array, describe
from ...backend import Foreseen
from ...config import logger
from ...dispatch.foreseen import array_like, foresee, foresee_view
from ...registry.backends import registry
from ...specs.fusion.graph import Launch, Value
from ...support.processes import pools_are_open
from .arguments import is_number
from .outside.scope import Scope
from .program import Opaque, Program, data_of, evaluate

__all__ = ["compile_ahead", "expect_call", "expect_kernels"]

_log = logger("compile")


def expect_call(code: CodeType) -> None:
    """Let a GPU's compiler start where a function is decorated that never was before.

    It costs a millisecond or two, and where the function is not called soon, a process
    that is idle for a minute.
    """
    if not pools_are_open():
        return
    key = cache.digest("decorated", *_parts(code))
    if cache.noted(key) is not None:
        return
    cache.note(key, b"")
    _start_compiler(registry.accelerator)


def expect_kernels(scope: Scope, arguments: Sequence[Any]) -> None:
    """Let a compiler start beside the first trace of a function on this machine."""
    like = next((x for x in arguments if not is_number(x)), None)
    if like is None or not pools_are_open():
        return
    try:
        device = describe(data_of(like)).device
        backend = registry.backend_for(device, "an argument")
    except Exception as error:  # the call itself will say, with its words
        _log.debug("no compiler is started: %s", error)
        return
    if not hasattr(backend, "expect"):
        return
    key = cache.digest("traced", device.partition(":")[0], *(
        part for code in scope.codes() for part in _parts(code)))
    if cache.noted(key) is None:
        _start_compiler(lambda: backend)
        cache.note(key, b"")


def _start_compiler(find: Callable[[], object]) -> None:
    """Let a backend expect kernels, if it can; its errors are not the program's."""
    try:
        expect = getattr(find(), "expect", None)
        if expect is not None:
            expect()
    except Exception as error:
        _log.warning("no compiler is started early: %s", error)


def _parts(code: CodeType) -> tuple[str, str, bytes]:
    """List what tells code from other code."""
    return code.co_filename, code.co_name, code.co_code


def compile_ahead(program: Program, arguments: Sequence[Any]) -> None:
    """Compile what a program is going to launch, where its backend can do that ahead.

    Raises
    ------
    CompileError
        A compiler refuses a kernel.
    """
    given = dict(zip(program.arguments, arguments, strict=True))
    like = next((x for v, x in given.items() if not v.by_value), None)
    if like is None or not pools_are_open():
        return
    first = describe(data_of(like))
    ahead = getattr(registry.backend_for(first.device, "an argument"), "ahead", None)
    if ahead is None:
        return
    try:
        calls = _foreseen(program, given, first)
    except Exception as error:  # the program itself will say, with its words
        _log.debug("nothing is compiled ahead: %s", error)
        return
    ahead(calls)


def _foreseen(program: Program, given: Mapping[Value, Any], like: Array,
              ) -> list[Foreseen]:
    """The calls of a program, in their order."""
    env: dict[Value, Any] = {
        v: x if v.by_value else describe(data_of(x))
        for v, x in (*program.constants.items(), *given.items())}
    for number in program.numbers:
        env[number.value] = evaluate(number, env)
    calls: list[Foreseen] = []
    for launch, direct in zip(program.launches, program.direct, strict=True):
        made, more = _launch(launch, direct, env, like)
        env.update(zip(launch.outputs, made, strict=True))
        calls += more
    return calls


def _launch(launch: Launch, direct: tuple[Value | None, ...] | None,
            env: Mapping[Value, Any], like: Array,
            ) -> tuple[Sequence[Any], list[Foreseen]]:
    inputs = [env[x] if isinstance(x, Value) else x for x in launch.inputs]
    if isinstance(launch.spec, Opaque):
        return [array_like(like, v.shape, v.type) for v in launch.outputs], []
    if not launch.spec.launches:
        return [foresee_view(cast(Any, launch.spec), inputs)], []
    outs = None if direct is None else [None if own is None else env[own]
                                        for own in direct]
    return foresee(launch.spec, inputs, outs, launch.asked, like)
