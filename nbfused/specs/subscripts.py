"""Subscripts of a contraction: ``"...mk,...kn->...mn"``, read and classified."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..errors import ShapeError
from ..support.records import record

__all__ = ["Bound", "Subscripts", "parse_subscripts"]

Labels = tuple[str, ...]
Shape = tuple[int, ...]
ELLIPSIS = "..."


@record(frozen=True)
class Bound:
    """Subscripts with ``...`` spelled out for two shapes.

    Labels are letters, and ``"...0"``, ``"...1"``, … for the axes that the ellipsis
    stands for, counted from the front of the broadcast batch shape.

    Attributes
    ----------
    a, b, out
        Labels of each operand's axes.
    batch, m, n, k
        Labels by role: in both operands and the result, in `a` and the result, in
        `b` and the result, in both operands only.  Batch, `m` and `n` in the order
        of the result, `k` in the order of `a`.
    extents
        The extent of every label.
    """

    a: Labels
    b: Labels
    out: Labels
    batch: Labels
    m: Labels
    n: Labels
    k: Labels
    extents: dict[str, int]


@record(frozen=True)
class Subscripts:
    """Labels of two operands and a result; ``"..."`` marks the batch axes."""

    text: str
    a: Labels
    b: Labels
    out: Labels

    def bind(self, a: Shape, b: Shape, names: Sequence[str] | None = None) -> Bound:
        """Spell out ``...`` and look up every extent.

        Raises
        ------
        ShapeError
            An operand has the wrong number of dimensions, or a label two extents.
        """
        first, second = ("'a'", "'b'") if names is None else (
            f"'{names[0]}'", f"'{names[1]}'")
        spread = max(self._spread(self.a, a, first), self._spread(self.b, b, second))
        labels_a = _spell(self.a, len(a), spread)
        labels_b = _spell(self.b, len(b), spread)
        out = _spell(self.out, spread + len(self.out) - 1, spread)
        extents = dict(zip(labels_a, a, strict=True))
        for label, extent in zip(labels_b, b, strict=True):
            known = extents.setdefault(label, extent)
            if known == 1 and label.startswith(ELLIPSIS):
                extents[label] = extent
            elif known != extent and not (extent == 1 and label.startswith(ELLIPSIS)):
                raise self._clash(label, (first, a, known), (second, b, extent))
        batch, m, n, k = _roles(labels_a, labels_b, out)
        return Bound(labels_a, labels_b, out, batch, m, n, k, extents)

    def _spread(self, labels: Labels, shape: Shape, name: str) -> int:
        """The number of axes that the ellipsis of an operand stands for."""
        spread = len(shape) - len(labels)
        if ELLIPSIS in labels:
            spread += 1
        if spread < 0 or (spread and ELLIPSIS not in labels):
            least = "at least " if ELLIPSIS in labels else ""
            count = sum(label != ELLIPSIS for label in labels)
            raise ShapeError(
                f"{name} of shape {shape} has {len(shape)} dimensions, but "
                f"'{''.join(labels)}' in subscripts '{self.text}' needs {least}"
                f"{count}; reshape it or change the subscripts")
        return spread

    def _clash(self, label: str, first: tuple[str, Shape, int],
               second: tuple[str, Shape, int]) -> ShapeError:
        what = ("batch axis" if label.startswith(ELLIPSIS)
                else f"subscript '{label}'")
        return ShapeError(
            f"{what} of '{self.text}' is {first[2]} in {first[0]} of shape {first[1]} "
            f"and {second[2]} in {second[0]} of shape {second[1]}; expected equal "
            "extents" + (" or 1" if what == "batch axis" else "")
            + ", transpose or reshape one of them")


@lru_cache(maxsize=1024)
def parse_subscripts(text: str) -> Subscripts:
    """Read ``"mk,kn->mn"``.

    Labels are single letters; ``...`` stands for any number of batch axes that
    broadcast.  Every label of an operand is in the other operand or in the result,
    and no operand has a label twice.

    Raises
    ------
    ShapeError
        The text is not of this form.
    """
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    operands = left.split(",")
    if not arrow or len(operands) != 2 or "," in right:
        raise ShapeError(f"subscripts '{text}' must have two operands and a result, "
                         "as in 'mk,kn->mn'")
    a, b, out = (_labels(part, text) for part in (*operands, right))
    _check_labels(text, a, b, out)
    return Subscripts(compact, a, b, out)


def _labels(part: str, text: str) -> Labels:
    head, dots, tail = part.partition(ELLIPSIS)
    labels = (*head, *([ELLIPSIS] if dots else []), *tail)
    for label in labels:
        if label != ELLIPSIS and not (label.isascii() and label.isalpha()):
            raise ShapeError(f"subscripts '{text}' contain '{label}'; expected letters "
                             "and at most one '...' for each operand")
        if labels.count(label) > 1:
            raise ShapeError(
                f"subscripts '{text}' name '{label}' twice in '{part}'; take the "
                "diagonal first, or give the axes different letters")
    return labels


def _check_labels(text: str, a: Labels, b: Labels, out: Labels) -> None:
    for label in out:
        if label not in a and label not in b:
            raise ShapeError(f"subscripts '{text}': '{label}' of the result is in "
                             "neither operand; broadcast the result afterwards")
    for labels, other in ((a, b), (b, a)):
        for label in labels:
            if label not in out and (label not in other or label == ELLIPSIS):
                way = ("write '...' in the result too" if label == ELLIPSIS
                       else "sum that operand over it first, or keep it")
                raise ShapeError(f"subscripts '{text}': '{label}' is in "
                                 f"'{''.join(labels)}' but not in the result; {way}")


def _spell(labels: Labels, ndim: int, spread: int) -> Labels:
    """Replace ``...`` by the last axes of the broadcast batch shape."""
    if ELLIPSIS not in labels:
        return labels
    at = labels.index(ELLIPSIS)
    count = ndim - len(labels) + 1
    axes = tuple(f"{ELLIPSIS}{i}" for i in range(spread - count, spread))
    return labels[:at] + axes + labels[at + 1:]


def _roles(a: Labels, b: Labels, out: Labels,
           ) -> tuple[Labels, Labels, Labels, Labels]:
    batch = tuple(x for x in out if x in a and x in b)
    m = tuple(x for x in out if x in a and x not in b)
    n = tuple(x for x in out if x in b and x not in a)
    k = tuple(x for x in a if x in b and x not in out)
    return batch, m, n, k
