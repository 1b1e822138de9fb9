"""The three ways to launch a kernel: CuPy's, Numba's, and Slang's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...autograd.versions import note_write
from ...backend import Extents, Launcher
from ...dispatch.raw import Launchable, check_written, launch, prepare
from ...errors import KernelTypeError, RangeError
from ...op.keywords import check_keywords
from ...scalar.typing.types import Weak
from ...specs import Raw
from ...support.records import record
from ..cupy.launching import as_integer, bytes_of_shared, stream_handle
from .arguments import FlatArguments, Leaf
from .extents import block_extents, grid_extents
from .guards import blocks_of, dim_extents, guarded

__all__ = ["Bound", "Configured", "LaunchConfig", "Launching", "Options",
           "Places", "start_kernel"]

_DEFAULT_SHARED = 48 * 1024
#: Grids and blocks that a kernel remembers.
_MOST = 256
#: The types of options that are known by their values, and of a tuple's members.
_PLAIN, _INTEGERS = {type(None), int, bool}, {int}
#: Keywords of a launch besides the kernel's own arguments.
_OPTIONS = ("shared_mem", "stream", "check")


class LaunchConfig:
    """Settings for later launches of a kernel."""

    def __init__(self) -> None:
        self._shared = _DEFAULT_SHARED

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Bytes of dynamic shared memory that a launch may have."""
        return self._shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        found = as_integer(size)
        if found is None or found < 0:
            raise RangeError(f"max_dynamic_shared_size_bytes: got {size!r}; expected "
                             "an integer, 0 or more")
        self._shared = found


@record(frozen=True)
class Places:
    """Results of atomic operations in a run, which a launch plays back.

    Attributes
    ----------
    replay
        The kernel that reads the tapes, its last arguments.
    tapes
        The arrays.
    """

    replay: Raw
    tapes: tuple[Leaf, ...]


@record(frozen=True)
class Options:
    """Options of a launch besides its arguments.

    Attributes
    ----------
    grid, block
        Checked.
    shared
        Bytes of dynamic shared memory, besides those of a dynamic shared array.
    stream
        A handle, or None for the current one of the arrays' library.
    check
        Whether arguments are validated.
    dim
        The numbers of threads that run; all of them where it is empty.
    places
        What is played back; None where the kernel itself runs.
    """

    grid: Extents
    block: Extents
    shared: int = 0
    stream: int | None = None
    check: bool = True
    dim: tuple[int, ...] = ()
    places: Places | None = None


def start_kernel(spec: Raw, leaves: Sequence[Leaf], options: Options,
                 note: Callable[[Launchable], None] | None = None) -> Launchable | None:
    """Launch a kernel on arguments that were taken apart; None of no threads.

    `note` is told what is launched.
    """
    if 0 in options.dim:
        return None
    spec, leaves = guarded(spec, leaves, options.dim)
    values = [leaf.value for leaf in leaves]
    kernel = prepare(spec, values, [leaf.name for leaf in leaves])
    if note is not None:
        note(kernel)
    launch(kernel, values, options.grid, options.block, shared=options.shared,
           stream=options.stream)
    return kernel


