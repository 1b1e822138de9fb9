"""`ThreadKernel.as_op`: an operation on Variables that launches a kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import Array, check_dtype, describe, dtype_of, is_array, library_of
from ....arrays.detect import is_symbolic
from ....autograd import Variable
from ....autograd.compilers.dynamo import called_whole
from ....autograd.compilers.torch_callables import CallableOp
from ....autograd.nodes import zeros
from ....autograd.tape import tracked_by_library
from ....dispatch.calls import COPY
from ....dispatch.execute import execute
from ....errors import (
    KernelTypeError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedError,
)
from ....op.keywords import suggestion
from ....specs import Raw
from ...cupy.launching import bytes_of_shared
from ..arguments import FlatArguments, Leaf, array_of, arrays_of
from ..derivatives import Derivative
from ..launching import Launching, Options, Places
from ..pairs import gradient_buffer, in_dtypes_of, unpaired
from ..recording.places import counted_kernel, needed_before, record_places
from ..second import Moving
from ..views import Dual, ViewType, is_floating
from .derived import Call as Launch
from .derived import needed_leaves
from .leaves import Layout, layout_of
from .op_nodes import Call, OpChange, OpGradient, OpLaunch

if TYPE_CHECKING:
    from ..rawkernel import ThreadKernel

__all__ = ["KernelOp"]

#: Kinds of arguments that an operation remembers.
_MOST = 1024


class KernelOp:
    """An operation that launches a kernel; made by `ThreadKernel.as_op`.

    Attributes
    ----------
    names : tuple of str
        The parameters of the kernel that are its arguments, in order.
    """

    def __init__(self, kernel: ThreadKernel, outputs: Mapping[str, Any], grid: Any,
                 block: Any, shared_mem: Any = 0) -> None:
        if not isinstance(outputs, Mapping) or not outputs or \
                not set(outputs) <= set(kernel.signature.parameters):
            raise KernelTypeError(
                f"{kernel.__name__}.as_op: outputs {outputs!r} must name parameters of "
                f"{kernel.__name__}({', '.join(kernel.signature.parameters)}), as in "
                "{'y': 'x'}")
        self.kernel: ThreadKernel = kernel
        self.outputs: dict[str, Any] = dict(outputs)
        self.grid: Any = grid
        self.block: Any = block
        self.shared_mem: Any = shared_mem
        self.__name__: str = kernel.__name__
        self.names: tuple[str, ...] = tuple(
            p for p in kernel.signature.parameters if p not in outputs)
        #: By the layout of the arguments, what PyTorch calls.
        self._ops: dict[Any, CallableOp] = {}
        #: Arguments of launches that count no places.
        self._uncounted: set[Any] = set()
        called_whole(self)
        self._function: Any = type(f"{kernel.__name__}_op", (OpLaunch,), {"op": self})
        self._gradient: Any = type(f"{kernel.__name__}.bwd", (OpGradient,),
                                   {"op": self})
        self._change: Any = type(f"{kernel.__name__}.bwd.fwd", (OpChange,),
                                 {"op": self})

    def __reduce__(self) -> Any:
        """Pickle the arguments of `as_op`; the rest is made again."""
        return type(self), (self.kernel, self.outputs, self.grid, self.block,
                            self.shared_mem)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Allocate the outputs, launch, record what a gradient needs.

        Parameters
        ----------
        *args, **kwargs
            Arrays, Variables and numbers for `names`, also in tuples and structs.

        Returns
        -------
        array, Variable or tuple
            The outputs, in the order of `as_op`; zero where no thread stores.
        """
        given = dict(zip(self.names, args, strict=False)) | kwargs
        filled = {p: given.get(p, self.kernel.signature.parameters[p].default)
                  for p in self.names}
        empty = [p for p, v in filled.items() if v is self.kernel.signature.empty]
        twice = len(given) < len(args) + len(kwargs)
        if twice or not set(given) <= set(filled) or empty:
            near = suggestion(set(given) - set(filled), self.names)
            raise KernelTypeError(f"{self.__name__} takes {', '.join(self.names)}; got "
                                  f"{len(args)} arguments and {sorted(kwargs)}{near}")
        layout, leaves = layout_of(filled, self.kernel.annotations)
        if any(tracked_by_library(x) and library_of(x).name == "torch" for x in leaves):
            return self._on_tensors(layout, leaves)
        for name, value in zip(layout.names, leaves, strict=True):
            if is_array(value):
                self._check_library(name, describe(value, name))
        return self._function.apply(Call(layout), *leaves)

    def _on_tensors(self, layout: Layout, leaves: Sequence[Any]) -> Any:
        """Call it on tensors that PyTorch differentiates or traces."""
        numbers = tuple([not is_array(x) for x in leaves])
        for name, value in zip(layout.names, leaves, strict=True):
            if isinstance(value, Variable) or (
                    is_array(value) and library_of(value).name != "torch"):
                raise KernelTypeError(
                    f"{self.__name__}: '{name}' is a {type(value).__name__} beside a "
                    "tensor that requires grad; expected tensors only: a Variable and "
                    "such a tensor belong to two tapes")
        places = self._places_of_tensors(layout, leaves)
        replay, tapes = (None, ()) if places is None else (
            places.replay, tuple([tape.owner for tape in places.tapes]))
        known = self._ops.get((layout, numbers, replay))
        if known is None:
            known = self._ops[layout, numbers, replay] = CallableOp(
                self.__name__, partial(_launched, self, layout, replay),
                partial(_avals, self, layout), (*numbers, *(False for _ in tapes)),
                True)
        made = known(*leaves, *tapes)
        return made[0] if len(made) == 1 else tuple(made)

    def _places_of_tensors(self, layout: Layout,
                           leaves: Sequence[Any]) -> Places | None:
        """The places that threads count, read by all that PyTorch computes again."""
        if any(is_array(x) and is_symbolic(x) for x in leaves):
            return None
        plain = {n: x.detach() if is_array(x) else x
                 for n, x in zip(layout.names, leaves, strict=True)}
        return self.places(layout, {**plain, **self.allocate(layout, plain)})

    def _check_library(self, name: str, array: Array) -> None:
        """Refuse an array that is immutable."""
        library = array.library
        if not library.writable:
            raise UnsupportedError(
                f"{self.__name__}: '{name}' is an array of {library.name}, whose "
                "arrays are immutable, so that no kernel can store results into one; "
                f"pass nbfused.to_numpy({name})")

    def allocate(self, layout: Layout, leaves: Mapping[str, Any]) -> dict[str, Any]:
        """A zero array for each output."""
        like = next((v for v in leaves.values() if is_array(v)), None)
        if like is None:
            raise KernelTypeError(f"{self.__name__}: no argument is an array")
        device = describe(like).device
        made = {}
        for name, rule in self.outputs.items():
            shape, dtype = self.aval(name, rule, layout, leaves)
            made[name] = zeros(shape, dtype, like, device)
        return made

    def aval(self, name: str, rule: Any, layout: Layout,
             leaves: Mapping[str, Any]) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an output."""
        found = self._rule_value(f"the rule of output '{name}'", rule,
                                 layout.arguments(leaves))
        if isinstance(found, str) and is_array(leaves.get(found)):
            like = leaves[found]
            return tuple(like.shape), dtype_of(like)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(
                found[0], (tuple, list)):
            return self._shape(name, found[0]), check_dtype(found[1], name)
        raise KernelTypeError(
            f"{self.__name__}.as_op: the rule of output '{name}' gave {found!r}; "
            "expected (shape, dtype), or the name of an argument that it is like")

    def _shape(self, name: str, given: Sequence[Any]) -> tuple[int, ...]:
        try:
            shape = tuple(map(index, given))
        except TypeError:
            shape = (-1,)
        if any(n < 0 for n in shape):
            raise ShapeError(f"{self.__name__}.as_op: the shape of output '{name}' is "
                             f"{given!r}; expected integers of 0 or more")
        return shape

    def _rule_value(self, what: str, rule: Any, arguments: Mapping[str, Any]) -> Any:
        """A rule, or what it gives for `arguments` if it is a function."""
        if not callable(rule):
            return rule
        try:
            signature(rule).bind(**arguments)
        except (TypeError, ValueError) as error:
            raise KernelTypeError(
                f"{self.__name__}.as_op: {what} is a function that is called with "
                f"{', '.join(arguments)} by name: {error}") from None
        return rule(**arguments)

    def launch(self, kernel: Launching, layout: Layout, given: Mapping[str, Any],
               plain: Mapping[str, Any], places: Places | None) -> None:
        """Launch `kernel` on leaves and outputs, or pairs of these.

        What grid and block are computed from are the `plain` ones.
        """
        arguments = self._arguments(layout, given)
        if isinstance(kernel, Derivative) and not self.kernel.rules:
            arguments = {n: unpaired(v) for n, v in arguments.items()}
        kernel.start(kernel.arguments((), arguments), replace(
            self._options(kernel, layout, plain), places=places))

    def _options(self, kernel: Launching, layout: Layout,
                 plain: Mapping[str, Any]) -> Options:
        """Grid, block and shared memory of a launch."""
        said = self._arguments(layout, plain)
        return kernel._options(*(self._rule_value(name, getattr(self, name), said)
                                 for name in ("grid", "block", "shared_mem")))

    def _kernel_of(self, layout: Layout,
                   plain: Mapping[str, Any]) -> tuple[Raw, FlatArguments]:
        """The kernel of a launch and its arguments."""
        said = self._arguments(layout, plain)
        flat = self.kernel.flatten(self.kernel.arguments((), said))
        shared = self._rule_value("shared_mem", self.shared_mem, said)
        size = bytes_of_shared(shared, self.__name__)
        return self.kernel.spec(flat, size), flat

    def places(self, layout: Layout, plain: Mapping[str, Any]) -> Places | None:
        """The places that threads of a launch count, if its derivative needs them."""
        key = layout.names, *((dtype_of(x), x.ndim) if is_array(x) else type(x)
                        for x in plain.values())
        if key in self._uncounted:
            return None
        spec, flat = self._kernel_of(layout, plain)
        counted = None if self.kernel.rules else counted_kernel(
            spec, self._differentiated(layout, flat))
        if counted is not None:
            _, options = self.kernel.launched(
                flat, self._options(self.kernel, layout, plain))
            return record_places(counted, flat, options)
        if not flat.frozen and len(self._uncounted) < _MOST:
            self._uncounted.add(key)
        return None

    def _differentiated(self, layout: Layout, flat: FlatArguments,
                        names: Collection[str] | None = None) -> tuple[bool, ...]:
        """A flag for each leaf: it has a derivative, and is one of `names`."""
        return tuple((names is None or leaf.name in names) and
                     self.differentiable(layout, leaf.name, leaf.owner)
                     for leaf in flat.leaves)

    def _arguments(self, layout: Layout, given: Mapping[str, Any]) -> dict[str, Any]:
        """An argument for each parameter of the kernel."""
        return layout.arguments(given) | {n: given[n] for n in self.outputs}

    def split(self, layout: Layout, given: Sequence[Any],
              wanted: Sequence[str]) -> tuple[dict[str, Any], dict[str, Dual]]:
        """Leaves and outputs, and copies of the cotangents, which are consumed."""
        names = (*layout.names, *self.outputs)
        plain = arrays_of(self.__name__, names, given)
        plain |= self._before(layout, plain, wanted)
        cotangents = dict(zip(self.outputs, given[len(names):], strict=True))
        return plain, {n: Dual(plain[n], (g * 1).data) for n, g in cotangents.items()
                       if self.differentiable(layout, n, plain[n])}

    def _before(self, layout: Layout, plain: Mapping[str, Any],
                wanted: Sequence[str]) -> dict[str, Any]:
        """The outputs that the kernel reads too, as they were before the launch."""
        spec, flat = self._kernel_of(layout, plain)
        if self.kernel.rules or not spec.revised:
            return {}
        needed = needed_before(spec, self._differentiated(
            layout, flat, {*wanted, *self.outputs}))
        both = {leaf.name for p, leaf in zip(spec.function.params, flat.leaves,
                                             strict=True) if p in needed}
        lost = sorted(both - self.outputs.keys())
        if lost:
            raise NotDifferentiableError(
                f"{self.__name__}: the kernel changes its argument '{lost[0]}' in "
                "place, so that the gradient would read what it left there; name it in "
                "outputs, or launch the kernel and its .bwd on a copy of your own")
        made = self.allocate(layout, {n: plain[n] for n in layout.names})
        return {n: array for n, array in made.items() if n in both}

    def pulled(self, call: Call, plain: Mapping[str, Any],
               cotangents: Mapping[str, Dual],
               names: Sequence[str]) -> dict[str, Any]:
        """The gradients of some leaves, by ``bwd``; cotangents are consumed."""
        gradients = {n: gradient_buffer(plain[n]) for n in names}
        duals = {n: Dual(plain[n], g) for n, g in gradients.items()}
        self.launch(self.kernel.bwd, call.layout, {**plain, **duals, **cotangents},
                    plain, call.places)
        return in_dtypes_of(gradients, plain)

    def gradient_change(self, call: Call, names: Sequence[str],
                        along: Mapping[str, Any], plain: Mapping[str, Any],
                        cotangents: Mapping[str, Dual]) -> dict[str, Any]:
        """The change of the gradients of some leaves `along` a direction."""
        changes = {n: gradient_buffer(plain[n]) for n in names}
        bars = {n: Dual(g.primal, (Variable(g.derivative) * 1).data)
                for n, g in cotangents.items()}
        bent = {n: Moving(plain[n], along.get(n), changes.get(n))
                for n in call.layout.names}
        self.launch(self.kernel.second, call.layout, {**plain, **bent, **bars}, plain,
                    call.places)
        return in_dtypes_of(changes, plain)

    def as_launch(self, call: Call, plain: Mapping[str, Any],
                  changed: tuple[str, ...]) -> Launch:
        """The launch of a call, as one that is recorded: outputs are arguments."""
        layout, outputs = call.layout, tuple(self.outputs)
        trees = {**dict(layout.trees), **dict(zip(outputs, outputs, strict=True))}
        spec, flat = self._kernel_of(layout, plain)
        paired = tuple(leaf.name for leaf in flat.leaves
                       if self.differentiable(layout, leaf.name, leaf.owner))
        names = [leaf.name for leaf in flat.leaves]
        written = frozenset(n for p, n in zip(spec.function.params, names, strict=True)
                            if p in spec.written)
        return Launch(
            self.kernel, replace(self._options(self.kernel, layout, plain),
                                 places=call.places),
            Layout((*layout.names, *outputs),
                   (*layout.annotations, *map(self.kernel.annotations.get, outputs)),
                   tuple((p, trees[p]) for p in self.kernel.signature.parameters)),
            changed, written, needed_leaves(self.kernel, spec, names, paired), paired,
            None)

    def output_change(self, call: Call, along: Mapping[str, Any],
                      plain: Mapping[str, Any],
                      names: Iterable[str]) -> dict[str, Any]:
        """The change of some outputs `along` a direction."""
        layout = call.layout
        slopes = {n: gradient_buffer(plain[n]) for n in names}
        plain = {**plain, **self._copies(layout, plain)}
        duals = {n: Dual(plain[n], u) for n, u in along.items()}
        results = self.allocate(layout, {n: plain[n] for n in layout.names})
        results |= {n: Dual(results[n], u) for n, u in slopes.items()}
        self.launch(self.kernel.fwd, layout, {**plain, **duals, **results}, plain,
                    call.places)
        return in_dtypes_of(slopes, plain)

    def _copies(self, layout: Layout, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Copies of the arguments that the kernel changes in place."""
        spec, flat = self._kernel_of(layout, plain)
        return {leaf.name: execute(COPY, (leaf.owner,), dtypes=(leaf.value.dtype,))[0]
                for p, leaf in zip(spec.function.params, flat.leaves, strict=True)
                if p in spec.written and leaf.name not in self.outputs}

    def check_declared(self, layout: Layout, name: str, array: Any) -> None:
        """`NotDifferentiableError` if nothing says whether there is a derivative."""
        if not self.kernel.differentiable and is_array(array) and \
                not isinstance(self._annotation(layout, name), ViewType) and \
                is_floating(dtype_of(array)):
            raise NotDifferentiableError(
                f"{self.__name__}: '{name}' requires a gradient and the kernel is not "
                "declared differentiable; write @nf.rawkernel(differentiable=True), or "
                "annotate it with nf.DiffView, or nf.View if it has none")

    def differentiable(self, layout: Layout, name: str, array: Any) -> bool:
        """True if the kernel's derivative takes a pair for a leaf or an output."""
        view = self._annotation(layout, name)
        allowed = view.differentiable if isinstance(view, ViewType) \
            else self.kernel.differentiable
        return allowed and is_array(array) and is_floating(dtype_of(array))

    def _annotation(self, layout: Layout, name: str) -> Any:
        return self.kernel.annotations.get(name) if name in self.outputs \
            else layout.annotation(name)


def _launched(op: KernelOp, layout: Layout, replay: Raw | None,
              *given: Any) -> tuple[Any, ...]:
    """The outputs of a launch; tapes of what is played back follow the leaves."""
    count = len(layout.names)
    tapes = [array_of(op.__name__, x) for x in given[count:]]
    places = None if replay is None else Places(replay, tuple(
        Leaf(f"tapes[{k}]", describe(x), x) for k, x in enumerate(tapes)))
    made = op._function.apply(Call(layout, places, again=True), *given[:count])
    return made if isinstance(made, tuple) else (made,)


def _avals(op: KernelOp, layout: Layout, *given: Any) -> list[Any]:
    """Shape and dtype of each output."""
    leaves = dict(zip(layout.names, given, strict=False))
    return [op.aval(name, rule, layout, leaves) for name, rule in op.outputs.items()]
