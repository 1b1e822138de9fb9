"""Sources of Python functions: their syntax trees, and errors that point into them.

The definition is found by position, in the tree of its own lines or, where these cannot
be told or parsed, of the whole file, which takes longer.  So lambdas and nested
functions need no guessing about indentation or line ends.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import os
import sys
import time
from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from ...errors import ScalarSyntaxError
from ...support.records import record

__all__ = ["Definition", "Source", "definition", "global_names", "keep_sources",
           "namespace", "parameters", "read_names"]


_STARTED = time.time()

#: The attribute of a function that carries its source.
_KEPT = "__nbfused_source__"


@record(frozen=True)
class Source:
    """A text and the file it came from."""

    file: str
    text: str

    def line(self, number: int) -> str:
        """The line `number`, counted from 1, without its indentation."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def error(self, where: ast.AST | int, message: str) -> ScalarSyntaxError:
        """An error at a node or at a line number, not raised yet."""
        number = where if isinstance(where, int) else getattr(where, "lineno", 0)
        text = self.line(number)
        error = ScalarSyntaxError(f"{message}\n    {text}\n")
        error.filename, error.lineno, error.text = self.file, number, text
        if not isinstance(where, int) and hasattr(where, "col_offset"):
            indent = self.text.splitlines()[number - 1 : number]
            stripped = len(indent[0]) - len(indent[0].lstrip()) if indent else 0
            error.offset = max(1, where.col_offset - stripped + 1)
        return error


@record(frozen=True)
class Definition:
    """A function as written: its tree and the text it stands in."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    source: Source


def definition(pyfunc: Any) -> Definition:
    """Find the source of a Python function.

    Raises
    ------
    OSError
        There is no source (an older REPL, ``exec``), or other functions stand there.
    TypeError
        `pyfunc` is not written in Python.
    ScalarSyntaxError
        The source says something else by now.
    """
    if not isinstance(pyfunc, FunctionType):
        raise TypeError(f"{pyfunc!r} is not a Python function")
    code = pyfunc.__code__
    kept = pyfunc.__dict__.get(_KEPT)
    if kept and (node := _node(kept, code)) is not None:
        return Definition(_name(node, code), node, Source(code.co_filename, kept))
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, pyfunc.__globals__)
    text = "".join(lines) or _command_line(code)
    node = _node(_own_lines(lines, code), code) or _node(text, code)
    if node is None:
        raise OSError(f"no source of {pyfunc.__qualname__}")
    source = Source(code.co_filename, text)
    if _is_new(code.co_filename) and not any(_same(c, code) for c in _codes(text)):
        raise source.error(node, f"the text of {pyfunc.__qualname__} has changed since "
                                 "it was imported; import it again, by importlib.reload"
                                 " or in a new process")
    return Definition(_name(node, code), node, source)


def _name(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> str:
    return "lambda_" if isinstance(node, ast.Lambda) else code.co_name


def keep_sources(*functions: Any) -> None:
    """Have functions carry their sources where they are pickled by value.

    Where they are loaded their files need not be, nor the cells of a notebook.
    Functions that these call carry theirs too.
    """
    found = [f for f in functions if isinstance(f, FunctionType)]
    for pyfunc in found:  # which grows
        found += [f for f in read_names(pyfunc).values()
                  if isinstance(f, FunctionType) and all(f is not g for g in found)]
        if _KEPT in pyfunc.__dict__:
            continue
        with suppress(OSError, ScalarSyntaxError):
            text = definition(pyfunc).source.text
            pyfunc.__dict__[_KEPT] = _own_lines(text.splitlines(True), pyfunc.__code__
                                                ) or text


def read_names(pyfunc: FunctionType) -> dict[str, Any]:
    """The objects behind the names that a function reads and does not assign."""
    known, code = namespace(pyfunc), pyfunc.__code__
    return {n: known[n] for n in (*code.co_freevars, *global_names(code)) if n in known}


def global_names(code: CodeType) -> Iterator[str]:
    """The globals that `code` reads, functions inside included."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from global_names(constant)


def _is_new(file: str) -> bool:
    """True if a file was written after this module was imported."""
    entry = linecache.cache.get(file, ())
    return len(entry) == 4 and isinstance(entry[1], float) and \
        entry[1] > _STARTED and os.path.exists(file)  # cells of notebooks are no files


def _same(one: CodeType, other: CodeType) -> bool:
    """True if the same lines were compiled to both; what is cheap is compared first."""
    return one.co_firstlineno == other.co_firstlineno and \
        one.co_varnames == other.co_varnames and _meaning(one) == _meaning(other)


def _meaning(code: CodeType) -> tuple[Any, ...]:
    """A key that two functions share if the same lines were compiled to them.

    Files are also compiled in parts, as by doctest, and stages of a row are: Python
    calls ``module.function`` in another way where the import is compiled with it, and
    reads a name of the function around as a global where that is not.
    """
    steps = tuple((_METHOD.get(step.opname, step.opname),
                   None if step.opcode in _JUMPS else _constant(step.argval))
                  for step in dis.get_instructions(code) if step.opname not in _CALLING)
    return code.co_firstlineno, steps, code.co_varnames


