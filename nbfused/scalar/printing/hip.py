"""Typed scalar functions as C++ statements for HIP.

The text calls what is in ``rocm/hip/numbers.h`` and nothing else.  Names are the
source's own where C++ allows them, and the lines of the source are comments.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..ir.nodes import Let, Literal, Value
from ..language.formats import c_string
from ..typing.promotion import dtype_named
from ..typing.types import Typed
from .hip_operations import (
    bits,
    cast,
    ctype,
    decode,
    encode,
    expression,
    literal,
    storage_type,
    stored,
)
from .printer import Printer, Raw, bare, suffix

__all__ = ["Raw", "cast", "ctype", "decode", "encode", "literal", "statements",
           "storage_type", "stored"]

_WORD = re.compile(r"[^\W\d]\w*")
#: What macros are called, and what only compilers may define.
_SUSPECT = re.compile(r"[A-Z][A-Z0-9_]*$|_|.*__")
#: Words of C++20, lowercase macros, and what the text itself refers to.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const consteval constexpr constinit const_cast
    continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true
    try typedef typeid typename typeof union unsigned using virtual void volatile
    wchar_t while xor xor_eq linux unix i386 errno stdin stdout stderr nbf
    threadIdx blockIdx blockDim gridDim warpSize
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
"""
_WIDTH = 88
#: By what is to wait, or to be waited for no longer.
_BARRIERS = {"block": "__syncthreads()", "warp": "nbf::sync_wave()",
             "leave": "nbf::leave()"}


def statements(typed: Typed, arguments: Mapping[str, str | Raw],
               results: Sequence[str], *, prefix: str = "",
               declare: bool = True) -> list[str]:
    """C++ statements that compute a function.

    Parameters
    ----------
    typed : Typed
        What `types.specialize` made of it.
    arguments : mapping
        For each parameter that is read, the text of a value in its computing dtype,
        or a `Raw` array.
    results : sequence of str
        Names for the results, values in the computing dtypes of ``typed.results``.
    prefix : str
        Begins every local name.
    declare : bool
        The results are declared; otherwise they are variables that are assigned.

    Returns
    -------
    list of str
        Lines without base indentation; nested blocks are indented by 2.

    Examples
    --------
    >>> import numpy as np
    >>> from nbfused.scalar.parse.functions import parse
    >>> from nbfused.scalar.typing.types import specialize
    >>> f = specialize(parse(lambda x: x*x + 1), (np.dtype("float32"),))
    >>> [line for line in statements(f, {"x": "p[i]"}, ["y"]) if line[:2] != "//"]
    ['const float x = p[i];', 'const float y = (x * x) + 1.0f;']
    """
    printer = _Printer(typed, arguments, results, prefix)
    yields = [bare(y) for y in printer.block(typed.function.body)]
    if not declare:
        if results:
            printer.move(results, yields)
        return printer.lines
    for name, dtype, text in zip(results, typed.results, yields, strict=True):
        printer.run(f"const {ctype(dtype)} {name} = {text}")
    return printer.lines


def _words(texts: Iterator[str | Raw]) -> Iterator[str]:
    """The identifiers in what is given: a local of such a name would hide it."""
    for text in texts:
        for part in (text,) if isinstance(text, str) else (text.pointer, *text.strides):
            yield from _WORD.findall(part)


