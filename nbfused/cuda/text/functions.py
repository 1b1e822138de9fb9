"""Statements that a kernel repeats, as a function of its own.

Numba reads a function once, however often it is called, and the device's compiler puts
it back where it is called: benchmarks/notes/host.md#first-calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import kwlist

from ...support.records import record

__all__ = ["Function", "Repeated", "function_of"]


@record(frozen=True)
class Function:
    """Parameters and lines, with a ``return`` at last if there are results."""

    parameters: tuple[str, ...]
    body: tuple[str, ...]

    def text(self, name: str) -> list[str]:
        """The lines of the function as kernel text."""
        return [f"def {name}({', '.join(self.parameters)}):",
                *(f"    {line}" for line in self.body)]


@record(frozen=True)
class Repeated:
    """Statements, and the function that others like them make.

    Attributes
    ----------
    lines
        As they stand in the kernel, indented.
    function
        See `function_of`.
    arguments, results
        Texts of what it reads and names that it sets.
    called
        Functions that the lines call.
    """

    lines: tuple[str, ...]
    function: Function
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    called: tuple[Function, ...] = ()

    def call(self, name: str) -> str:
        """The line that calls the function."""
        first = self.lines[0]
        indent = first[:len(first) - len(first.lstrip())]
        results = ", ".join(self.results) + " = " if self.results else ""
        return f"{indent}{results}{name}({', '.join(self.arguments)})"

    def spared(self, times: int) -> int:
        """Lines that a function instead of so many repetitions spares."""
        return (times - 1)*len(self.lines) - times*(1 + len(self.results))


def function_of(statements: Sequence[str], results: Sequence[str],
                tuples: Sequence[str] = ()) -> tuple[Function, tuple[str, ...]] | None:
    """The function of some statements, and its arguments where they stand.

    Parameters
    ----------
    statements
        Lines.  What a branch sets for what follows it, its other side sets, too, unless
        it was read before that.
    results
        Names that they set, which the function returns.
    tuples
        Names of tuples, of which the elements that they read are one argument.

    Returns
    -------
    tuple or None
        None of statements that have to stay: shared memory, barriers, printed text,
        ``for`` loops, ``while`` loops beside a name that was set before, and those that
        read more than Python passes by itself: it makes lists of more.
    """
    if any(_ELSEWHERE.search(line) for line in statements):
        return None
    stored = {name for line in statements for name in _targets(line)}
    names = _Names(stored, _spans(statements, tuples))
    body = [names.line(line) for line in statements]
    sure = {name for line in statements if line[0] != " " for name in _targets(line)}
    body[:0] = [f"{own} = {names.read[name]}" for name, own in names.own.items()
                if name in names.read and name not in sure]
    if any(map(_LOOP.match, statements)) and not stored.isdisjoint(names.read):
        return None  # what a loop reads may be what it has set itself
    if len(names.read) > _ARGUMENTS:
        return None
    if results:
        body.append("return " + ", ".join(names.own[name] for name in results))
    return Function(tuple(names.read.values()), tuple(body)), tuple(names.read)


#: Arguments that Python passes without a list: `STACK_USE_GUIDELINE` of its compiler.
_ARGUMENTS = 30
_LOOP = re.compile(r" *while ")
_ELSEWHERE = re.compile(r"\bcuda\.(?!syncwarp\(\))|[\"']|^ *for ")
#: ``a, b = …`` and ``a += …``, with the indentation; a store to memory.
_ASSIGNED = re.compile(r"( *)(\w+(?:, \w+)*,?) (\W{0,2})= (.*)")
_STORED = re.compile(r"( *)(\w+)(\[.*\] = .*)")
#: What is read: a place some constants after another, or a name, perhaps an element of
#: it by a constant.  Functions, modules and what they have are no names.
_READ = re.compile(
    r"\((?:\((?P<inner>[a-z]\w*) \+ \d+\)|(?P<outer>[a-z]\w*)) \+ \d+\)"
    r"|(?<![\w.])(?P<name>[A-Za-z_]\w*)(?P<at>\[\d+\])?(?![\w(])")
_NOT_NAMES = frozenset([*kwlist, "cuda", "libdevice", "math"])


def _spans(statements: Sequence[str], tuples: Sequence[str]) -> dict[str, range]:
    """The elements of each tuple from the first to the last one that is read."""
    found: dict[str, range] = {}
    for name in tuples:
        element = re.compile(rf"(?<![\w.]){name}\[(\d+)\]")
        places = [int(k) for line in statements for k in element.findall(line)]
        if places:
            found[name] = range(min(places), max(places) + 1)
    return found


def _targets(line: str) -> list[str]:
    """The names that a line sets."""
    found = _ASSIGNED.fullmatch(line)
    return re.findall(r"\w+", found[2]) if found else []


class _Names:
    """Gives names by the order in which statements read and set them.

    Parameters
    ----------
    stored
        The names that the statements set.
    spans
        The elements that are one argument, by the names of tuples.

    Attributes
    ----------
    read
        The parameter of each text that is read and was not set before.
    own
        The new names of what has been set.
    """

    def __init__(self, stored: set[str], spans: Mapping[str, range]) -> None:
        self._stored, self._spans = stored, spans
        self.read: dict[str, str] = {}
        self.own: dict[str, str] = {}

    def line(self, text: str) -> str:
        """A line with new names; what it reads it reads before it sets anything."""
        found = _ASSIGNED.fullmatch(text)
        if found is None:
            if (stored := _STORED.fullmatch(text)) is not None:
                indent, memory, rest = stored.groups()
                return (indent + self._value_of(memory)
                        + _READ.sub(self._reading, rest))
            return _READ.sub(self._reading, text)
        indent, targets, operator, value = found.groups()
        if operator:  # `a = a + b` in place of `a += b`, whose target is read, too
            value = f"{targets} {operator} ({value})"
        value = _READ.sub(self._reading, value)
        for name in _targets(text):
            self.own.setdefault(name, f"v{len(self.own)}")
        targets = re.sub(r"\w+", lambda name: self.own[name[0]], targets)
        return f"{indent}{targets} = {value}"

    def _reading(self, found: re.Match[str]) -> str:
        """The new name of what is read."""
        text, name = found[0], found["name"]
        place = found["inner"] or found["outer"]
        if place:
            if place not in self._stored:
                return self._parameter(text)
            return "(" + _READ.sub(self._reading, text[1:-1]) + ")"
        if name in _NOT_NAMES:
            return text
        if name in self._stored:
            return self._value_of(name) + (found["at"] or "")
        if name in self._spans and found["at"]:
            span = self._spans[name]
            place = int(found["at"][1:-1]) - span.start
            return f"{self._parameter(f'{name}[{span.start}:{span.stop}]')}[{place}]"
        return self._parameter(text)

    def _value_of(self, name: str) -> str:
        """The new name of a variable: set before, or a parameter."""
        return self.own[name] if name in self.own else self._parameter(name)

    def _parameter(self, text: str) -> str:
        return self.read.setdefault(text, f"x{len(self.read)}")
