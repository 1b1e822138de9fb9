"""``python -m benchmarks``: run the asv classes of this folder without asv.

One line a measurement.  asv itself keeps a history: see ``asv.conf.json``.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["main", "measure", "pattern"]


def pattern(text: str) -> re.Pattern[str]:
    """Parse an option that is a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no regular expression: {error}") from None


def classes() -> Iterator[type]:
    """All benchmark classes of the modules ``bench_*``."""
    package = importlib.import_module(__package__)
    for found in pkgutil.iter_modules(package.__path__):
        if found.name.startswith("bench_"):
            module = importlib.import_module(f"{__package__}.{found.name}")
            for name, value in inspect.getmembers(module, inspect.isclass):
                if value.__module__ == module.__name__ and not name.startswith("_"):
                    yield value


def measure(
    case: type, params: tuple[Any, ...], repeat: int
) -> Iterator[tuple[str, float, str]]:
    """Run a benchmark with `params`; yield name, value and unit of each result."""
    instance: Any = case()
    if hasattr(case, "setup_cache"):
        params = (instance.setup_cache(params), *params)
    instance.setup(*params)
    for name, method in inspect.getmembers(instance, inspect.ismethod):
        kind = name.partition("_")[0]
        if kind == "time":
            yield name, 1e3 * best(method, params, repeat), "ms"
        elif kind == "track":
            yield name, method(*params), getattr(method, "unit", "")
    if hasattr(instance, "teardown"):
        instance.teardown(*params)


def best(method: Any, params: tuple[Any, ...], repeat: int) -> float:
    """The shortest of `repeat` times, in seconds."""
    shortest = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        method(*params)
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest


def runs(quick: bool, wanted: str | re.Pattern[str],
         ) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """The classes with their parameters, filtered by the pattern `wanted`."""
    for case in classes():
        sizes = case.quick if quick else case.params  # type: ignore[attr-defined]
        for params in itertools.product(*sizes):
            if re.search(wanted, f"{case.__name__} {params}"):
                yield case, params


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, once")
    parser.add_argument(
        "--match", default="", type=pattern,
        help="regular expression: LayerNorm, cuda:0 …"
    )
    arguments = parser.parse_args(argv)
    repeat = 1 if arguments.quick else 10
    chosen = list(runs(arguments.quick, arguments.match))
    if not chosen:
        parser.error(f"--match {arguments.match.pattern}: no benchmark has such a "
                     "name; without it all are run")
    for case, params in chosen:
        shown = " ".join(map(str, params))
        try:
            for name, value, unit in measure(case, params, repeat):
                label = f"{case.__name__}.{name}"
                print(f"{label:36} {shown:28} {value:12.4g} {unit}", flush=True)
        except NotImplementedError as why:  # as for asv: not here
            print(f"{case.__name__:36} {shown:28} skipped: {why}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
