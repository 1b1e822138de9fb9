"""``python -m examples``: the gallery's programs on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from .programs import Constant, Program, programs

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["main"]

NEEDED = {"matplotlib": "matplotlib", "rich": "rich", "sklearn": "scikit-learn"}


def main(argv: Sequence[str] | None = None) -> int:
    """List the programs, or run those that are named.

    Parameters
    ----------
    argv
        Command-line arguments; those of the process where it is None.

    Returns
    -------
    int
        0, or 2 where a package is missing.
    """
    known = programs()
    words = sys.argv[1:] if argv is None else [*argv]
    names = [*takewhile(lambda word: not word.startswith("-"), words)]
    for name in names:
        if name not in (*known, "all"):
            parser([]).error(f"expected all or one of {', '.join(known)}, got {name!r}")
    chosen = [program for name, program in known.items() if {name, "all"} & {*names}]
    arguments = parser(chosen).parse_args(words[len(names):])
    if not chosen:
        print(contents(known))
        return 0
    missing = [package for module, package in NEEDED.items()
               if find_spec(module) is None]
    if missing:
        print(f"the programs need {', '.join(missing)}, not installed here: "
              "pip install 'nbfused[demo]'")
        return 2
    run(chosen, arguments)
    return 0


def parser(chosen: Sequence[Program]) -> argparse.ArgumentParser:
    """Make the parser for programs: the constants that all of them have."""
    alone = chosen[0] if len(chosen) == 1 else None
    result = argparse.ArgumentParser(
        prog=f"python -m examples {alone.name if alone else 'NAME …'}",
        description=alone.title if alone else "Programs of the gallery, or all.")
    for constant in shared(chosen):
        kind = count if isinstance(constant.value, int) else type(constant.value)
        default = f" ({constant.value})" if alone else ""
        result.add_argument(f"--{constant.name}", type=kind, default=argparse.SUPPRESS,
                            help=constant.meaning + default)
    result.add_argument("--out", type=Path, default=Path(),
                        help="folder of the pictures (this one)")
    return result


def shared(chosen: Sequence[Program]) -> list[Constant]:
    """The constants of the first program that all the others have."""
    first = chosen[0].constants if chosen else {}
    return [constant for name, constant in first.items()
            if all(name in program.constants for program in chosen)]


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text!r}")
    return int(text)


def contents(known: dict[str, Program]) -> str:
    """List the programs and their titles."""
    width = max(map(len, known))
    lines = [f"  {name:{width}}  {program.title}" for name, program in known.items()]
    return "\n".join(["python -m examples NAME … runs programs of the gallery, "
                      "all of them by the name all:", *lines,
                      "NAME --help lists what can be chosen"])


def run(chosen: Sequence[Program], arguments: argparse.Namespace) -> None:
    """Run programs under one progress bar, and save their pictures."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    constants = {name: value for name, value in vars(arguments).items()
                 if name != "out"}
    arguments.out.mkdir(parents=True, exist_ok=True)
    with bar() as progress:
        task = progress.add_task("", total=len(chosen))
        for done, program in enumerate(chosen):
            progress.update(task, completed=done, description=program.name)

            def advance(share: float, done: int = done) -> None:
                progress.update(task, completed=done + share)

            program.run(advance, **constants)
            picture = arguments.out / f"{program.name}.png"
            plt.savefig(picture, dpi=100)
            plt.close("all")
            print(f"{program.name}: {picture}")
        progress.update(task, completed=len(chosen))


@contextmanager
def bar() -> Iterator[Progress]:
    """The progress bar, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(),
               TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True,
                  disable=not console.is_terminal) as progress:
        yield progress


if __name__ == "__main__":
    sys.exit(main())
