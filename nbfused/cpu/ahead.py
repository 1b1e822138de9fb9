"""Compilation of the kernels of calls to come, side by side in other processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import nbfused.cache as artefacts

from ..backend import Foreseen
from ..config import config, logger
from ..support.workers import Job, LostError, Workers, prepare
from .runtime import headers, sequence, team
from .runtime.compile import MissingError, noted
from .runtime.pool import POOL

__all__ = ["compile_ahead", "expect_kernels"]

_log = logger("compile")
_COMPILE = "nbfused.cpu.runtime.compile:compile_text"
_PREPARE = "nbfused.cpu.runtime.compile:prepare_compiler"


def compile_ahead(calls: Sequence[Foreseen]) -> None:
    """Compile what calls need and the cache does not have, as far as that pays.

    What a launcher asks for first is compiled before it is asked again: the second
    kernel of a reduction in chunks is known after the first.

    Raises
    ------
    CompileError
        Numba refuses a kernel.
    """
    steps = [*_own_programs(), *(lambda c=call: _bind(c) for call in calls)]
    with artefacts.held(), Workers(config.compile_workers, _PREPARE) as workers:
        while True:
            with noted() as missing:
                steps = [step for step in steps if not _passes(step)]
            if not missing:
                return
            pending = [(key, workers.submit(Job(_COMPILE, (text,))))
                       for key, text in missing.items()]
            if not workers.running:
                return  # so few are compiled here, where they are needed
            lost = False
            for key, future in pending:
                try:
                    artefacts.put(key, future.result())
                except LostError as error:
                    _log.warning("%s; its kernels are compiled in this one", error)
                    lost = True
            if lost:
                return


def expect_kernels() -> None:
    """Let Numba be imported in another process, unless this one has it."""
    if "numba" not in sys.modules:
        prepare(_PREPARE, config.compile_workers)


def _own_programs() -> list[Callable[[], Any]]:
    """Machine code that a plan runs besides its kernels."""
    own: list[Callable[[], Any]] = [sequence.machine_code, headers.machine_code]
    return [*own, team.machine_code] if POOL.threads > 1 else own


def _bind(call: Foreseen) -> None:
    launcher = call.launcher()
    bind = getattr(launcher, "bind", None)
    if bind is not None:
        bind(call.call)


def _passes(step: Callable[[], Any]) -> bool:
    """Whether a step needs nothing more; what goes wrong the call itself will say."""
    try:
        step()
    except MissingError:
        return False
    except Exception as error:
        _log.debug("not compiled ahead: %s", error)
    return True
