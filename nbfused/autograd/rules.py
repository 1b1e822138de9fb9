"""`custom_vjp`, functions with a given derivative, and `checkpoint`, recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import Any

from ..arrays import is_array
from ..arrays.traced import Traced, find_traced
from ..errors import KernelTypeError, NotDifferentiableError, ShapeError
from ..support.pickling import PickledByName
from ..support.trees import leaves_of, map_tree
from .calls.keeping import Keeper, keeping
from .compilers.dynamo import called_whole
from .custom import (
    CALL_WHOLE,
    Argument,
    CallNode,
    as_outputs,
    as_variables,
    check_callable,
    detach_all,
    is_tracked,
)
from .graph import Edge, Pass, time_stamp
from .nodes import Aval
from .recording import grad_mode, recording
from .tape import tracked_by_library
from .variable import Variable
from .versions import Saved
from .walk import walk_back

__all__ = ["RuleNode", "checkpoint", "custom_vjp"]


class custom_vjp(PickledByName):
    """A function of arrays with a hand-written derivative.

    Parameters
    ----------
    function : callable
        Of positional arguments; returns an array or a tuple of arrays.
    gradcheck : bool
        To find a wrong rule: each call that records compares it, at its arguments, with
        finite differences of the function; `GradcheckError` where they differ.

    Notes
    -----
    Gradients flow to the arguments only, not to Variables that the functions close
    over.  Where a gradient is wanted the forward rule runs in the function's place, on
    Variables.  A second derivative runs it again, recorded.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> def forward(x):
    ...     return clipped(x), ()
    >>> def backward(residuals, g):
    ...     return (g.clip(-1.0, 1.0),)
    >>> clipped.defvjp(forward, backward)
    >>> x = nf.Variable([1.0, 2.0], requires_grad=True)
    >>> (clipped(x) * 10.0).sum().backward()
    >>> x.grad
    array([1., 1.])
    """

    #: What gives it its derivative, for messages.
    way: str = "defvjp(fwd, bwd)"

    def __new__(cls, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Make the function or its decorator; a kernel takes rules itself."""
        if hasattr(function, "as_op"):
            return function
        return partial(cls, **options) if function is None else super().__new__(cls)

    def __init__(self, function: Callable[..., Any], *,
                 gradcheck: bool = False) -> None:
        check_callable(function)
        self.function = function
        self.gradcheck = gradcheck
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        update_wrapper(self, function, updated=())  # an op has a `function` of its own
        called_whole(self)

    def made_of(self) -> tuple[Any, ...]:
        """The decorated function, from which a copy can be made."""
        return (self.function,)

    def extras(self) -> dict[str, Any]:
        """The derivative rule, which a copy takes over."""
        return {"fwd": self.fwd, "bwd": self.bwd, "gradcheck": self.gradcheck}

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the forward and backward rule.

        Parameters
        ----------
        fwd
            ``fwd(*args) -> (results, residuals)``; `residuals` is anything.
        bwd
            ``bwd(residuals, cotangent) -> gradients``, one for each argument, or None;
            for several results `cotangent` is a tuple.
        """
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        """Call the function, or its forward rule if a gradient is wanted."""
        unknown = find_traced(args)
        if unknown is not None:
            return unknown.record_call(self, args, self._run)
        return self._run(args)

    def _run(self, args: Sequence[Any]) -> Any:
        """Run it on arrays, or on what is traced."""
        if any(map(tracked_by_library, leaves_of(tuple(args)))):
            return CALL_WHOLE[0](self.name, self, args)
        if not (recording() and any(map(is_tracked, args))):
            return self.function(*args)
        if self.fwd is None or self.bwd is None:
            raise NotDifferentiableError(
                f"{self.name} has no derivative yet: call {self.name}.{self.way}")
        if self.gradcheck and find_traced(args) is None:
            from .check_backward import check_call

            check_call(self, args)
        with grad_mode(False):
            result, residuals = self.forward(*detach_all(args))
        node = RuleNode(self, args, residuals)
        return node.attach(as_outputs(result, f"the forward rule of {self.name}"),
                           not isinstance(result, (tuple, list)))

    def forward(self, *args: Any) -> tuple[Any, Any]:
        """Run the forward rule and check what it returns."""
        assert self.fwd is not None
        pair = self.fwd(*args)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ShapeError(f"the forward rule of {self.name} returned a "
                             f"{type(pair).__name__}; expected (results, residuals)")
        return pair


class RuleNode(CallNode):
    """The graph node of a call of a `custom_vjp` function."""

    __slots__ = ("arguments", "residuals", "rule", "watched")

    def __init__(self, rule: custom_vjp, args: Sequence[Any], residuals: Any) -> None:
        super().__init__(rule.name, args)
        self.rule = rule
        self.arguments = tuple(Argument(x, f"argument {k} of {self.name}")
                               for k, x in enumerate(args))
        if find_traced(args) is not None:
            residuals = map_tree(residuals, _as_now)
        self.residuals = residuals
        self.watched = tuple(Saved(a, f"a residual of {self.name}")
                             for a in _arrays(residuals))

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Call the backward rule."""
        assert self.rule.bwd is not None
        if mode.records:
            args = as_variables([a.load() for a in self.arguments])
            _, residuals = self.rule.forward(*args)
        else:
            residuals = self.residuals
            for saved in self.watched:
                saved.load()
        given = self.fill_zeros(cotangents)
        returned = self.rule.bwd(residuals, given if len(given) > 1 else given[0])
        return self.check_returned(returned, mode, self.watched)

    def rule_call(self) -> tuple[Callable[..., Any], list[Any]]:
        """The function, and the arguments that it was called with."""
        return self.rule, [a.load() for a in self.arguments]

    def release(self) -> None:
        """Drop the residuals."""
        super().release()
        self.arguments = self.watched = ()
        self.residuals = None