class _Printer(Printer):
    """Declarations, and blocks in braces."""

    step = "  "

    def __init__(self, typed: Typed, arguments: Mapping[str, str | Raw],
                 results: Sequence[str], prefix: str) -> None:
        self.pyfile, self.at, self.shown = typed.function.pyfile, 0, 0
        taken = {*_WORDS.split(), *_words(iter((*arguments.values(), *results)))}
        super().__init__(typed, arguments, prefix, taken)

    def local(self, name: str) -> str:
        """ASCII, and no name that a macro may have."""
        ascii_ = "".join(c if c.isascii() else f"u{ord(c):x}" for c in name)
        if not _SUSPECT.match(ascii_):
            return ascii_
        return "v" + re.sub("_+", "_", f"_{ascii_}_")

    literal = staticmethod(literal)
    decode = staticmethod(decode)
    encode = staticmethod(encode)

    def repeats(self, op: str, dtype: np.dtype) -> bool:
        """Never: functions take what would be repeated."""
        return False

    def expression(self, s: Let) -> str:
        """An operation; the exponent of a power by a known one is its parameter."""
        args = [self.value(v) for v in s.args]
        dtype = self.dtype(s.args[-1])
        if s.op == "cast":
            return cast(dtype, dtype_named(str(s.attr)), args[0])
        if s.op == "bits":
            return bits(dtype_named(str(s.attr)), args[0])
        if s.op == "powi" and isinstance(s.args[1], Literal):
            return f"nbf::power<{s.args[1].text}>({bare(args[0])})"
        return expression(s.op, dtype, args)

    # Lines -------------------------------------------------------------------------

    def let(self, s: Let, inline: set[str]) -> None:
        """Write a statement, under the line that it comes from."""
        self.at = s.line or self.at
        if s.results and not self.reads[s.results[0]] and s.op == "atomic":
            return self.run(self.atomic(s))
        return super().let(s, inline)

    def code(self, text: str) -> None:
        """A line, and before it the source's if that is another one now."""
        if self.at != self.shown:
            self.shown = self.at
            source = linecache.getline(self.pyfile, self.at).strip()
            comment = f"// {self.at}: {source}".encode("ascii", "replace").decode()
            if source:
                self.line(comment[:_WIDTH].rstrip("\\ "))
        self.line(text)

    def declared(self, name: str, head: str, tail: str) -> str:
        local = self.name(name)
        self.code(f"{head}{ctype(self.dtypes[name])} {local}{tail};")
        return local

    def constant(self, name: str, text: str) -> str:
        """A constant."""
        return self.declared(name, "const ", f" = {text}")

    def variable(self, name: str, text: str | None = None) -> str:
        """A variable, perhaps without a value."""
        return self.declared(name, "", "" if text is None else f" = {bare(text)}")

    def move(self, targets: Sequence[str], values: Sequence[str]) -> None:
        """One after the other; what an earlier one overwrites is kept first."""
        moved: list[str] = []
        for k, text in enumerate(values):
            if set(targets[:k]).intersection(_WORD.findall(text)):
                kept = self.name("next")
                self.code(f"const auto {kept} = {bare(text)};")
                text = kept
            moved.append(text)
        for target, text in zip(targets, moved, strict=True):
            self.code(f"{target} = {bare(text)};")

    def run(self, text: str) -> None:
        """A statement."""
        self.code(f"{text};")

    def open_if(self, condition: str) -> None:
        """Print an ``if``."""
        self.code(f"if ({condition}) {{")

    def open_else(self) -> None:
        """In the line of the brace that ends the other side."""
        self.lines.pop()
        self.line("} else {")

    def open_for(self, index: str, count: str) -> None:
        """``for``."""
        self.code(f"for (int64_t {index} = 0; {index} < {count}; ++{index}) {{")

    def open_while(self, condition: str) -> None:
        """``while``."""
        self.code(f"while ({condition}) {{" if condition else "for (;;) {")

    def leave_unless(self, condition: str) -> None:
        """``break``."""
        self.line(f"if (!{condition}) break;")

    def close(self, empty: bool) -> None:
        """A brace."""
        self.line("}")

    # Memory ------------------------------------------------------------------------

    def call(self, function: str, *args: str) -> str:
        """In our namespace."""
        return f"nbf::{function}({', '.join(args)})"

    def place(self, raw: Raw, offset: str) -> str:
        """A pointer."""
        return raw.pointer if offset == "0" else f"{raw.pointer} + {offset}"

    def atomic_add(self, s: Let) -> None:
        """The old value is not used."""
        raw = self.raw[str(s.args[0])]
        *indices, value = (self.value(v) for v in s.args[1:])
        self.run(self.call(f"fetch_add{suffix(raw.dtype)}",
                           self.place(raw, raw.offset(indices)), bare(value)))

    def formatted(self, text: str, args: Sequence[str],
                  dtypes: Sequence[np.dtype]) -> str:
        """A macro; 64-bit integers are as long as their format says."""
        wide = {np.dtype(np.int64): "long long", np.dtype(np.uint64):
                "unsigned long long"}
        values = [f"static_cast<{wide[d]}>({a})" if d in wide else a
                  for a, d in zip(args, dtypes, strict=True)]
        return f"NBF_PRINT({', '.join([c_string(text), *values])})"

    def barrier(self, s: Let) -> None:
        """Wait for the block or the wave, or let others no longer wait."""
        self.run(_BARRIERS[str(s.attr)])

    def reserve(self, name: str, dtype: np.dtype, count: int) -> str:
        """A local array; C++ has none without elements."""
        local = self.name(name)
        self.code(f"{storage_type(dtype)} {local}[{max(count, 1)}];")
        return local

    def buffer_add(self, s: Let) -> None:
        """Integers wrap around."""
        entry, value = self.entry(s), self.value(s.args[2])
        self.run(f"{entry} = {bare(self.sum(s.args[0], entry, value))}")

    def sum(self, buffer: Value, a: str, b: str) -> str:
        """``a + b`` as `buffer` holds it."""
        return expression("add", self.dtype(buffer), [a, b])
