"""Kinds of programs: which values they compute with, and what is compared."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FLAVORS", "WRITES", "Flavor"]


@dataclass(frozen=True)
class Flavor:
    """What the programs of one kind have.

    Attributes
    ----------
    dtypes
        Of the arguments.
    without
        Features that they do not have.
    smooth
        Whether every floating result can be differentiated.
    orders
        How many derivatives are compared with differences (float64), or by
        `compared` alone fused with unfused.
    special
        Whether NaN, inf, -0.0 and the like are among the values.
    tensors
        Whether they also run on tensors of PyTorch.
    table
        Whether they have functions of the table of NumPy's, mostly.
    refused
        Whether the last statement is one that NumPy, or nbfused, refuses.
    weight
        How many of them there are.
    """

    dtypes: tuple[str, ...]
    without: frozenset[str] = frozenset()
    smooth: bool = False
    orders: int = 0
    special: bool = False
    tensors: bool = False
    table: bool = False
    refused: bool = False
    weight: float = 1.0


#: Features that change an array.
WRITES = frozenset({"in-place", "in-place-bits", "out", "store", "store-part"})
_EXTRA = frozenset({"fused-only", "bits", "store", "store-part", "in-place-bits"})

FLAVORS: dict[str, Flavor] = {
    "values": Flavor(("f8", "f4", "f2", "i4", "i8", "u1", "i1", "?"), weight=3),
    "floats": Flavor(("f8", "f4"), frozenset({"store-part"}), weight=2),
    "eager": Flavor(("f8", "f4", "i4", "?"), _EXTRA, weight=1),
    "integers": Flavor(("i4", "u1", "i8", "i2", "?", "u4"), weight=1),
    "complex": Flavor(("c8", "c16", "f8", "f4"), weight=0.5),
    "special": Flavor(("f8", "f4", "f2"), frozenset({"store-part", "ops"}),
                      special=True, weight=1),
    "smooth": Flavor(("f8",), WRITES | {"fused-only"}, smooth=True, orders=2,
                     weight=3),
    "written": Flavor(("f8",), frozenset({"store-part", "in-place-bits"}), smooth=True,
                      orders=2, weight=1),
    "mixed": Flavor(("f8", "f4", "f2", "i4"), WRITES | {"fused-only"}, smooth=True,
                    orders=1, weight=0.7),
    "tensors": Flavor(("f4",), frozenset({"store-part", "bits", "constant",
                                          "numpy-only"}), tensors=True, weight=1),
    "table": Flavor(("f8", "f4", "i4", "i8", "?"), table=True, weight=2),
    "table, smooth": Flavor(("f8",), WRITES | {"fused-only", "dynamic"}, smooth=True,
                            orders=2, table=True, weight=2),
    "table, written": Flavor(("f8",), frozenset({"in-place-bits", "dynamic"}),
                             smooth=True, orders=1, table=True, weight=1),
    "refused": Flavor(("f8", "f4", "i4", "?"), WRITES, refused=True, weight=1),
}
