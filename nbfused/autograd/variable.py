"""`Variable`: an array that can require a gradient."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, SupportsIndex

import numpy as np

from ..arrays import dtype_of, is_array, to_numpy
from ..arrays.detect import device_of, is_lazy, validate, way_out
from ..arrays.traced import Traced
from ..config import config
from ..errors import KernelTypeError, ShapeError, TapeError
from ..support.display import html_table, html_text
from .gradients import check_gradient
from .graph import Edge, Leaf, Node, Pass
from .nodes import check_differentiable
from .numpy_api.in_place import is_scalar
from .numpy_api.methods import ArrayMethods
from .numpy_api.protocols import (
    NumpyProtocols,
    check_keeps_gradient,
    check_no_store,
    warn_of_number,
)
from .numpy_api.standard_methods import StandardMethods
from .tape import PLAIN, apply, backward, tracked_by_library

__all__ = ["RECORDING", "RULE_CHECKS", "Variable"]

#: What ``backward(gradcheck=True)`` runs first; `nbfused.autograd` says what, as it
#: differentiates functions of Variables itself.
RULE_CHECKS: list[Callable[[Variable], object]] = []


class Variable(ArrayMethods, NumpyProtocols, StandardMethods):
    """An array with its place in the autograd graph.

    Operations on Variables give Variables.  With ``requires_grad`` each of them
    leaves a node behind, which `backward` walks back over.

    Parameters
    ----------
    data : array, number or nested list
        Of any library; shared, not copied.
    requires_grad : bool
        Whether `backward` collects a gradient here.

    Raises
    ------
    KernelTypeError
        A gradient is wanted for integers or booleans, or `requires_grad` is no bool; or
        `data` is a tensor that another library differentiates.
    TapeError
        `data` is a Variable that was computed, whose gradient would end here.

    Examples
    --------
    >>> import nbfused as nf
    >>> x = nf.Variable([3.0, 4.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    array([6., 8.])
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        """Make the object; of what is traced a placeholder."""
        if isinstance(data, Variable):
            check_keeps_gradient(data)
        return data.variable(requires_grad) if isinstance(data, Traced) else \
            object.__new__(cls)

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self._value = _array(data)
        self._edge = None
        if requires_grad is not False:
            self.requires_grad = requires_grad

    @staticmethod
    def at(data: Any, edge: Edge | None) -> Variable:
        """Wrap `data` with an edge of the graph, without checks."""
        made = object.__new__(Variable)
        made._value = data
        made._edge = edge
        return made

    @property
    def data(self) -> Any:
        """The array itself; assigning one of the same shape and dtype replaces it."""
        return self._value

    @data.setter
    def data(self, value: Any) -> None:
        value = _array(value)
        if not self.is_leaf:
            raise TapeError("data: this Variable was computed; assign to a leaf, or "
                            "make a new one with Variable(value)")
        if self.requires_grad:
            _check_like("data", value, self)
        self._value = value

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is wanted here or upstream."""
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, want: bool) -> None:
        if not isinstance(want, (bool, np.bool_)):
            raise KernelTypeError("requires_grad: expected True or False, got "
                                  f"{want!r}; pass a bool")
        if want == self.requires_grad:
            return
        if not self.is_leaf:
            raise TapeError("requires_grad: this Variable was computed; use detach() "
                            "for one that is not differentiated through")
        if want:
            check_differentiable(self.dtype)
        self._edge = (Leaf(), 0) if want else None

    @property
    def is_leaf(self) -> bool:
        """Whether the user made it, rather than an operation."""
        return self._edge is None or isinstance(self._edge[0], Leaf)

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed it; None for a leaf."""
        return None if self._edge is None or self.is_leaf else self._edge[0]

    @property
    def grad(self) -> Any:
        """The gradient that `backward` has accumulated.

        That by complex numbers is as `nbfused.grad` has it.

        It has memory of its own, which may be written to.  After
        ``backward(create_graph=True)`` it is a Variable, for reading only: a gradient
        that repeats one number is a view of it with strides 0.
        """
        node = None if self._edge is None else self._edge[0]
        return node.grad if isinstance(node, Leaf) else None

    @grad.setter
    def grad(self, value: Any) -> None:
        node = None if self._edge is None else self._edge[0]
        if not isinstance(node, Leaf):
            raise TapeError("grad: only a leaf with requires_grad=True has a gradient")
        if value is not None:
            check_gradient("grad", value, self)
            _check_like("grad", value, self)
        node.grad = value

    def zero_grad(self) -> None:
        """Drop the accumulated gradient."""
        if self.grad is not None:
            self.grad = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._value.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def gives_scalars(self) -> bool:
        """Whether its elements are numbers of their own, as those of NumPy's arrays."""
        return isinstance(self._value, np.ndarray)

    @property
    def device(self) -> str:
        """The name of the device: ``"cpu"``, ``"cuda:0"``."""
        return device_of(self._value)

    def detach(self) -> Variable:
        """The same array as a Variable that is not differentiated through."""
        return Variable.at(self._value, None)

    def to_numpy(self) -> np.ndarray:
        """The elements as a NumPy array; copied only from a device."""
        return to_numpy(self._value)

    numpy = to_numpy

    def item(self) -> bool | int | float | complex:
        """The only element as a Python number."""
        if self.size != 1:
            raise ShapeError(f"item(): shape {self.shape} has {self.size} elements, "
                             "expected one; use to_numpy().tolist()")
        return self.to_numpy().item()

    def backward(self, grad: Any = None, retain_graph: bool = False,
                 create_graph: bool = False, gradcheck: bool = False) -> None:
        """Add the gradients of this Variable to the leaves it was computed from.

        Parameters
        ----------
        grad : array or Variable, optional
            The cotangent: the gradient of something by this Variable, of the same
            shape and dtype.  May be left out for a single real element: 1.
        retain_graph : bool
            Allow a second backward over the same graph, which is freed otherwise.
        create_graph : bool
            Record the backward pass, so that gradients can be differentiated again;
            implies `retain_graph`.
        gradcheck : bool
            First compare every rule that a user wrote, at the arguments that it had
            here, with finite differences: `nbfused.testing.check_backward`.  So does
            ``NBFUSED_CHECK_GRADS=1`` always.

        Raises
        ------
        TapeError
            Nothing was recorded, or the graph was freed.
        ShapeError, KernelTypeError
            `grad` is missing or does not fit.
        InplaceModificationError
            A saved array was changed since.
        NotDifferentiableError
            Something on the way has no derivative.
        GradcheckError
            A rule is wrong; nothing was added to any leaf.

        Notes
        -----
        Gradients accumulate: a second call adds to `grad` of each leaf; see
        `zero_grad`.
        """
        if (gradcheck or config.check_grads) and self._edge is not None:
            for check in RULE_CHECKS:
                check(self)
        backward(self, grad, RECORDING if create_graph else PLAIN, retain_graph)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a Variable without dimensions")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Index as NumPy does: an element of one of its arrays is a copy."""
        made = super().__getitem__(key)
        if type(made) is Variable and isinstance(made._value, np.ndarray) and \
                not made._value.shape and is_scalar(made._value, key):
            made._value, made._of = made._value.copy(), None
        return made

    def note_part(self, base: Variable) -> None:
        """Note that this is a copy of what NumPy shows in the memory of `base`."""
        self._of = base, None

    def __iter__(self) -> Iterator[Variable]:
        """Iterate over the first dimension."""
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        check_no_store(self, sys._getframe(1))
        warn_of_number(self)
        return float(self.item())  # type: ignore[arg-type]

    def __int__(self) -> int:
        check_no_store(self, sys._getframe(1))
        return int(self.item())  # type: ignore[arg-type]

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError(f"a Variable of dtype {self.dtype} and shape {self.shape} "
                            "is no index; only one integer of shape () is")
        return int(self)

    def __format__(self, spec: str) -> str:
        one = spec and not self.shape  # as NumPy's arrays do
        return format(self.item(), spec) if one else super().__format__(spec)

    def __copy__(self) -> Variable:
        return Variable.at(self._value, self._edge)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        if self._edge is not None and type(self._edge[0]) is not Leaf:
            raise TapeError(
                "a Variable that was computed is neither pickled nor deeply copied, as "
                "all that it was computed from would go with it; use detach() first")
        return super().__reduce_ex__(protocol)

    def given_as(self, other: Any) -> Any:
        """`other`, which a call gives in place of this result."""
        return other

    def __repr__(self) -> str:
        note = f", grad_fn={self.grad_fn}" if self.grad_fn else \
            ", requires_grad=True" if self.requires_grad else ""
        return f"Variable({self._value!r}{note})"

    def _repr_html_(self) -> str:
        made = self.grad_fn or ("requires_grad" if self.requires_grad else "constant")
        return html_table(("shape", "dtype", "device", "on the tape"), [
            (self.shape, self.dtype, self.device, made)]) + html_text(repr(self._value))


#: The backward pass that records, so that gradients can be differentiated again.
RECORDING = Pass(apply, lambda data, edge: (
    data if isinstance(data, Traced) else Variable).at(data, edge), True)


def _array(data: Any) -> Any:
    if isinstance(data, Variable):
        return data.data
    if not is_array(data):
        _check_in_memory(data)
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise ShapeError(f"data: NumPy makes no array of it: {error}; expected "
                             "rows of equal length") from error
    if isinstance(data, np.generic):
        data = np.asarray(data)  # memory of its own: a scalar is not written to
    validate(data, "data")
    if not getattr(data, "requires_grad", False):
        return data
    if tracked_by_library(data):
        raise KernelTypeError(
            "data: this tensor requires grad in its own library, which would not see "
            "what a Variable does; pass it to the operation itself, or use x.detach()")
    return data.detach()  # its library records nothing, as in torch.no_grad()


#: Methods of other libraries that give an array, or something that has one.
_READING = ("compute", "toarray", "to_numpy", "todense")


def _check_in_memory(data: Any) -> None:
    """Refuse lazy or sparse objects that only convert to arrays.

    Dask, Zarr, xarray, files, sparse matrices; also in lists.
    """
    if isinstance(data, (list, tuple)):
        nested = any(issubclass(kind, (list, tuple)) for kind in set(map(type, data)))
        found = data if nested else [
            next(x for x in data if type(x) is kind) for kind in set(map(type, data))]
        for x in found:
            if not is_array(x) or is_lazy(x):
                _check_in_memory(x)
        return
    kind = type(data)
    known = [name for name in _READING if hasattr(kind, name)]
    if known or hasattr(kind, "__array__"):
        plain = f"data.{known[0]}()" if known else "numpy.asarray(data)"
        way = way_out(data, "data", "f") if kind.__module__.partition(".")[0] in (
            "pint", "unyt", "xarray") else None
        raise KernelTypeError(
            f"data is a {kind.__module__}.{kind.__qualname__}, which is no array in "
            "memory and would be read or filled in without a word; "
            f"{way or f'if it fits, pass {plain}'}")


def _check_like(name: str, value: Any, like: Variable) -> None:
    if tuple(value.shape) != like.shape:
        raise ShapeError(f"{name}: shape {tuple(value.shape)}, expected {like.shape} "
                         "as the Variable has")
    if dtype_of(value) != like.dtype:
        raise KernelTypeError(f"{name}: dtype {dtype_of(value)}, expected {like.dtype} "
                              f"as the Variable has; use astype('{like.dtype}')")