#: Instructions that tell a call of a method from that of an attribute, a free name from
#: a global, and jumps, whose distance depends on them.
_METHOD = {"LOAD_METHOD": "LOAD_ATTR", "CALL_METHOD": "CALL",
           "LOAD_DEREF": "LOAD_GLOBAL"}
_CALLING = {"PUSH_NULL", "PRECALL", "CACHE", "EXTENDED_ARG", "NOP", "COPY_FREE_VARS"}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def _constant(value: Any) -> Any:
    return _meaning(value) if isinstance(value, CodeType) else repr(value)


def _node(text: str, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The node that `code` was compiled from, if `text` has exactly one."""
    found = [n for n in _functions(_tree(text), code.co_firstlineno)
             if _is_compiled_from(n, code)]
    if len(found) > 1:  # lambdas on one line: the innermost that holds all of `code`
        found = [n for n in found if _holds(n, code)][-1:]
    return found[0] if len(found) == 1 else None


def _own_lines(lines: Sequence[str], code: CodeType) -> str:
    """A ``def`` where it stands, without the rest of the file.

    To the last line that has instructions, and on while lines are indented.
    """
    first = code.co_firstlineno - 1
    if code.co_name == "<lambda>" or first >= len(lines):
        return ""
    depth, last = _depth(lines[first]), _last_line(code)
    while last < len(lines) and (lines[last].isspace() or _depth(lines[last]) > depth):
        last += 1
    above = "\n"*(first - 1) + "if True:\n" if depth else "\n"*first
    return above + "".join(lines[first:last])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _last_line(code: CodeType) -> int:
    """The last line of `code`, counted from 1, with functions inside."""
    inside = [_last_line(c) for c in code.co_consts if isinstance(c, CodeType)]
    return max([code.co_firstlineno, *inside, *(
        end for _, end, _, _ in code.co_positions() if end is not None)])


def _command_line(code: CodeType) -> str:
    """The text of ``python -c``, if `code` was compiled from that."""
    if code.co_filename != "<string>" or "-c" not in sys.orig_argv[:-1]:
        return ""
    text = sys.orig_argv[sys.orig_argv.index("-c") + 1]
    return text if code in _codes(text) else ""


@lru_cache(maxsize=1)
def _codes(text: str) -> frozenset[CodeType]:
    """The code of every function of a program."""
    try:
        found = [compile(text, "<string>", "exec", dont_inherit=True)]
    except SyntaxError:
        return frozenset()
    for code in found:  # which grows
        found += [c for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(found)


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:  # an IPython cell with magics, or a file half edited
        return ast.Module([], [])


def _functions(tree: ast.AST, line: int) -> list[ast.FunctionDef | ast.Lambda]:
    """The functions that begin at this line, or whose decorators do."""
    found, within = [], [tree]
    for node in within:  # which grows
        first, last = getattr(node, "lineno", line), getattr(node, "end_lineno", line)
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
        if first <= line <= last:
            within += ast.iter_child_nodes(node)
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                found.append(node)
    return found


def _is_compiled_from(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """True if `code` can have been compiled from `node`."""
    first, name = node.lineno, "<lambda>"
    if isinstance(node, ast.FunctionDef):
        first = min([first, *(d.lineno for d in node.decorator_list)])
        name = node.name
    expected = tuple(parameters(node))
    return (code.co_name == name and code.co_firstlineno == first
            and code.co_varnames[: len(expected)] == expected)


def _holds(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """True if instructions of `code` have places, and all lie in the body."""
    body = node.body if isinstance(node.body, list) else [node.body]
    first = (body[0].lineno, body[0].col_offset)
    last = (body[-1].end_lineno, body[-1].end_col_offset)
    places = [((line, column), (end, end_column))
              for line, end, column, end_column in code.co_positions()
              if column is not None and column != end_column]
    return bool(places) and all(first <= a and b <= last for a, b in places)


def parameters(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    """Names of the parameters in the order of a code object, ``*args`` left out."""
    a = node.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]


#: Python's own: `torch.export` puts others in their places while it traces.
_BUILTINS = dict(vars(builtins))


def namespace(pyfunc: Any) -> ChainMap[str, Any]:
    """The objects behind the free names of `pyfunc`: closure, globals, builtins."""
    closure: dict[str, Any] = {}
    cells = zip(pyfunc.__code__.co_freevars, pyfunc.__closure__ or (), strict=True)
    for name, cell in cells:
        with suppress(ValueError):  # a name that is not assigned yet
            closure[name] = cell.cell_contents
    return ChainMap(closure, pyfunc.__globals__, _BUILTINS)
