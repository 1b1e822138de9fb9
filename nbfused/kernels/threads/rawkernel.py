"""`rawkernel`: a Python function that every thread of a grid runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import update_wrapper
from types import FunctionType, MethodType
from typing import Any, overload

import numpy as np

from ...config import config
from ...dispatch.raw import Launchable
from ...errors import KernelTypeError
from ...op.kernel_counts import counting_decorator
from ...scalar.autodiff.preferences import check_preference, preferring
from ...scalar.parse.functions import parse
from ...scalar.source.definitions import keep_sources, namespace
from ...scalar.source.static import literal, literal_parameters
from ...specs import Raw
from ...support.display import SourceText
from ...support.forks import cached_property
from ...support.pickling import PickledByName
from .arguments import FlatArguments, flatten_arguments
from .differentiable import DifferentiableKernel
from .known_launches import KnownLaunches
from .launching import Options
from .recording.places import played_back
from .recording.stale import Contents, contents_of
from .shared_sizes import with_shared_sizes
from .source import for_arguments, kernel_source, recorded_bytes
from .taping.as_op import KernelOp
from .taping.launches import is_taped, launch_taped
from .views import annotation_of, elements_of, note_structs, structs_in

__all__ = ["ThreadKernel", "rawkernel"]

class ThreadKernel(DifferentiableKernel, PickledByName):
    """A Python function that every thread of a grid of blocks runs; see `rawkernel`.

    It is compiled at the first launch for each combination of argument types.

    Attributes
    ----------
    rules : dict
        The hand-written derivatives, kernels themselves: ``"bwd"``, ``"fwd"``.
    """

    def __init__(self, pyfunc: Callable[..., Any],
                 differentiable: bool = False, prefer: str | None = None) -> None:
        _check_pyfunc(pyfunc)
        super().__init__(pyfunc.__name__, inspect.signature(pyfunc))
        self.pyfunc = pyfunc
        self.differentiable = differentiable
        self.prefer: str = check_preference(pyfunc.__name__, prefer)
        self._literals = literal_parameters(pyfunc)
        self.rules: dict[str, ThreadKernel] = {}
        #: What the last launch found and left in arrays, under ``NBFUSED_DEBUG=1``.
        self.last: tuple[Contents, Contents] = {}, {}
        self._specs: dict[Any, tuple[Raw, int]] = {}
        update_wrapper(self, pyfunc, updated=())
        self.__name__: str = pyfunc.__name__

    def renewed(self, pyfunc: Callable[..., Any]) -> ThreadKernel:
        """A kernel like this one of another Python function, without the rules."""
        return ThreadKernel(pyfunc, *self.made_of()[1:])

    def made_of(self) -> tuple[Any, ...]:
        """The function and the options."""
        return self.pyfunc, self.differentiable, self.prefer or None

    def extras(self) -> dict[str, Any]:
        """The rules, and annotations, which name what a function need not use."""
        keep_sources(self.pyfunc)
        return {"rules": self.rules, "annotations": self.annotations,
                "structs": structs_in(self.annotations.values())}

    def __setstate__(self, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        made_of, extras = state
        note_structs(extras.pop("structs"))
        super().__setstate__((made_of, extras))

    @property
    def rule_functions(self) -> tuple[ThreadKernel, ...]:
        """The derivative rules that were given."""
        return tuple(self.rules.values())

    def take_rules(self, other: ThreadKernel, change: Callable[[Any], Any]) -> None:
        """Have the rules of another kernel, each as ``change(rule)`` gives it."""
        self.rules = {mode: change(rule) for mode, rule in other.rules.items()}

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """The annotations of the parameters, evaluated where they are text.

        Text that names nothing known, such as a class inside a function, says nothing.
        """
        return {p.name: annotation_of(_evaluated(self.pyfunc, p.annotation))
                for p in self.signature.parameters.values()
                if p.annotation is not p.empty}

    @cached_property
    def _known(self) -> KnownLaunches:
        converted = [n for n, a in self.annotations.items()
                     if isinstance(a, type) and issubclass(a, np.generic)]
        return KnownLaunches(frozenset(self._literals), converted)

    def flatten(self, arguments: Mapping[str, Any],
                check: bool = True) -> FlatArguments:
        """Take arguments apart into arrays and numbers."""
        known = {n: literal(arguments[n]) for n in self._literals}
        return flatten_arguments(self.__name__, {**arguments, **known},
                                 self.annotations, check)

    def spec(self, flat: FlatArguments, shared: int = 0) -> Raw:
        """The kernel for arguments of these shapes and bytes of dynamic memory."""
        return self._sized(flat, shared)[0]

    def launched(self, flat: FlatArguments, options: Options) -> tuple[Raw, Options]:
        """The kernel of a launch, and the options without bytes that it has taken."""
        spec, rest = self._sized(flat, options.shared)
        return spec, options if rest == options.shared else replace(
            options, shared=rest)

    def _sized(self, flat: FlatArguments, shared: int) -> tuple[Raw, int]:
        """The kernel and the bytes left of `shared`; parsed when they first come."""
        key = flat.key, shared
        found = self._specs.get(key)
        if found is None:
            function, rest = with_shared_sizes(parse(
                self.pyfunc, parameters=flat.shapes, returns=False), shared)
            found = self._specs[key] = Raw(preferring(function, self.prefer),
                                           flat.kinds), rest
        return found

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch on an argument for each parameter."""
        if self._known.start(arguments, options):
            return
        if is_taped(arguments):
            launch_taped(self, arguments, options)
            return
        flat = self.flatten(arguments, options.check)
        spec, left = self.launched(flat, options)
        spec, flat = played_back(spec, flat, left)
        found = contents_of(spec, flat) if config.debug else {}
        kernel = self.run(spec, flat, left)
        if kernel is not None:
            self._known.remember(arguments, options, flat, kernel)
        self.last = (found, contents_of(spec, flat)) if found else ({}, {})

    def defvjp(self, rule: Callable[..., Any] | ThreadKernel) -> ThreadKernel:
        """Give ``bwd`` by hand: a kernel with parameters of the same names.

        Where ``bwd`` is called with a pair ``(x, dx)``, the rule's parameter `x` is a
        struct with the fields ``primal`` and ``derivative``.  An array that comes
        alone can be read so too: it is its own ``primal``, and its ``derivative`` reads
        as 0 and ignores what is added.  The parameters may be in any order.  ``fwd`` of
        a kernel with this rule only is refused: see `defjvp`.

        Returns
        -------
        ThreadKernel
            The rule.

        Examples
        --------
        >>> import numpy as np
        >>> import nbfused as nf
        >>> @nf.rawkernel(differentiable=True)
        ... def square(x, y):
        ...     i = nf.grid(1)
        ...     y[i] = x[i] * x[i]
        >>> @square.defvjp
        ... def rule(x, y):
        ...     i = nf.grid(1)
        ...     x.derivative[i] += 2 * x.primal[i] * y.derivative[i]
        >>> x, dx = np.arange(3.0), np.zeros(3)
        >>> square.bwd((1,), (3,), ((x, dx), (x, np.ones(3))))
        >>> dx
        array([0., 2., 4.])
        """
        return self._define("bwd", rule)

    def defjvp(self, rule: Callable[..., Any] | ThreadKernel) -> ThreadKernel:
        """Give ``fwd`` by hand, as `defvjp` does ``bwd``."""
        return self._define("fwd", rule)

    def _define(self, mode: str,
                rule: Callable[..., Any] | ThreadKernel) -> ThreadKernel:
        made = rule if isinstance(rule, ThreadKernel) else ThreadKernel(rule)
        if made is not rule:  # what is frozen into the kernel is known to its rule
            made._literals = tuple(dict.fromkeys((*made._literals, *self._literals)))
            made.annotations = {**elements_of(self.annotations), **made.annotations}
        if set(made.signature.parameters) != set(self.signature.parameters):
            raise KernelTypeError(
                f"the rule {made.__name__}{made.signature} of {self.__name__} must "
                f"have its parameters, {', '.join(self.signature.parameters)}")
        self.rules[mode] = made
        return made

    def source(self, kind: str = "primal", *args: Any) -> str:
        """Text of the kernel.

        Parameters
        ----------
        kind : {"primal", "vjp", "jvp", "numba", "ptx", "hip"}
            ``"primal"`` is the kernel in the scalar language with everything that it
            calls; ``"vjp"`` and ``"jvp"`` are ``bwd`` and ``fwd``, with a derivative
            for every floating array.  ``"numba"`` is what Numba compiles on the CPU
            and on CUDA, ``"ptx"`` what it makes of that on CUDA, ``"hip"`` what is
            compiled on ROCm.
        *args
            Arguments of a launch; those of the first one if left out.
        """
        return SourceText(kernel_source(self, kind, self._launchable("source", args)))

    def checkpoint_bytes(self, *args: Any) -> dict[str, int]:
        """Bytes that loops of ``bwd`` record, for each thread.

        Parameters
        ----------
        *args
            Arguments of a launch; those of the first one if left out.

        Returns
        -------
        dict
            What each preference takes, ``"checkpoint"`` and ``"recompute"``, for the
            derivative with respect to every floating array; 0 under a rule by hand.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> @nf.rawkernel(differentiable=True)
        ... def power(x, y, n):
        ...     i = nf.grid(1)
        ...     p = 1.0
        ...     for _ in range(n):
        ...         p *= x[i]
        ...     y[i] = p
        >>> power.checkpoint_bytes(np.ones(3), np.ones(3), 7)
        {'checkpoint': 512, 'recompute': 128}
        """
        return recorded_bytes(self, self._launchable("checkpoint_bytes", args))

    def _launchable(self, method: str, args: tuple[Any, ...]) -> Launchable:
        """The kernel of a launch on `args`, or of the first launch."""
        if not args and not self._compiled:
            raise KernelTypeError(f"{self.__name__}.{method}: types are not known "
                                  "before the first launch; give arguments of one")
        return for_arguments(self, args) if args else \
            next(iter(self._compiled.values()))

    def as_op(self, *, outputs: Mapping[str, Any], grid: Any, block: Any,
              shared_mem: Any = 0) -> KernelOp:
        """Make an operation on arrays and Variables of the kernel.

        Parameters
        ----------
        outputs : dict
            For each parameter that is a result, how to make it: the name of an argument
            that it is like (``"p.x"`` in a struct), ``(shape, dtype)``, or a function
            of the arguments, by their names, that gives one of these.
        grid, block : int, tuple of int or callable
            Of the launches; or functions of arguments and outputs, by their names.
        shared_mem : int or callable
            Bytes of dynamic shared memory, likewise.

        Returns
        -------
        KernelOp
            Called with the other parameters, also structs and tuples with Variables.
            Its gradient is ``bwd``.

        Examples
        --------
        >>> import nbfused as nf
        >>> @nf.rawkernel(differentiable=True)
        ... def square(x, y):
        ...     i = nf.grid(1)
        ...     if i < x.shape[0]:
        ...         y[i] = x[i] * x[i]
        >>> op = square.as_op(outputs={"y": "x"}, block=64,
        ...                   grid=lambda x, y: (len(x) + 63) // 64)
        >>> x = nf.Variable([3.0, 4.0], requires_grad=True)
        >>> op(x).sum().backward()
        >>> x.grad
        array([6., 8.])
        """
        return KernelOp(self, outputs, grid, block, shared_mem)

    def __repr__(self) -> str:
        return f"<nbfused rawkernel {self.__name__}{self.signature}>"


