"""What the programs of this folder have in common on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

__all__ = ["count", "options"]


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text!r}")
    return int(text)


def options(name: str, description: str, argv: Sequence[str] | None,
            **numbers: tuple[float, str]) -> argparse.Namespace:
    """The options of a program.

    Parameters
    ----------
    name
        Its module's, and that of the picture unless ``--picture`` says another.
    description
        Its first line is shown by ``--help``.
    argv
        The arguments; None for those of the process.
    **numbers
        For each option that is a number, its default and what it means.
    """
    parser = argparse.ArgumentParser(prog=f"python -m examples.{name}",
                                     description=description.splitlines()[0])
    for option, (default, meaning) in numbers.items():
        kind = count if isinstance(default, int) else float
        parser.add_argument(f"--{option}", type=kind, default=default, help=meaning)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, rocm …")
    parser.add_argument("--picture", type=Path, default=Path(f"{name}.png"),
                        help="file to draw")
    return parser.parse_args(argv)
