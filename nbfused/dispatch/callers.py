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
from ..support.generated import define
from ..support.records import record
from .allocation import OUT_OF_MEMORY
from .launches import LAUNCHES
from .prepared_call import PreparedCall

__all__ = ["RESTRICTED", "USUAL", "ArgumentReader", "Caller", "Headers", "LayoutReader",
           "key_of", "layout_reader", "make_caller", "read_arguments", "read_layouts"]

Types = tuple[type, ...]
#: The backends that calls are restricted to at present, by `use_backend`; else None.
RESTRICTED = registry.restricted.get


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
        ``direct(*outs, *inputs, asked, last)``: what `call` gives for the options
        `asked`; `last` is a list of the key and the call that came last.
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
             "restricted": registry.restricted.get, "traced": LAUNCHES.get,
             "OUT_OF_MEMORY": OUT_OF_MEMORY}
    define(text, "call", space)
    return Caller(space["call"], space["direct"], prepared)


@cache
def key_of(kind: type) -> Callable[[Any], Any] | None:
    """A function that reads the key of an array of a type; None if it has none.

    The key says what else decides about a view: the type, and the backends.
    """
    reading = reading_of(kind, False)
    if reading is None:
        return None
    parts = [part.format(x="x") for part in reading.key]
    lines = ["def key(x):", *(f"    {line}" for line in (
        *_conditions([reading]), *_read("x", reading))),
             f"    return ({_listed([_COMMON[0], 'kind', *parts])})"]
    space = {**dict(reading.names), "registry": registry, "kind": kind,
             "restricted": registry.restricted.get}
    define("\n".join(lines), "key", space)
    made: Callable[[Any], Any] = space["key"]
    return made


#: ``headers(kind, ranks)`` of a backend: see `backend.Backend`.
Headers = Callable[[type, Sequence[int]], Any]

#: ``read(arrays)``: the key of their layouts, and their addresses.
LayoutReader = Callable[[Sequence[Any]], tuple[Any, tuple[int, ...]] | None]


def layout_reader(types: Types, ranks: Sequence[int],
                  headers: Headers | None) -> LayoutReader | None:
    """A function that reads arrays of these types; None if there is none.

    It gives None where only `describe` can tell.

    Parameters
    ----------
    ranks
        Numbers of dimensions of the arrays, of most calls.
    headers
        See `backend.Backend`.
    """
    native = headers(types[0], ranks) if headers and len(set(types)) == 1 else None
    if native is None:
        return read_layouts(types)
    settings = _settings()

    def read(arrays: Sequence[Any]) -> tuple[Any, tuple[int, ...]] | None:
        layouts = native(arrays)
        return layouts and ((*settings(), layouts[0]), layouts[1])

    return read


#: ``read(arguments)``: their key, the addresses of arrays, and the numbers.
ArgumentReader = Callable[
    [Sequence[Any]], tuple[Any, tuple[int, ...], tuple[Any, ...]] | None]

_READER = """\
def read(arguments):
    try:
{read}
        return {results}
    except Exception:  # of many kinds, from many libraries: a closer look will tell
        return None
"""


@lru_cache(maxsize=256)
def read_layouts(types: Types) -> LayoutReader | None:
    """Generate a function that reads arrays of these types by their libraries' texts.

    None if there is none for one of them.
    """
    readings = [reading_of(kind, False) for kind in types]
    found = [reading for reading in readings if reading is not None]
    return None if len(found) < len(readings) else _reader(
        found, "({key}), ({pointers})")


def read_arguments(readings: Sequence[Reading], kinds: Sequence[str],
                   ) -> ArgumentReader:
    """Generate a function that reads arrays and numbers.

    Parameters
    ----------
    readings
        The text for each argument.
    kinds
        Of each: ``"array"``, ``"scalar"``, or ``"key"``: nothing but a part of the key.
    """
    return _reader(readings, "({key}), ({pointers}), ({numbers})", kinds)


def _reader(readings: Sequence[Reading], results: str,
            kinds: Sequence[str] | None = None) -> Any:
    given = [f"x{k}" for k in range(len(readings))]
    lines = [*_unpacked(given, "arguments"), *_conditions(readings)]
    parts = list(_COMMON)
    values: dict[str, list[str]] = {"array": [], "scalar": [], "key": []}
    for x, reading, kind in zip(given, readings, kinds or ("array",)*len(given),
                                strict=True):
        lines += _read(x, reading)
        parts += [part.format(x=x) for part in reading.key]
        parts += [f"p_{x} & 15"]*(kind == "array")
        values[kind].append(f"p_{x}")
    space: dict[str, Any] = {"config": config, "registry": registry,
                             "restricted": registry.restricted.get}
    space |= dict(pair for reading in readings for pair in reading.names)
    text = _READER.format(read=_indented(lines), results=results.format(
        key=_listed(parts), pointers=_listed(values["array"]),
        numbers=_listed(values["scalar"])))
    define(text, "read", space)
    return space["read"]


@cache
def _settings() -> Callable[[], tuple[Any, ...]]:
    """A function that gives what keys have besides the arguments."""
    space = {"config": config, "registry": registry,
             "restricted": registry.restricted.get}
    text = f"def settings(): return {_listed(_COMMON)}"
    define(text, "settings", space)
    return space["settings"]  # type: ignore[return-value]


#: What the key has besides the arguments; settings that a launcher chooses by are bound
#: with the launch.
_COMMON = ("restricted() or registry.epoch", "config.debug", "config.deterministic",
           "config.autotune")

#: How most calls are asked for: dtypes, casting, checked, like.
USUAL = (None, "same_kind", False, None)

#: Most calls are like the last one: comparing keys takes half as long as a look-up.
#: Each copy of `direct` has a `last` of its own, by `direct_call`.
_TEXT = """\
def call(inputs, outs, dtypes, casting, checked, like, run):
    try:
{read}
        key = ({key} (dtypes, casting, checked, like))
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
    try:
{straight}
        key = ({key} asked)
        known, found = last[0]
        if key != known:
            found = prepared.get(key)
            if found is None:
                return None
            last[0] = key, found
    except Exception:
        return None
    pointers = ({pointers})
    for out, other, low, high, exact in found.pairs:
        distance = pointers[other] - pointers[out]
        if low < distance < high and not (exact and distance == 0):
            return None
    new = found.new
    if new is None or traced() is not None:
        return found.start(pointers, ({scalars}))
    try:
        native = new()
    except OUT_OF_MEMORY:
        return found.start(pointers, ({scalars}))
{address}
    if address & 15:
        return found.start(pointers, ({scalars}))
    # Faster than unpacking: benchmarks/notes/host.md#what-a-launch-costs.
    found.bound(pointers + (address,), ({scalars}), found.stream())
    return (native,)
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
    own = next((r for r, n in zip(readings, numbers, strict=True)
                if r and r is not _ABSENT and not n), None)
    return _TEXT.format(
        read=_indented([*unpacked, *lines]), straight=_indented(lines),
        names=", ".join((*places, *given, "*", "asked", "last")),
        key=_listed((*_COMMON, *parts)), address=_address(own),
        pointers=_listed([v for v, n in zip(values, numbers, strict=True) if not n]),
        scalars=_listed([v for v, n in zip(values, numbers, strict=True) if n])), names


def _address(reading: Reading | None) -> str:
    """Lines that read the address of a new result, which is as the arguments are."""
    if reading is None:
        return "    address = found.address_of(native)"
    lines = [reading.first, f"address = {reading.value}"]
    return "\n".join("    " + line.format(x="native") for line in lines if line)


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
