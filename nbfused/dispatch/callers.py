"""Generated functions that call a spec with arguments of given types.

It reads the arguments by the libraries' own texts (`arrays.Reading`), looks up what was
prepared for such ones, compares addresses where outputs were given, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache, lru_cache
from typing import Any

from ..arrays import Reading, reading_of
from ..config import config
from ..registry.backends import registry
from ..support.records import record
from .prepared_call import PreparedCall

__all__ = ["Caller", "key_of", "make_caller"]

Types = tuple[type, ...]


@record(frozen=True)
class Caller:
    """The generated call of a spec for some argument types, and its prepared calls.

    Attributes
    ----------
    call
        ``call(inputs, outs, dtypes, casting, checked, like, run)``: the results that
        were made, None in place of those that were given.  Not `run`: the key of the
        arguments, the addresses of the arrays, the numbers.  None where nothing is
        prepared, outputs may overlap inputs, or only `describe` can tell.
    direct
        ``direct(*outs, *inputs)``: what `call` gives for the usual options.
    prepared
        Earlier calls, by what decides how they run.
    """

    call: Callable[..., Any]
    direct: Callable[..., Any]
    prepared: dict[tuple[Any, ...], PreparedCall] = field(default_factory=dict)


def make_caller(kinds: tuple[str, ...], types: Types, outs: Types | None,
                ) -> Caller | None:
    """Generate the caller; None if arguments have to be described.

    Parameters
    ----------
    kinds
        Of the inputs: ``"scalar"`` is a number.
    types
        Of the inputs.
    outs
        Types of the outputs that were given, NoneType for one that was not.
    """
    found = _text(kinds, types, outs)
    if found is None:
        return None
    text, names = found
    prepared: dict[tuple[Any, ...], PreparedCall] = {}
    space = {**names, "config": config, "registry": registry, "prepared": prepared,
             "restricted": registry.restricted.get}
    exec(compile(text, "<nbfused call>", "exec"), space)
    return Caller(space["call"], space["direct"], prepared)


@cache
def key_of(kind: type) -> Callable[[Any], Any] | None:
    """A function that reads the cache key of an array; None if its type has none."""
    reading = reading_of(kind, False)
    if reading is None:
        return None
    lines = ["def key(x):", *(f"    {line}" for line in (
        *_conditions([reading]), *_read("x", reading))),
             f"    return ({_listed([part.format(x='x') for part in reading.key])})"]
    space = dict(reading.names)
    exec(compile("\n".join(lines), "<nbfused key>", "exec"), space)
    made: Callable[[Any], Any] = space["key"]
    return made


#: What the key has besides the arguments; settings that a launcher chooses by are bound
#: with the launch.
_COMMON = ("restricted() or registry.epoch", "config.debug", "config.deterministic",
           "config.autotune")

#: How a call is asked for, and how most are.
_ASKED = "(dtypes, casting, checked, like)"
_USUAL = "(None, 'same_kind', False, None)"

#: Most calls are like the last one: comparing keys takes half as long as a look-up.
_TEXT = """\
last = None, None

def call(inputs, outs, dtypes, casting, checked, like, run):
    try:
{read}
        key = ({key} {asked})
        found = prepared.get(key)
    except Exception:  # of many kinds, from many libraries: a closer look will tell
        return None
    pointers = ({pointers})
    if not run:
        return key, pointers, ({scalars})
    if found is None:
        return None
    for out, other, low, high, exact in found.pairs:
        distance = pointers[other] - pointers[out]
        if low < distance < high and not (exact and distance == 0):
            return None
    return found.start(pointers, ({scalars}))

def direct({names}):
    global last
    try:
{straight}
        key = ({key} {usual})
        known, found = last
        if key != known:
            found = prepared.get(key)
            if found is None:
                return None
            last = key, found
    except Exception:
        return None
    pointers = ({pointers})
    for out, other, low, high, exact in found.pairs:
        distance = pointers[other] - pointers[out]
        if low < distance < high and not (exact and distance == 0):
            return None
    return found.start(pointers, ({scalars}))
"""

#: An output that was not given.
_ABSENT = Reading("0")


@lru_cache(maxsize=1024)
def _text(kinds: tuple[str, ...], types: Types, outs: Types | None,
          ) -> tuple[str, dict[str, Any]] | None:
    """The source of the generated function, and the names that it uses."""
    numbers = [kind == "scalar" for kind in kinds]
    readings = [reading_of(t, n) for t, n in zip(types, numbers, strict=True)]
    readings += [_ABSENT if t is type(None) else reading_of(t, False)
                 for t in outs or ()]
    numbers += [False for _ in outs or ()]
    if None in readings:
        return None
    given = [f"x{k}" for k in range(len(types))]
    places = [f"y{k}" for k in range(len(outs or ()))]
    lines = _conditions(readings)
    parts: list[str] = []
    for x, reading, number in zip([*given, *places], readings, numbers, strict=True):
        assert reading is not None
        lines += _read(x, reading)
        parts += [part.format(x=x) for part in reading.key]
        if not number and reading is not _ABSENT:
            parts.append(f"p_{x} & 15")  # it decides how elements are accessed
    values = [f"p_{x}" for x in (*given, *places)]
    names = dict(pair for reading in readings if reading for pair in reading.names)
    unpacked = _unpacked(given, "inputs") + _unpacked(places, "outs")
    return _TEXT.format(
        read=_indented([*unpacked, *lines]), straight=_indented(lines),
        names=", ".join((*places, *given)), asked=_ASKED, usual=_USUAL,
        key=_listed((*_COMMON, *parts)),
        pointers=_listed([v for v, n in zip(values, numbers, strict=True) if not n]),
        scalars=_listed([v for v, n in zip(values, numbers, strict=True) if n])), names


def _unpacked(names: Sequence[str], whole: str) -> list[str]:
    return [f"{_listed(names)} = {whole}"] if names else []


def _indented(lines: Sequence[str]) -> str:
    return "\n".join("        " + line for line in lines or ["pass"])


def _listed(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names).rstrip()


def _conditions(readings: Sequence[Reading | None]) -> list[str]:
    """Lines that give up if a reading does not apply to its argument."""
    found = dict.fromkeys(r.unless_now for r in readings if r and r.unless_now)
    return [f"if {condition}: return None" for condition in found]


def _read(x: str, reading: Reading) -> list[str]:
    lines = [f"if {reading.unless}: return None", reading.first,
             f"p_{{x}} = {reading.value}"]
    skipped = {"if : return None", ""}
    return [line.format(x=x) for line in lines if line not in skipped]
