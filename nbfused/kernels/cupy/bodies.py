"""Bodies of elementwise kernels, in C or Python, as scalar functions."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import DefinitionError, KernelTypeError, ScalarSyntaxError
from ...scalar.cparse import LOOP, Parameter, parse_c
from ...scalar.ir.build import Builder, inline
from ...scalar.ir.nodes import ACCESSES, Function, Let, Value, walk
from ...scalar.parse.functions import parse, parse_tree
from ...scalar.parse.jumps import assigned
from ...scalar.printing.numba import Raw, statements
from ...scalar.source.definitions import Source
from ...scalar.typing.types import Weak, result_types
from ...specs.pointwise import pointwise
from ...specs.vjp.functions import compose
from ...support.records import record
from .parameters import ParameterInfo

__all__ = ["Body", "Ranks", "check_language", "check_real", "elementwise_body",
           "typed_text"]

#: For each raw input, and for the loop, the number of its axes.
Ranks = tuple[tuple[str, int], ...]

INDEX, SIZE = "i", "n"
_INT64 = np.dtype(np.int64)
_AXES = re.compile(rf"\b({LOOP}\s*\.\s*(get|shape|ndim)|_raw_\w+\s*\.\s*shape)\b")


@record(frozen=True)
class Body:
    """The body of an elementwise kernel, and its language.

    Attributes
    ----------
    text
        Statements in C or Python, or a Python function.
    preamble
        C before them.
    python
        Whether it is Python.
    first
        Declarations in C of what all elements share: CuPy's `loop_prep`.
    """

    text: str | Callable[..., Any]
    preamble: str
    python: bool
    first: str = ""

    @property
    def places(self) -> bool:
        """True if it names the axes of the loop, as in ``_ind.get()[0]``."""
        return not self.python and bool(_AXES.search(f"{self.first} {self.text}"))

    def axes(self, owner: str) -> int:
        """The number of axes that a raw array, or the loop, has at least."""
        text = f"{self.first} {self.text}"
        owner = rf"(?:{owner}|_raw_\w+)" if owner == LOOP else owner
        named = re.findall(rf"\b{owner}\s*\.\s*\w+\s*\(\s*\)\s*\[\s*(\d+)", text)
        ndim = re.search(rf"\b{owner}\s*\.\s*ndim\b", text)
        return max(2 if ndim else 1, *(int(k) + 1 for k in named),
                   *(_length(at, text) for at in re.findall(
                       rf"\b{owner}\s*\[\s*(\w+)\s*\]", text)), 1)


def _length(name: str, text: str) -> int:
    """The length of an array that a text in C declares, 0 for none: ``int at[2]``."""
    found = re.search(rf"(?:\w\s+|,\s*){name}\s*\[\s*(\d*)\s*\]"
                      r"\s*(?:=?\s*{([^{}]*)})?", text)
    if found is None:
        return 0
    items = found[2] or ""
    while (without := re.sub(r"\([^()]*\)", "", items)) != items:
        items = without
    return int(found[1] or items.count(",") + 1)


def check_language(text: Any, language: str | None, preamble: str) -> bool:
    """True if a body is Python: a function, or a string that is said to be."""
    if language is not None and not (isinstance(language, str)
                                     and language in ("c", "python")):
        raise DefinitionError(f"'language' must be 'c' or 'python', got {language!r}")
    if not isinstance(text, str) and not callable(text):
        raise DefinitionError("the body must be a string in C, or a Python function; "
                              f"got {type(text).__name__}")
    python = callable(text) or language == "python"
    if callable(text) and language == "c":
        raise DefinitionError("the body is a Python function, but language='c'")
    if python and preamble:
        raise DefinitionError("'preamble' is C; a body in Python calls Python "
                              "functions")
    return python


@lru_cache(maxsize=1024)
def elementwise_body(body: Body, name: str, inputs: tuple[ParameterInfo, ...],
                     outputs: tuple[ParameterInfo, ...],
                     types: tuple[tuple[str, np.dtype], ...],
                     ranks: Ranks) -> Function:
    """The scalar function of a kernel where the placeholders stand for `types`.

    Returns
    -------
    Function
        Parameters: inputs, outputs (where they keep what they hold), then what the body
        can name besides: `i`, `n` (unless declared), and in C ``_ind_size``,
        ``_x_size``, ``_x_shape0``.
        Results: the outputs that are not raw, in their dtypes.
    """
    table = dict(types)
    dtypes = [p.dtype or table[p.ctype] for p in (*inputs, *outputs)]
    if body.python:
        return _python(body, name, inputs, outputs, dtypes)
    params = [Parameter(p.name, d, p.raw, p in outputs)
              for p, d in zip((*inputs, *outputs), dtypes, strict=True)]
    named = {p.name for p in params}
    params += [Parameter(p, _INT64) for p in (INDEX, SIZE, "_ind_size", *shapes(ranks))
               if p not in named]
    assert isinstance(body.text, str)
    return parse_c(body.text, name, tuple(params), types, body.preamble, body.first)


def shapes(ranks: Ranks) -> list[str]:
    """The names of sizes and extents of raw inputs, and of the loop's extents."""
    found = []
    for name, rank in ranks:
        found += [f"_{name}_size"] * (name != LOOP)
        found += [f"_{name}_shape{k}" for k in range(rank)]
    return found