def _as_now(x: Any) -> Any:
    """Something traced as it is before a change in place; anything else itself."""
    return x.plain() if isinstance(x, Traced) else x


def _arrays(tree: Any) -> Iterator[Any]:
    """All arrays in nested tuples, lists and dictionaries."""
    if isinstance(tree, Variable):
        yield tree.data
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _arrays(item)
    elif isinstance(tree, dict):
        yield from _arrays(tuple(tree.values()))
    elif is_array(tree):
        yield tree


class checkpoint:
    """Recompute `function` in the backward pass instead of saving its steps.

    Memory for time: of what is recorded inside, only the arguments are kept.

    Parameters
    ----------
    function : callable
        Of arrays, returns an array or a tuple of arrays, the same ones each time.  It
        may close over Variables, which get their gradients; they must not change until
        the backward pass.

    policy : iterable of str, or callable, optional
        Which results are saved all the same: kinds of operations (``"contract"``,
        ``"reduce"``, ``"row"``, ``"map"``) or their names, or a function
        ``policy(kind, name)`` that says so.  ``policy=["contract"]`` saves the results
        of matrix products and computes all else again.

    Attributes
    ----------
    recomputed : int
        How often it was run again.

    Examples
    --------
    >>> import nbfused as nf
    >>> block = nf.checkpoint(lambda x: (x * x) * x)
    >>> x = nf.Variable(2.0, requires_grad=True)
    >>> block(x).backward()
    >>> float(x.grad), block.recomputed
    (12.0, 1)
    """

    def __new__(cls, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Make the function, or its decorator."""
        return partial(cls, **options) if function is None else super().__new__(cls)

    def __init__(self, function: Callable[..., Any], *,
                 policy: Iterable[str] | Callable[[str, str], bool] | None = None,
                 ) -> None:
        check_callable(function)
        self.function = function
        self.saves = _policy(policy)
        self.recomputed = 0
        update_wrapper(self, function, updated=())  # an op has a `function` of its own

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and drop the graph that it recorded."""
        start = time_stamp()
        keeper = None if self.saves is None else Keeper(self.saves)
        with keeping(keeper):
            result = self.function(*args, **kwargs)
        if not recording() or find_traced(args) is not None:
            return result  # a fused function is what saves, and what computes again
        outputs = as_outputs(result, self.name)
        edges = _entries([v.edge for v in outputs if v.edge is not None], start)
        if not edges:
            return result
        node = _CheckpointNode(self, edges, args, kwargs, keeper)
        return node.attach(outputs, not isinstance(result, (tuple, list)),
                           [v for v in outputs if not v.requires_grad])


def _policy(given: Any) -> Callable[[str, str], bool] | None:
    if given is None or callable(given):
        return given
    names = given if isinstance(given, str) or not isinstance(given, Iterable) \
        else frozenset(given)
    if not isinstance(names, frozenset) or any(not isinstance(n, str) for n in names):
        raise KernelTypeError(
            f"checkpoint: 'policy' is {given!r}; expected names of operations, as in "
            "policy=['contract'], or a function of a kind and a name")
    return lambda kind, name: kind in names or name in names


def _entries(roots: Sequence[Edge], start: int) -> tuple[Edge, ...]:
    """The edges recorded before `start` that the roots depend on directly."""
    found: dict[Edge, None] = {}
    inner: set[Any] = set()
    stack = list(roots)
    while stack:
        edge = stack.pop()
        node = edge[0]
        if node.order < start:
            found[edge] = None
        elif node not in inner:
            inner.add(node)
            stack.extend(e for e in node.edges if e is not None)
    return tuple(found)


def _listed(avals: Sequence[Aval]) -> str:
    return ", ".join(f"{dtype} {shape}" for shape, dtype, _ in avals)


class _CheckpointNode(CallNode):
    takes_ones = True
    __slots__ = ("arguments", "block", "keeper", "keywords")

    def __init__(self, block: checkpoint, edges: Sequence[Edge], args: Sequence[Any],
                 kwargs: dict[str, Any], keeper: Keeper | None) -> None:
        super().__init__(block.name, ())
        self.keeper = keeper
        self.edges = tuple(edges)
        self.block = block
        self.arguments = tuple(Argument(x, f"argument {k} of {self.name}")
                               for k, x in enumerate(args))
        self.keywords = {k: Argument(x, f"argument {k!r} of {self.name}")
                         for k, x in kwargs.items()}

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Run the function again, and pull that back."""
        self.block.recomputed += 1
        kept = None if self.keeper is None else self.keeper.again()
        with grad_mode(True), keeping(kept):
            result = self.block.function(
                *(a.load() for a in self.arguments),
                **{k: a.load() for k, a in self.keywords.items()})
        outputs = as_outputs(result, self.name)
        again = tuple((v.shape, v.dtype, v.device) for v in outputs)
        if again != self.gives:
            raise ShapeError(
                f"checkpoint: {self.name} was run again and returned {_listed(again)}; "
                f"expected {_listed(self.gives)}, as before: it must compute the same "
                "each time")
        seeds = [(v.edge, c) for v, c in zip(outputs, cotangents, strict=True)
                 if c is not None and v.edge is not None]
        targets = [e for e, want in zip(self.edges, wanted, strict=True)
                   if want and e is not None]
        found = walk_back(seeds, mode, targets=targets, keep=mode.records)
        return [None if e is None else found.get(e) for e in self.edges]

    def release(self) -> None:
        """Drop the saved arguments."""
        super().release()
        self.keeper = None
        self.arguments = ()
        self.keywords = {}
