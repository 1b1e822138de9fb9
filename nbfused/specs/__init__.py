"""The specs: frozen records of *what* to compute, without arrays or devices.

`Map`, `Reduce`, `Row`, `Contract` and `View` are closed under differentiation:
`spec.vjp` answers with specs (`Pullback`), so no op and no backend holds backward code.

`map`, `reduce`, `row`, `contract`, `raw` and `view` hold a spec each; `base` is what
they share and what each says of itself, `combine` the ways to combine, `pointwise` and
`state` their typing, `shapes` and `subscripts` their shapes.  `vjp` differentiates,
`batching` runs them for many samples, `fusion` composes them; `windows` are inputs of a
Map that are there on a box of points.
"""

from .base import Pullback, Ref, Spec, Step
from .combine import COMBINES, Combine
from .contract import Contract, TypedContract
from .map import Map, TypedMap
from .raw import Raw, TypedRaw
from .reduce import Reduce, TypedReduce
from .row import Out, Row, Stage, TypedRow, TypedStage
from .view import View

__all__ = [
    "COMBINES", "Combine", "Contract", "Map", "Out", "Pullback", "Raw", "Reduce", "Ref",
    "Row", "Spec", "Stage", "Step", "TypedContract", "TypedMap", "TypedRaw",
    "TypedReduce", "TypedRow", "TypedStage", "View",
]
