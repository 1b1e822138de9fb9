"""Progress of long work: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO

__all__ = ["Advance", "progress"]

#: Called after each step with a note on it.
Advance = Callable[[str], None]

#: Seconds between the lines of a terminal that has no bar.
PERIOD = 2.0


@contextmanager
def progress(title: str, total: int,
             stream: IO[str] | None = None) -> Iterator[Advance]:
    """Show how many steps of long work are done, on a terminal only.

    A bar of rich, which goes when the work ends, or plain lines where rich (the extra
    ``demo``) is not installed.

    Parameters
    ----------
    title
        The work, in a word or two.
    total
        Number of steps.
    stream
        Standard error by default: what a program prints can be piped meanwhile.

    Yields
    ------
    callable
        To be called after each step, with a note on it; by one thread.
    """
    stream = sys.stderr if stream is None else stream
    if not total or not stream.isatty():
        yield _ignore
    elif find_spec("rich") is None:
        yield _lines(title, total, stream)
    else:
        with _bar(title, total, stream) as advance:
            yield advance


def _ignore(note: str) -> None:
    """Advance without showing it."""


def _lines(title: str, total: int, stream: IO[str]) -> Advance:
    """Print a line now and then, and the last one."""
    start = last = time.monotonic()
    done = 0

    def advance(note: str) -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if done == total or now - last >= PERIOD:
            last = now
            print(f"{title} {done}/{total}, {now - start:.0f} s  {note}", file=stream,
                  flush=True)

    return advance


@contextmanager
def _bar(title: str, total: int, stream: IO[str]) -> Iterator[Advance]:
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(),
               rich.MofNCompleteColumn(), rich.TimeElapsedColumn(),
               rich.TextColumn("{task.fields[note]}", markup=False))
    with rich.Progress(*columns, console=Console(file=stream), transient=True) as bars:
        task = bars.add_task(title, total=total, note="")
        yield lambda note: bars.update(task, advance=1, note=note)
