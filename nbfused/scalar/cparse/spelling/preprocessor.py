"""C's preprocessor: comments, macros and conditions; every line keeps its number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from ....support.records import record
from ...source.definitions import Source
from .conditions import ConditionError, evaluate

__all__ = ["Macro", "Preprocessor", "Token"]

#: Kind and text: a string, space, word, number or mark.
Token = tuple[str, str]

_QUOTED = r"""(?P<string>"(\\.|[^"\\\n])*" | '(\\[^'\n]+|\\'|[^'\\\n])')"""
_COMMENT = re.compile(_QUOTED + r"| //[^\n]* | /\*.*?\*/", re.VERBOSE | re.DOTALL)
_TOKEN = re.compile(_QUOTED + r"""
    | (?P<space>\s+)
    | (?P<word>[A-Za-z_]\w*) | (?P<number>\.?\d([eEpP][+-]|[\w.])*)
    | (?P<mark>::|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||\+\+|--|->|<<|\#\#|.)
    """, re.VERBOSE | re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w*)[ \t]*(.*)", re.DOTALL)
_DEFINE = re.compile(r"(\w+)(?:\(([^)]*)\))?[ \t]*(.*)", re.DOTALL)

#: C++'s words for operators.
_ALTERNATIVE = {"and": "&&", "or": "||", "not": "!", "xor": "^", "bitand": "&",
                "bitor": "|", "compl": "~", "and_eq": "&=", "or_eq": "|=",
                "xor_eq": "^=", "not_eq": "!="}
#: Macros of compilers begin so; no compiler reads a body here.
_COMPILERS = ("__CUDA", "__NV", "__GNUC", "__clang", "__cplusplus", "_WIN",
              "_MSC", "__linux", "CUDA")


@record(frozen=True)
class Macro:
    """A macro: its text, and its parameters if it has some."""

    body: tuple[Token, ...]
    params: tuple[str, ...] | None = None


@record
class _Branch:
    """An ``#if`` that is open.

    Attributes
    ----------
    line
        Where it begins.
    active
        Whether the text that follows is read.
    done
        Whether no further branch is.
    last
        Whether its ``#else`` was there.
    """

    line: int
    active: bool
    done: bool
    last: bool = False


