"""Launch one spec on NumPy arrays without the dispatcher: nothing is merged."""

from __future__ import annotations

import numpy as np

from nbfused.backend import Call, Signature
from nbfused.cpu import CpuBackend
from nbfused.scalar.typing.types import Weak

CPU = CpuBackend()
WEAK = {bool: Weak("bool"), int: Weak("int"), float: Weak("float"),
        complex: Weak("complex")}


def steps(array):
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


def code(stride):
    return {1: "1", 0: "0"}.get(stride, "s")


def types_of(inputs):
    return tuple(x.dtype if isinstance(x, np.ndarray) else WEAK[type(x)]
                 for x in inputs)


def launch(spec, inputs, outputs, ranks, shape, strides, codes):
    signature = Signature(types_of(inputs), tuple(y.dtype for y in outputs), ranks,
                          tuple(codes))
    arrays = [x for x in (*inputs, *outputs) if isinstance(x, np.ndarray)]
    call = Call(tuple(shape), tuple(x.ctypes.data for x in arrays), tuple(strides),
                tuple(x for x in inputs if not isinstance(x, np.ndarray)))
    CPU.build(spec, signature)(call)


def run_map(spec, *inputs, out=None, dtypes=None, scatter=()):
    """`inputs` in the order of the parameters; raw arrays as they are."""
    kinds = [k for k in spec.kinds if k not in ("index", "size", "scatter")]
    elements = [x for x, k in zip(inputs, kinds, strict=True) if k == "element"]
    shape = np.broadcast_shapes(*(x.shape for x in elements))
    if out is None:
        results = spec.result_types(types_of(inputs))[:len(spec.function.results)]
        out = [np.full(shape, 0, d) for d in dtypes or results]
    strides, codes = [], []
    for x, k in zip(inputs, kinds, strict=True):
        if k == "element":
            strides.append(steps(np.broadcast_to(x, shape)))
            codes.append(code(strides[-1][-1]))
        elif k == "raw":
            strides.append(steps(x))
            codes.append(f"r{x.ndim}")
    for y in out:
        strides.append(steps(y))
        codes.append(code(strides[-1][-1]))
    for y in scatter:
        strides.append(steps(y))
        codes.append(f"r{y.ndim}")
    launch(spec, inputs, (*out, *scatter), (len(shape),), shape, strides, codes)
    return out[0] if len(out) == 1 else out


def run_reduce(spec, *inputs, axes, dtypes=None, out=None):
    """Kept axes, then reduced axes; each group in the array's own order."""
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    kept = tuple(a for a in range(len(shape)) if a not in axes)
    order = (*kept, *axes)
    kept_shape = tuple(shape[a] for a in kept)
    if out is None:
        out = [np.full(kept_shape, 0, d)
               for d in dtypes or spec.result_types(types_of(inputs))]
    full = tuple(shape[a] for a in order)
    if not kept:
        full = (1, *full)
    strides = []
    for x in arrays:
        own = steps(np.broadcast_to(x, shape))
        strides.append((*(() if kept else (0,)), *(own[a] for a in order)))
    for y in out:
        own = steps(y) if kept else (1,)
        strides.append((*own, *(0,) * len(axes)))
    codes = [code(s[-1]) for s in strides]
    launch(spec, inputs, out, (max(len(kept), 1), len(axes)), full, strides, codes)
    return out[0] if len(out) == 1 else out


def run_row(spec, *inputs, dtypes=None):
    """The last axis of the elements holds the columns."""
    elements = [x for x, k in zip(inputs, spec.kinds, strict=True) if k == "element"]
    shape = np.broadcast_shapes(*(x.shape for x in elements))
    shapes = {"element": shape, "row": shape[:-1], "column": shape[-1:], "scalar": ()}
    results = dtypes or spec.result_types(types_of(inputs))
    outs = [np.full(shapes[o.kind], 7, d)
            for o, d in zip(spec.outs, results, strict=True)]
    rows = len(shape) - 1
    strides = []
    kinds = [*spec.kinds, *(o.kind for o in spec.outs)]
    for x, kind in zip((*inputs, *outs), kinds, strict=True):
        if isinstance(x, np.ndarray):
            own = steps(np.broadcast_to(x, shape) if kind == "element" else x)
            own = {"element": own, "row": (*own, 0), "column": (*(0,) * rows, *own),
                   "scalar": (0,) * (rows + 1)}[kind]
            strides.append(own)
    codes = [code(s[-1]) for s in strides]
    launch(spec, inputs, outs, (rows, 1), shape, strides, codes)
    return outs[0] if len(outs) == 1 else outs


def run_contract(spec, a, b, *extras, batch=0, dtypes=None, out=None):
    """``(batch..., m, k) @ (batch..., k, n)`` with extras of the result's shape."""
    batch_shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    result = (*batch_shape, m, n)
    a_full = np.broadcast_to(a, (*batch_shape, m, k))
    b_full = np.broadcast_to(b, (*batch_shape, k, n))
    inputs = (a, b, *extras)
    if out is None:
        out = [np.full(result, 7, d)
               for d in dtypes or spec.result_types(types_of(inputs))]
    strides = [(*steps(a_full)[:-1], 0, steps(a_full)[-1]),
               (*steps(b_full)[:-2], 0, steps(b_full)[-1], steps(b_full)[-2])]
    strides += [(*steps(np.broadcast_to(x, result)), 0)
                for x in (*extras, *out) if isinstance(x, np.ndarray)]
    at = len(batch_shape)
    codes = [code(strides[0][at]) + code(strides[0][at + 2]),
             code(strides[1][at + 2]) + code(strides[1][at + 1])]
    codes += [code(s[at]) + code(s[at + 1]) for s in strides[2:]]
    launch(spec, inputs, out, (at, 1, 1, 1), (*batch_shape, m, n, k), strides, codes)
    return out[0] if len(out) == 1 else out


