"""The gallery's programs: their constants, and how one runs with others.

A program is a script that stands alone.  What may be chosen are the constants at its
beginning, ``STEPS = 300  # of the optimiser``, with a comment that says what they mean.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from nbfused.errors import RangeError

__all__ = ["GALLERY", "Constant", "Program", "programs"]

GALLERY = Path(__file__).parent / "gallery"


@dataclass(frozen=True)
class Constant:
    """A constant of a program: its name in small letters, value and meaning."""

    name: str
    value: int | float | str
    meaning: str


@dataclass(frozen=True)
class Program:
    """A script of the gallery."""

    path: Path

    @property
    def name(self) -> str:
        """Its file's name without ``plot_``."""
        return self.path.stem.removeprefix("plot_")

    @cached_property
    def source(self) -> str:
        """Its text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The first line of its docstring, without a full stop."""
        return (ast.get_docstring(ast.parse(self.source)) or "").partition("\n")[0]

    @cached_property
    def constants(self) -> dict[str, Constant]:
        """What may be chosen, by name."""
        lines = self.source.splitlines()
        found = {}
        for name, node in _constants(ast.parse(self.source)):
            meaning = lines[node.lineno - 1].partition("#")[2].strip()
            if meaning:
                found[name] = Constant(name, ast.literal_eval(node.value), meaning)
        return found

    def run(self, progress: Callable[[float], object] = lambda share: None,
            **chosen: float | str) -> ModuleType:
        """Run the program, and leave its figure open.

        Parameters
        ----------
        progress
            Called with the share of its loops that is done, from 0 to 1.
        **chosen
            Constants, by their names in small letters.

        Returns
        -------
        ModuleType
            What it has defined.

        Raises
        ------
        RangeError
            The program has no such constant.
        """
        for name in chosen.keys() - self.constants.keys():
            raise RangeError(f"{self.name}: there is no constant {name!r}; expected "
                             f"one of {', '.join(self.constants)}")
        tree = ast.parse(self.source)
        for name, node in _constants(tree):
            if name in chosen:
                node.value = ast.copy_location(ast.Constant(chosen[name]), node.value)
        module = ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        vars(module)["__steps__"] = _Steps(_watch(tree), progress)
        # Kernels are parsed from the file, whose lines are still those of the tree.
        code = compile(tree, str(self.path), "exec", dont_inherit=True)
        with warnings.catch_warnings():  # plt.show() where there is no display
            warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
            exec(code, vars(module))
        return module


def programs() -> dict[str, Program]:
    """All programs by name, in the order of their names."""
    found = map(Program, sorted(GALLERY.glob("plot_*.py")))
    return {program.name: program for program in found}


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.Assign]]:
    """Assignments of a number or a string to a name in capitals."""
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(int() | float() | str())):
                if name.isupper():
                    yield name.lower(), node


def _watch(tree: ast.Module) -> int:
    """Let ``__steps__`` count the loops over a range outside of functions."""
    loops = 0
    for node in tree.body:
        match node:
            case ast.For(_, ast.Call(ast.Name("range")) as steps):
                counter = ast.Name("__steps__", ast.Load())
                node.iter = ast.copy_location(ast.Call(counter, [steps], []), steps)
                ast.fix_missing_locations(node)
                loops += 1
    return loops


class _Steps:
    """Iterate over the ranges of a program's loops, and report each step."""

    def __init__(self, loops: int, progress: Callable[[float], object]) -> None:
        self.loops, self.progress = loops, progress
        self.done = 0

    def __call__(self, steps: range) -> Iterator[int]:
        for count, step in enumerate(steps, 1):
            yield step
            self.progress((self.done + count / len(steps)) / self.loops)
        self.done += 1
