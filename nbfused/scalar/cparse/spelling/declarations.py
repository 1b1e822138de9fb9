"""Declarations of types and templates: ``template``, ``typedef``, ``using``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .structs import read_members

if TYPE_CHECKING:
    from .respelling import Text

__all__ = ["CHOOSING", "read_template", "read_typedef", "read_using"]

#: What chooses among templates, with the way out.
CHOOSING = {word: f"{what} (write one template that chooses by if constexpr "
                   "(std::is_same<T, float>::value))" for word, what in (
    ("enable_if", "enable_if"), ("enable_if_t", "enable_if_t"),
    ("requires", "a requires clause"), ("concept", "a concept"))}


def read_using(text: Text) -> None:
    """``using A = B`` is ``typedef B A``."""
    text.at += 1
    name = text.take()
    if text.peek() != "=":
        raise text.error(f"'using {name}': this is")
    text.take()
    found = text.typename() or text.conditional()
    if found is None:
        raise text.error(f"'using {name} = {text.peek()}': this is")
    text.spelling.defined.add(name)
    text.out.append(f"typedef {found} {name}")


def read_template(text: Text) -> None:
    """Parse ``template<typename T, …>``: its names are types from here on."""
    ahead = 0
    while text.peek(ahead) not in ("{", ";", ""):
        if text.peek(ahead) in CHOOSING:
            raise text.error(f"{CHOOSING[text.peek(ahead)]}: this is")
        ahead += 1
    text.at += 1
    text.expect("<")
    params: dict[str, str | None] = {}
    while text.peek() != ">":
        of = None if text.peek() in ("typename", "class") else text.typename()
        if of is None and text.take() not in ("typename", "class"):
            raise text.error("a template parameter that is no type and no integer "
                             "is")
        if of is not None and text.is_type(text.peek()):
            raise text.error(f"the template parameter {text.peek()!r}, which is "
                             "the name of a type as well, is")
        params[text.take()] = of
        if text.peek() not in (",", ">"):
            raise text.error("a template parameter that has a value by default is")
        if text.peek() == ",":
            text.take()
    text.take()
    if not params:
        raise text.error("a template that is written again for some types (choose "
                         "by if constexpr (std::is_same<T, float>::value)) is")
    text.spelling.types.update(n for n, of in params.items() if of is None)
    text.header = params


def read_typedef(text: Text) -> None:
    """The name before the semicolon is a type from here on."""
    if text.peek(1) == "struct" and "{" in (text.peek(2), text.peek(3)):
        return _named_struct(text)
    words: list[str] = []
    while text.peek(len(words)) not in (";", ""):
        words.append(text.peek(len(words)))
    text.spelling.defined.update(words[-1:])
    text.out.append(text.take())
    return None


def _named_struct(text: Text) -> None:
    """``typedef struct { … } P`` is ``struct P { … }``."""
    at, depth = text.at, 0
    while at < len(text.tokens) and (depth != 1 or text.tokens[at][1] != "}"):
        depth += {"{": 1, "}": -1}.get(text.tokens[at][1], 0)
        at += 1
    at += 1
    while at < len(text.tokens) and text.tokens[at][0] == "space":
        at += 1
    if at >= len(text.tokens) or text.tokens[at][0] != "word":
        raise text.error("a typedef of a struct without a name is")
    name, text.tokens[at] = text.tokens[at][1], ("space", "")
    text.take()
    text.take()
    if text.peek() != "{":
        text.take()
    read_members(text, name, {})