def _check_pyfunc(pyfunc: Any) -> None:
    if not isinstance(pyfunc, (FunctionType, MethodType)):
        raise KernelTypeError(
            "nf.rawkernel must decorate a Python function of arrays and numbers, got "
            f"{pyfunc!r}; write a def that stores its results into arrays")


def _evaluated(pyfunc: Callable[..., Any], annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {}, namespace(pyfunc))
    except (NameError, AttributeError, TypeError, SyntaxError):
        return None


@overload
def rawkernel(pyfunc: Callable[..., Any]) -> ThreadKernel: ...
@overload
def rawkernel(*, differentiable: bool = False, prefer: str | None = None,
              ) -> Callable[[Callable[..., Any]], ThreadKernel]: ...
def rawkernel(pyfunc: Callable[..., Any] | None = None, *, differentiable: bool = False,
              prefer: str | None = None,
              ) -> ThreadKernel | Callable[[Callable[..., Any]], ThreadKernel]:
    """Make a Python function a kernel that every thread of a grid of blocks runs.

    Parameters
    ----------
    pyfunc : callable
        In the scalar language, with arrays indexed by as many integers as they have
        dimensions.  It returns nothing.  Parameters may be annotated with `View` and
        `DiffView`, with a NumPy scalar type, with a NamedTuple or a dataclass.
    differentiable : bool
        Whether parameters without an annotation that are floating arrays have a
        derivative, as those annotated with `DiffView` always do.
    prefer : {"checkpoint", "recompute"}, optional
        What loops do for ``bwd``: record much of what they go through (the default), or
        little and compute it again; see `ThreadKernel.checkpoint_bytes`.

    Returns
    -------
    ThreadKernel
        Launched as ``k(grid, block, args)``, ``k[grid, block](*args)`` or
        ``k(x=x, y=y).launch(grid=grid, block=block)``.

    Notes
    -----
    Arguments are arrays of one library on one device, numbers (Python's are int64 and
    float64, NumPy's what their dtype says), and tuples, dicts, namedtuples,
    dataclasses and structured NumPy scalars of these.

    Indices are not compared with extents: beyond an array lies memory of others, also
    on the CPU.  Under ``NBFUSED_DEBUG=1`` they are: what lies outside is left alone,
    and after the launch it is a `RangeError`, an `IndexError`.

    Floating atomic ``min`` and ``max`` give NaN if either operand is, as NumPy's do.
    On the CPU a warp has 32 threads too, and threads of a block take turns at barriers
    only: one that waits for another in a loop of its own waits for ever.  A barrier
    that some threads of a block never reach is a `BarrierError` there; a GPU hangs or
    goes on with anything.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.rawkernel
    ... def double(x, y, n):
    ...     i = nf.grid(1)
    ...     if i < n:
    ...         y[i] = 2 * x[i]
    >>> x, y = np.arange(5.0), np.zeros(5)
    >>> double((1,), (32,), (x, y, 5))
    >>> y
    array([0., 2., 4., 6., 8.])
    """
    make = counting_decorator(
        lambda function: ThreadKernel(function, differentiable, prefer))
    return make if pyfunc is None else make(pyfunc)