def _python(body: Body, name: str, inputs: Sequence[ParameterInfo],
            outputs: Sequence[ParameterInfo], dtypes: Sequence[np.dtype]) -> Function:
    names = [p.name for p in inputs]
    if callable(body.text):
        function = parse(body.text)
        raw = [o.name for o in outputs if o.raw]
        _check_parameters(function, name, [*names, *raw])
    else:
        function = _python_body(body.text, name, [*names, *(o.name for o in outputs)],
                                [o.name for o in outputs if not o.raw])
    plain = [(o, d) for o, d in zip(outputs, dtypes[len(inputs):], strict=True)
             if not o.raw]
    if len(function.results) != len(plain):
        raise DefinitionError(f"{name}: the body gives {len(function.results)} values "
                              f"for the outputs {', '.join(o.name for o, _ in plain)}")
    params = _with_index((*names, *(o.name for o in outputs)))
    types = dict(zip(params, dtypes, strict=False))
    check_real(function, name, [(o.name, d) for o, d in plain], types)

    def build(b: Builder) -> tuple[Value, ...]:
        results = b.call(function, *function.params)
        return tuple(b.let("cast", r, stem=o.name, attr=d.name)
                     for r, (o, d) in zip(results, plain, strict=True))

    return compose(name, params, build)


def check_real(function: Function, name: str, targets: Sequence[tuple[str, np.dtype]],
               types: Mapping[str, np.dtype]) -> None:
    """Refuse a conversion that drops an imaginary part."""
    if all(d.kind == "c" for _, d in targets):
        return
    found = result_types(function, tuple(types.get(p, _INT64) for p in function.params))
    for (target, dtype), given in zip(targets, found, strict=True):
        if given.kind == "c" and dtype.kind != "c":
            raise KernelTypeError(f"{name}: the body gives {given} for '{target}', "
                                  f"which is {dtype}; take .real or .imag")


def _check_parameters(function: Function, name: str, names: Sequence[str]) -> None:
    """Refuse a Python body with other parameters than the inputs, `i` and `n`."""
    missing = [p for p in function.params if p not in (*names, INDEX, SIZE)]
    if missing:
        raise DefinitionError(f"{name}: the body takes {', '.join(missing)}, which is "
                              f"no parameter; there are {', '.join(names)}, and i and "
                              "n, the index and the number of points")


def _python_body(text: str, name: str, params: Sequence[str],
                 results: Sequence[str]) -> Function:
    """The scalar function of Python statements that assign the outputs."""
    text = textwrap.dedent(text).strip("\n")
    source = Source(f"<body of {name}>", text)
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        raise source.error(error.lineno or 1, f"{name}: {error.msg}") from None
    if not statements:
        raise ScalarSyntaxError(f"{name}: the body is empty")
    missing = [r for r in results if r not in assigned(statements)]
    if missing:
        raise source.error(1, f"{name}: the output {missing[0]!r} is never assigned; "
                              f"write {missing[0]} = …")
    values: list[ast.expr] = [ast.Name(r, ast.Load()) for r in results]
    last = ast.copy_location(ast.Return(ast.Tuple(values, ast.Load())), statements[-1])
    return parse_tree(name, _with_index(params), [*statements, last], source)


def _with_index(params: Sequence[str]) -> tuple[str, ...]:
    """The parameters, then the index and the size; an `n` of the user's hides that."""
    return (*params, *(p for p in (INDEX, SIZE) if p not in params))


def typed_text(function: Function, dtypes: Sequence[np.dtype],
               raw: frozenset[str]) -> str:
    """The text that runs for parameters of these dtypes, and integers after them.

    `raw` are those that are arrays.
    """
    ranks = {str(s.args[0]): len(s.args) - 1 - (
        0 if s.op == "load" else 2 if s.attr == "cas" else 1)
             for s in walk(inline(function).body)
             if isinstance(s, Let) and s.op in ACCESSES}
    rest = len(function.params) - len(dtypes)
    typed = pointwise(function, (*dtypes, *[Weak("int")] * rest), raw)
    arguments: dict[str, str | Raw] = dict(zip(function.params, function.params,
                                               strict=True))
    arguments |= {
        p: Raw(p, tuple(f"{p}_stride{k}" for k in range(ranks[p])), d)
        for p, d in zip(function.params, dtypes, strict=False) if p in ranks}
    results = [f"r{k}" for k in range(len(function.results))]
    return "\n".join(statements(typed, arguments, results))