@record
class Preprocessor:
    """Reads one text; macros are those of the texts before, and stay.

    Attributes
    ----------
    line
        The number of the line that is read.
    branches
        Conditions that are open, the innermost last.
    """

    source: Source
    macros: dict[str, Macro]
    line: int = 1
    branches: list[_Branch] = field(default_factory=list)

    def tokens(self) -> list[Token]:
        """Every token; a macro stands for its text from its line on."""
        found: list[Token] = []
        waiting: list[Token] = []
        for number, line in _lines(_COMMENT.sub(_blank, self.source.text)):
            directive = _DIRECTIVE.match(line)
            if directive:
                found += self._expanded(waiting)
                waiting, self.line = [], number
                self._directive(directive[1], directive[2].replace("\n", " ").strip())
            if directive or not self._active:
                waiting.append(("space", "\n" * line.count("\n")))
            else:
                waiting += _tokens(line)
            waiting.append(("space", "\n"))
        found += self._expanded(waiting)
        if self.branches:
            self.line = self.branches[-1].line
            raise self._error("#if without #endif")
        return found

    def _error(self, message: str) -> Exception:
        return self.source.error(self.line, f"{self.source.file}, line {self.line}: "
                                            f"{message}")

    @property
    def _active(self) -> bool:
        return all(b.active for b in self.branches)

    # Directives --------------------------------------------------------------------

    def _directive(self, name: str, rest: str) -> None:
        if name in ("if", "ifdef", "ifndef"):
            active = self._active and self._condition(name, rest)
            self.branches.append(_Branch(self.line, active,
                                         active or not self._active))
        elif name in ("elif", "else", "endif"):
            self._next_branch(name, rest)
        elif self._active:
            self._statement(name, rest)

    def _next_branch(self, name: str, rest: str) -> None:
        """Parse ``#elif``, ``#else`` and ``#endif``."""
        if not self.branches or (name != "endif" and self.branches[-1].last):
            raise self._error(f"#{name} without #if")
        branch = self.branches[-1]
        if name == "endif":
            self.branches.pop()
            return
        branch.last = name == "else"
        branch.active = not branch.done and (
            branch.last or self._condition("if", rest))
        branch.done = branch.done or branch.active

    def _condition(self, name: str, rest: str) -> bool:
        """True if a condition holds."""
        if name != "if":
            return self._defined(rest) == (name == "ifdef")
        words = [t for t in _tokens(rest) if t[0] != "space"]
        found: list[Token] = []
        while words:
            token = words.pop(0)
            if token == ("word", "defined"):
                count = 3 if words and words[0][1] == "(" else 1
                operand, words = words[:count], words[count:]
                token = "number", str(int(self._defined(
                    operand[count // 2][1] if len(operand) == count else "")))
            found.append(token)
        found = self._expanded(found)
        for kind, text in found:
            if kind == "word":
                self._check_own(text)
        try:
            return bool(evaluate([t for kind, t in found if kind != "space"]))
        except ConditionError as error:
            raise self._error(f"#if: {error}; write a condition on integers that are "
                              "known") from None

    def _defined(self, name: str) -> bool:
        if not name.isidentifier():
            raise self._error(f"the name of a macro is expected, got {name!r}")
        if name not in self.macros:
            self._check_own(name)
        return name in self.macros

    def _check_own(self, name: str) -> None:
        """Refuse a macro that a compiler would define: each would another.

        Bodies mean what they mean to CUDA, for which those of HIP are undefined.
        """
        if name.startswith(_COMPILERS):
            raise self._error(f"{name} is a macro of a compiler, which reads no body "
                              "here; keep the branch that is meant, or #define it in "
                              "the preamble")

    def _statement(self, name: str, rest: str) -> None:
        """Parse ``#define`` and ``#undef``; drop ``#pragma`` and ``#include``."""
        if name == "define":
            self._define(rest)
        elif name == "undef":
            self.macros.pop(rest, None)
        elif name == "error":
            raise self._error(f"#error {rest}")
        elif name not in ("pragma", "include", ""):
            raise self._error(f"#{name} is not understood here; there are #define, "
                              "#undef, #if, #ifdef, #ifndef, #elif, #else, #endif")

    def _define(self, rest: str) -> None:
        found = _DEFINE.fullmatch(rest)
        if found is None or not found[1].isidentifier():
            raise self._error("#define takes a name, its parameters in parentheses "
                              f"and a text, got {rest!r}")
        params = None
        if found[2] is not None:
            params = tuple(p.strip() for p in found[2].split(",")) \
                if found[2].strip() else ()
            if not all(p.isidentifier() for p in params):
                raise self._error(f"#define {found[1]}({found[2]}): macros with any "
                                  "number of arguments are not understood here; name "
                                  "the parameters")
        body = tuple(_tokens(found[3].strip()))
        if params is not None and ("mark", "#") in body:
            raise self._error("# makes a string of an argument, which has no place in "
                              "a kernel; leave it out")
        self.macros[found[1]] = Macro(body, params)

    # Macros ------------------------------------------------------------------------

    def _expanded(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with macros replaced, none of them inside its own text."""
        found: list[Token] = []
        waiting = [(t, frozenset[str]()) for t in reversed(tokens)]
        start = self.line
        while waiting:
            token, hidden = waiting.pop()
            macro = self.macros.get(token[1]) if token[0] == "word" \
                and token[1] not in hidden else None
            args = [] if macro is None or macro.params is None \
                else self._arguments(waiting, token[1], macro.params)
            if macro is None or args is None:
                found.append(token)
                self.line += token[1].count("\n") * (token[0] == "space")
                continue
            text = self._substituted(macro, args)
            waiting += [(t, hidden | {token[1]}) for t in reversed(text)]
        self.line = start
        return found

    def _arguments(self, waiting: list[tuple[Token, frozenset[str]]], name: str,
                   params: Sequence[str]) -> list[list[Token]] | None:
        """The arguments of a call, taken; None if none follows."""
        ahead = len(waiting) - 1
        while ahead >= 0 and waiting[ahead][0][0] == "space":
            ahead -= 1
        if ahead < 0 or waiting[ahead][0] != ("mark", "("):
            return None
        del waiting[ahead:]
        args: list[list[Token]] = [[]]
        depth, lines = 1, 0
        while waiting and depth:
            token, _ = waiting.pop()
            depth += {"(": 1, ")": -1}.get(token[1], 0) * (token[0] == "mark")
            lines += token[1].count("\n")
            if token == ("mark", ",") and depth == 1:
                args.append([])
            elif depth:
                args[-1].append(("space", " ") if token[0] == "space" else token)
        if depth:
            raise self._error(f"{name}(: the closing parenthesis is missing")
        if lines:
            waiting.append((("space", "\n" * lines), frozenset()))
        args = [_stripped(a) for a in args]
        args = [] if not params and args == [[]] else args
        if len(args) != len(params):
            raise self._error(f"the macro {name}() takes {len(params)} arguments, got "
                              f"{len(args)}")
        return args

    def _substituted(self, macro: Macro, args: Sequence[list[Token]]) -> list[Token]:
        """The text of a macro with its arguments in it."""
        given = dict(zip(macro.params or (), args, strict=True))
        found: list[Token] = []
        body = list(macro.body)
        for k, token in enumerate(body):
            if token == ("mark", "##"):
                continue
            joined = [_neighbour(body, k, step) == ("mark", "##") for step in (-1, 1)]
            text = [token] if token[1] not in given or token[0] != "word" else \
                given[token[1]] if any(joined) else self._expanded(given[token[1]])
            if joined[0]:
                while found and found[-1][0] == "space":
                    found.pop()
                last = found.pop()[1] if found else ""
                text = [*_tokens(last + text[0][1]), *text[1:]] if text else \
                    [*_tokens(last)]
            if not (token[0] == "space" and any(joined)):
                found += text
        return found


def _neighbour(body: Sequence[Token], at: int, step: int) -> Token | None:
    """The next token that is no space, to one side."""
    at += step
    while 0 <= at < len(body) and body[at][0] == "space":
        at += step
    return body[at] if 0 <= at < len(body) else None


def _stripped(tokens: list[Token]) -> list[Token]:
    """Tokens without space around them."""
    while tokens and tokens[0][0] == "space":
        tokens = tokens[1:]
    while tokens and tokens[-1][0] == "space":
        tokens = tokens[:-1]
    return tokens


def _blank(found: re.Match[str]) -> str:
    """A comment without its text, or a string as it is."""
    return found["string"] or " " + "\n" * found[0].count("\n")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbers and texts of lines; one that ends by a backslash goes on in the next."""
    number = 1
    for line in re.findall(r"(?:\\\n|[^\n])*+\n|(?:\\\n|[^\n])++", text):
        yield number, line.removesuffix("\n").replace("\\\n", " \n")
        number += line.count("\n")


def _tokens(text: str) -> Iterator[Token]:
    """Kind and text of every token."""
    for found in _TOKEN.finditer(text):
        kind, token = str(found.lastgroup), found[0]
        if kind == "word" and token in _ALTERNATIVE:
            kind, token = "mark", _ALTERNATIVE[token]
        yield kind, token
