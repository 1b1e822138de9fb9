"""Many random programs: ``python -m tests.fuzz --first 0 --count 1000``.

Kernels are interpreted, so that a program takes milliseconds; one in ``--every`` is
compiled too.  ``--steps`` draws training steps instead.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence

import nbfused as nf
from tests.fuzz.check import report, shrunk
from tests.fuzz.steps import check_step
from tests.fuzz.values import Outcome
from tests.plugin.nbfused_interpreter import InterpreterBackend


def main(arguments: Sequence[str] | None = None) -> int:
    """Check programs; the exit status says whether any was wrong."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--every", type=int, default=0,
                        help="one program in so many is compiled; 0: none")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--steps", action="store_true",
                        help="training steps with gradients inside")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    start, wrong = time.perf_counter(), 0
    for seed in range(options.first, options.first + options.count):
        try:
            with _backend(options.every and seed % options.every == 0):
                outcome, text = _step(seed) if options.steps else report(
                    seed, None if options.no_shrink else shrunk)
        except Exception:
            trace = traceback.format_exc(limit=-4)
            text = f"# program {seed}: the fuzzer itself\n{trace}"
        else:
            counts += outcome.counts
        if text:
            wrong += 1
            print(text, "", sep="\n", flush=True)
    took = time.perf_counter() - start
    print(*(f"{n:7} {what}" for what, n in sorted(counts.items())), sep="\n")
    print(f"{options.count} programs from {options.first} in {took:.0f} s, "
          f"{wrong} wrong")
    return bool(wrong)


def _step(seed: int) -> tuple[Outcome, str]:
    """The report on a training step."""
    text = check_step(seed)
    return Outcome(), text and f"# step {seed}\n{text}"


def _backend(compiled: bool) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext() if compiled \
        else nf.use_backend(InterpreterBackend())


if __name__ == "__main__":
    sys.exit(main())
