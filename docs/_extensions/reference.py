"""The reference's pages: names listed in Markdown, described by their docstrings.

A page lists the names of a module that belong to its task, one on each line::

    ```{reference} nbfused.ops
    relu
    sigmoid
    ```

That becomes a table of their first lines and an entry for each.  A line may give the
signature, for what has none of its own: ``grid(ndim)``; or the members of a class, else
all that have docstrings: ``Variable: data grad``.  ``{builtins}`` is the table of the
scalar language, made of its rows.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from importlib.util import resolve_name
from operator import attrgetter
from types import GenericAlias
from typing import Any

from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer

from nbfused.op import Func
from nbfused.scalar.language.vocabulary import OPS, Op

__all__ = ["expand", "setup"]

LIST = re.compile(r"^```\{reference\} (\S+)\n(.*?)^```$", re.M | re.S)
BUILTINS = "```{builtins}\n```"


def kind(found: Any) -> str:
    """The directive of `sphinx.ext.autodoc` that describes an object."""
    alias = found is Any or isinstance(found, GenericAlias)
    if isinstance(found, type) and not alias:
        return "exception" if issubclass(found, BaseException) else "class"
    named = hasattr(found, "__nbfused_form__") or hasattr(found, "__nbfused_op_name__")
    if isinstance(found, (Func, Op)) or named or inspect.isroutine(found):
        return "function"
    return "data"


def first_line(found: Any, module: str, name: str) -> str:
    """The first line of what is said of an object.

    Raises
    ------
    ExtensionError
        Nothing is.
    """
    text = comment(module, name) if kind(found) == "data" else inspect.getdoc(found)
    if not text and not isinstance(found, (int, str, dict)):
        text = inspect.getdoc(found)
    if not text:
        raise ExtensionError(f"{module}.{name} has no docstring, and no comment '#:' "
                             "above it")
    return text.partition("\n\n")[0].replace("\n", " ")


def comment(module: str, name: str) -> str:
    """The comment ``#:`` above a constant, in the module that defines it."""
    analyzer = ModuleAnalyzer.for_module(module)
    analyzer.analyze()
    if ("", name) in analyzer.attr_docs:
        return "\n".join(analyzer.attr_docs["", name]).strip()
    for node in ast.walk(ast.parse(analyzer.code)):
        if isinstance(node, ast.ImportFrom) and node.module and any(
                name == (alias.asname or alias.name) for alias in node.names):
            package = import_module(module).__package__ or ""
            return comment(resolve_name("." * node.level + node.module, package), name)
    return ""


def entry(module: Any, line: str) -> tuple[str, list[str]]:
    """A row of the table, and the directive, of one line of a list."""
    line, _, members = line.partition(":")
    name = line.partition("(")[0]
    found = attrgetter(name)(module)
    what = kind(found)
    if isinstance(found, Func):  # Sphinx seeks defaults in the function
        line = f"{name}{inspect.signature(found)}"
    row = (f"   * - :py:obj:`{name} <{module.__name__}.{name}>`\n"
           f"     - {first_line(found, module.__name__, name)}")
    lines = [f".. auto{what}:: {module.__name__}::{line}"]
    if what == "class":
        lines += [f"   :members: {', '.join(members.split())}"]
    if special := [member for member in members.split() if member.startswith("__")]:
        lines += [f"   :special-members: {', '.join(special)}"]
    if what == "exception":
        lines += ["   :show-inheritance:"]
    if what == "data":
        lines += ["   :no-value:"]
        if text := comment(module.__name__, name):
            lines = [f".. py:data:: {name}", f"   :module: {module.__name__}", "",
                     *(f"   {part}" for part in text.splitlines())]
    return row, [*lines, ""]


def expand(match: re.Match[str]) -> str:
    """The reStructuredText of a list of names."""
    module = import_module(match[1])
    entries = [entry(module, line.strip()) for line in match[2].splitlines()
               if line.strip()]
    table = [".. list-table::", "   :widths: auto", "   :class: names", "",
             *(row for row, _ in entries), ""]
    return "\n".join(["```{eval-rst}", f".. currentmodule:: {match[1]}", "", *table,
                      *(line for _, lines in entries for line in lines), "```"])


def builtins() -> str:
    """The table of the scalar language's functions, of its rows."""
    lines = ["```{eval-rst}", ".. currentmodule:: nbfused", "", ".. list-table::",
             "   :header-rows: 1", "   :widths: 20 36 30 14", "   :class: builtins", "",
             "   * - function", "     - computes", "     - derivative by each operand",
             "     - in C"]
    for op in OPS.values():
        if op.python == f"nf.{op.name}":
            lines += builtin(op)
    return "\n".join([*lines, "```"])


def builtin(op: Op) -> list[str]:
    """A row of the table, to which links to the name lead."""
    call = f"{op.name}({', '.join('abc'[:op.arity])})"
    rules = [f"``{text}``" if text else "0" for text in op.partials]
    names = [f"``{name}``" for name in op.c]
    return [f"   * - .. py:function:: {call}", "          :no-typesetting:", "",
            f"       ``{call}``", f"     - {op.doc}",
            f"     - {'; '.join(rules) or 'of what it computes'}",
            f"     - {', '.join(names) or '–'}"]


def source_read(app: Any, docname: str, source: list[str]) -> None:
    """Expand the lists of a page of the reference."""
    if docname.startswith("reference/"):
        app.env.note_reread()  # what it lists may have changed
        text = LIST.sub(expand, source[0])
        source[0] = text.replace(BUILTINS, builtins()) if BUILTINS in text else text


def setup(app: Any) -> dict[str, bool]:
    """Expand pages as they are read."""
    app.connect("source-read", source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