class Launching:
    """Base of kernels and their derivatives: the ways to launch them.

    Attributes
    ----------
    signature : inspect.Signature
        Of the Python function.
    launch_config : LaunchConfig
        Limits that can be raised.
    """

    def __init__(self, name: str, signature: inspect.Signature) -> None:
        self.__name__ = name
        self.signature = signature
        self.launch_config: LaunchConfig = LaunchConfig()
        self._compiled: dict[tuple[str, ...], Launchable] = {}
        self._launchers: set[Launcher] = set()
        self._checked: dict[Any, Options] = {}

    def start(self, arguments: Mapping[str, Any], options: Options) -> None:
        """Launch on an argument for each parameter."""
        raise NotImplementedError

    def run(self, spec: Raw, flat: FlatArguments,
            options: Options) -> Launchable | None:
        """Launch the kernel `spec` on arguments that were taken apart."""
        if options.check:
            check_written(spec, flat.values, flat.names)
        try:
            return start_kernel(spec, flat.leaves, options, partial(self._note, flat))
        finally:  # also where indices that lay outside are told of afterwards
            note_write([leaf.owner for p, leaf in
                        zip(spec.function.params, flat.leaves, strict=True)
                        if p in spec.written])

    def _note(self, flat: FlatArguments, kernel: Launchable) -> None:
        """Remember what was compiled."""
        if kernel.launcher not in self._launchers:
            self._launchers.add(kernel.launcher)
            self._compiled.setdefault(_signature(kernel, flat), kernel)

    def _check_shared(self, size: int) -> None:
        most = max(self.launch_config.max_dynamic_shared_size_bytes, _DEFAULT_SHARED)
        if size > most:
            raise RangeError(
                f"kernel {self.__name__!r}: shared_mem={size} bytes, at most {most} "
                "are allowed; raise launch_config.max_dynamic_shared_size_bytes")

    @property
    def cached_signatures(self) -> tuple[tuple[str, ...], ...]:
        """Argument types that it was compiled for: ``("float32[1]", "int")``.

        Literal parameters follow with their values: ``"n=4"``.
        """
        return tuple(self._compiled)

    @property
    def attributes(self) -> dict[tuple[str, ...], dict[str, int]]:
        """The compiled kernel's attributes for each of `cached_signatures`.

        ``num_regs``, ``shared_size_bytes``, ``local_size_bytes``,
        ``const_size_bytes``, ``max_threads_per_block`` and, on CUDA, whatever else the
        driver tells.  On the CPU there are no registers and no constant memory;
        ``local_size_bytes`` is what a thread keeps across barriers.
        """
        most = self.launch_config.max_dynamic_shared_size_bytes
        return {key: {**_attributes(kernel), "max_dynamic_shared_size_bytes": most}
                for key, kernel in self._compiled.items()}

    def _options(self, grid: Any, block: Any, shared_mem: Any = 0, stream: Any = None,
                 check: bool = True, dim: Any = None) -> Options:
        """The options of a launch, checked; once if they are but integers."""
        key = grid, block, dim, check
        plain = stream is None and type(shared_mem) is int and shared_mem == 0 and \
            _is_plain(grid) and _is_plain(block) and _is_plain(dim) and _is_plain(check)
        found = self._checked.get(key) if plain else None
        if found is None:
            others = shared_mem, stream, check
            found = self._by_grid(grid, block, *others) if dim is None else \
                self._by_dim(dim, block, *others)
            if plain:
                if len(self._checked) >= _MOST:
                    self._checked.clear()
                self._checked[key] = found
        return found

    def _by_grid(self, grid: Any, block: Any, shared_mem: Any, stream: Any,
                 check: bool) -> Options:
        label = f"kernel {self.__name__!r}"
        shared = bytes_of_shared(shared_mem, label)
        if check:
            self._check_shared(shared)
        return Options(grid_extents(grid, label), block_extents(block, label), shared,
                       None if stream is None else stream_handle(stream), bool(check))

    def _by_dim(self, dim: Any, block: Any, *options: Any) -> Options:
        """Options of a launch of so many threads."""
        label = f"kernel {self.__name__!r}"
        found = dim_extents(dim, label)
        grid, threads = blocks_of(
            found, None if block is None else block_extents(block, label))
        some = tuple(max(n, 1) for n in grid)
        return replace(self._by_grid(some, threads, *options), dim=found)

    def launch(self, *args: Any, dim: Any, block: Any = None, shared_mem: int = 0,
               stream: Any = None, check: bool = True) -> None:
        """Launch `dim` threads; those of a last block that is not full do nothing.

        Parameters
        ----------
        *args
            The arguments of the kernel.
        dim : int or tuple of int
            What ``nf.grid`` stays below, along as many axes.  A kernel with barriers,
            shuffles or shared arrays is refused.
        block : int or tuple of int, optional
            Threads of a block; 256 in all if left out.
        shared_mem, stream, check
            As for a call.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> @nf.rawkernel
        ... def double(x, y):
        ...     i = nf.grid(1)
        ...     y[i] = 2 * x[i]
        >>> x, y = np.arange(5.0), np.zeros(5)
        >>> double.launch(x, y, dim=len(x))
        >>> y
        array([0., 2., 4., 6., 8.])
        """
        if dim is None:
            self.bind(*args).launch(block=block)  # says what is missing
        self.start(self.arguments(args, {}), self._options(
            None, block, shared_mem, stream, check, dim))

    def arguments(self, args: Sequence[Any],
                  kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """An argument for each parameter, defaults filled in."""
        names = self.signature.parameters
        if not kwargs and len(args) == len(names):
            return dict(zip(names, args, strict=True))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            label = f"{self.__name__}({', '.join(names)})"
            check_keywords(label, kwargs, (*names, *_OPTIONS))
            raise KernelTypeError(f"{label}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def __call__(self, *args: Any, shared_mem: int = 0, stream: Any = None,
                 check: bool = True, **kwargs: Any) -> Any:
        """Launch as ``k(grid, block, args)``, or bind by keywords.

        Parameters
        ----------
        *args
            ``grid, block, args``: blocks, and threads in each, as integers or tuples
            of up to three; and a tuple of arguments.  Or nothing, and the arguments by
            keywords: then nothing is launched yet.
        shared_mem : int
            Bytes of dynamic shared memory.
        stream : optional
            A handle, or a stream of CuPy, PyTorch or cuda.core; by default the current
            one of the arrays' library.
        check : bool
            False: arguments are not compared with annotations, nor outputs checked.
        **kwargs
            Arguments by name.

        Returns
        -------
        Bound or None
            What `launch` starts, if only keywords were given.
        """
        if not args:
            return self.bind(**kwargs)
        if len(args) not in (2, 3) or not _are_extents(args[:2]):
            raise KernelTypeError(
                f"kernel {self.__name__!r} is called as k(grid, block, args) with a "
                "tuple of arguments, as k[grid, block](*args), or by keywords alone, "
                "k(x=x, y=y).launch(grid=..., block=...)")
        given = args[2] if len(args) == 3 else ()
        if not isinstance(given, (tuple, list)):
            raise KernelTypeError(f"kernel {self.__name__!r}: args is a "
                                  f"{type(given).__name__}; expected a tuple")
        options = self._options(args[0], args[1], shared_mem, stream, check)
        self.start(self.arguments(given, kwargs), options)
        return None

    def __getitem__(self, launch: tuple[Any, ...]) -> Configured:
        """``k[grid, block](*args)``; a stream and shared memory may follow."""
        if not isinstance(launch, tuple) or not 2 <= len(launch) <= 4:
            raise KernelTypeError(f"kernel {self.__name__!r} is configured as "
                                  "k[grid, block], or k[grid, block, stream, shared]")
        stream = launch[2] if len(launch) > 2 else 0
        shared = launch[3] if len(launch) > 3 else 0
        return Configured(self, launch[0], launch[1],
                          None if stream == 0 else stream, shared)

    def bind(self, *args: Any, **kwargs: Any) -> Bound:
        """Arguments to be launched with later."""
        return Bound(self, self.arguments(args, kwargs))


def _attributes(kernel: Launchable) -> dict[str, int]:
    launcher: Any = kernel.launcher
    found: dict[str, int] = launcher.attributes()
    return found


def _signature(kernel: Launchable, flat: FlatArguments) -> tuple[str, ...]:
    """The types of the arguments, and what was frozen, as text."""
    codes = iter(kernel.signature.inner)
    types = [t.kind if isinstance(t, Weak) else
             f"{t}[{next(codes)[1:]}]" if kind == "array" else str(t)
             for kind, t in zip(kernel.spec.kinds, kernel.signature.inputs,
                                strict=True)]
    return (*types, *(f"{n}={v}" for n, v in flat.frozen.items()))


def _is_plain(value: Any) -> bool:
    """True of None, an integer of Python, and a tuple of these."""
    kind = type(value)
    return {*map(type, value)} == _INTEGERS if kind is tuple else kind in _PLAIN


def _are_extents(values: Sequence[Any]) -> bool:
    return all(isinstance(v, (int, np.integer, tuple, list)) for v in values)


class Configured:
    """A kernel with its grid and block: called with its arguments."""

    def __init__(self, kernel: Launching, grid: Any, block: Any, stream: Any,
                 shared: Any) -> None:
        self.kernel = kernel
        self.launch: tuple[Any, Any, Any, Any] = grid, block, shared, stream

    def __call__(self, *args: Any, check: bool = True, **kwargs: Any) -> None:
        """Launch."""
        options = self.kernel._options(*self.launch, check)
        self.kernel.start(self.kernel.arguments(args, kwargs), options)


class Bound:
    """A kernel with its arguments: launched as often as one likes.

    Attributes
    ----------
    arguments : dict
        By the names of the parameters.
    """

    def __init__(self, kernel: Launching, arguments: dict[str, Any]) -> None:
        self.kernel: Launching = kernel
        self.arguments: dict[str, Any] = arguments

    def launch(self, *, grid: Any = None, block: Any = None, dim: Any = None,
               shared_mem: int = 0, stream: Any = None, check: bool = True,
               **unknown: Any) -> None:
        """Launch `grid` blocks of `block` threads, or `dim` threads in all."""
        name = f"{self.kernel.__name__}.launch"
        check_keywords(name, unknown, ("grid", "block", "dim", *_OPTIONS))
        if (grid is None) == (dim is None) or (dim is None and block is None):
            raise KernelTypeError(f"{name}: got grid={grid!r}, block={block!r}, "
                                  f"dim={dim!r}; expected grid and block, or dim")
        options = self.kernel._options(grid, block, shared_mem, stream, check, dim)
        self.kernel.start(self.arguments, options)

    def launchRaw(self, *, blockSize: Any, gridSize: Any, **options: Any) -> None:
        """`launch`, as slangtorch spells it."""
        self.launch(grid=gridSize, block=blockSize, **options)
