"""Statements that are refused: by NumPy with an error, or by nbfused alone.

Where NumPy raises, nbfused has to raise an error of that class; where it computes,
nbfused's own error names what it does not take.
"""

from __future__ import annotations

from tests.fuzz.catalogue import ANY, Row

__all__ = ["REFUSALS", "words_for"]

#: Part of a statement → its feature.
_FEATURES = {"} += ": "in-place", "} /= ": "in-place", "[...] =": "store",
             "stack": "arrays"}

REFUSALS: tuple[Row, ...] = tuple(
    Row(text, kinds, ndim=ndim, features=frozenset(
        f for part, f in _FEATURES.items() if part in text)) for text, kinds, ndim in (
        ("{t} = {a} + np.zeros((7, 11))", "if", 1),
        ("{t} = np.add({a}, np.zeros((7, 11)))", "if", 1),
        ("{t} = {a}[0, 0, 0, 0, 0, 0]", ANY, 0),
        ("{t} = {a}[99]", ANY, 1),
        ("{t} = {a}['x']", "f", 1),
        ("{t} = {a}[0.5]", "f", 1),
        ("{t} = {a}[::0]", "f", 1),
        ("{t} = {a}.sum(axis=7)", "if", 0),
        ("{t} = np.max({a}, axis=-9)", "if", 0),
        ("{t} = {a}.sum(axis=(0, 0))", "if", 1),
        ("{t} = np.sum({a}, axis='x')", "if", 0),
        ("{t} = {a}.reshape(7, 11)", ANY, 0),
        ("{t} = {a}.reshape(-1, -1)", ANY, 0),
        ("{t} = {a}.transpose(0, 0)", ANY, 2),
        ("{t} = {a}.transpose(5)", ANY, 1),
        ("{t} = np.broadcast_to({a}, (7, 11, 13))", ANY, 2),
        ("{t} = np.concatenate([{a}, {a}], axis=9)", "if", 1),
        ("{t} = np.concatenate([{a}[None], {a}])", "if", 1),
        ("{t} = np.stack([{a}, {a}[None]])", "if", 1),
        ("{t} = np.squeeze(np.stack([{a}, {a}]), axis=0)", "f", 0),
        ("{t} = np.take({a}, np.array([99]), axis=0)", "if", 1),
        ("{t} = {a} @ np.zeros((7, 11))", "f", 1),
        ("{a} += 0.5", "i", 0),
        ("{a} /= 2", "i", 0),
        ("{a} += 1j", "f", 0),
        ("{a} += np.zeros((7, *{a}.shape))", "f", 0),
        ("{a}[...] = np.zeros((7, 11))", "f", 1),
        ("{t} = {a} & 1", "f", 0),
        ("{t} = {a} << 1", "f", 0),
        ("{t} = ~{a}", "f", 0),
        ("{t} = -{a}", "b", 0),
        ("{t} = {a} - {a}", "b", 0),
        ("{t} = {a} + 'text'", "f", 0),
        ("{t} = {a} + None", "f", 0),
        ("{t} = np.sin({a}, {a}, {a})", "f", 0),
        ("{t} = np.sin()", "f", 0),
        ("{t} = np.add({a})", "f", 0),
        ("{t} = {a}.astype('nonsense')", "f", 0),
        ("{t} = {a}.nonsense", "f", 0),
        ("{t} = np.exp({a}, nonsense=1)", "f", 0),
        ("{t} = np.sum({a}, nonsense=1)", "f", 0),
        ("{t} = {a} ** -1", "i", 0),
        ("{t} = {a} + 1e400 * 'x'", "f", 0),
        # NumPy computes these.
        ("{t} = {a} + [1.0]", "if", 0),
        ("{t} = [1.0] * {a}", "f", 0),
        ("{t} = np.add({a}, [1.0])", "if", 0),
        ("{t} = np.where({a} > 0, {a}, [1.0])", "f", 0),
        ("{t} = np.maximum([0.5], {a})", "f", 0),
        ("{t} = {a}[{a} > 0]", "f", 1),
        ("{t} = float({a}.sum())", "f", 0),
        ("if {a}.sum() > 0:\n    {t} = {a}", "f", 0),
    ))

#: Part of a statement that NumPy computes → what the error of nbfused must name.
_WORDS = {"[1.0]": "list", "float(": "float()", "if ": "if"}


def words_for(statement: str) -> list[str]:
    """What the error of a statement that nbfused alone refuses has to say."""
    return [word for part, word in _WORDS.items() if part in statement]
