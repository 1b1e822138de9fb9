"""`ElementwiseKernel`: CuPy's, with bodies in C or Python, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of
from ...autograd.compilers.dynamo import called_whole
from ...errors import DefinitionError, UnsupportedError
from ...op.base import is_number, unpack_single
from ...op.kernel_counts import count_kernel
from ...op.keywords import check_keywords
from ...scalar.cparse import LOOP
from ...scalar.ir.nodes import Function
from ...scalar.source.definitions import keep_sources
from ...support.display import SourceText
from .arguments import check_block_size, on_stream, split
from .bodies import Body, Ranks, check_language, elementwise_body, typed_text
from .codes import CachedCodes
from .parameters import (
    ParameterInfo,
    check_name,
    check_texts,
    check_unique,
    ignore_options,
    parse_parameters,
    resolve_types,
)
from .prepared import (
    Prepared,
    check_outputs,
    indexed,
    input_kinds,
    loop_shape,
    signature,
)
from .sources import kernel_source

__all__ = ["ElementwiseKernel"]

Types = tuple[tuple[str, np.dtype], ...]


class ElementwiseKernel(CachedCodes):
    """A kernel that computes each element of its outputs, as CuPy defines them.

    Parameters
    ----------
    in_params, out_params : str
        ``"float32 x, raw T y"``: a dtype or a letter that stands for any, and a name.
        A ``raw`` array is not broadcast; the body indexes it.
    operation : str or callable
        The body.  A string is C: the names of the outputs are assigned.  A Python
        function takes inputs by their names (and, if it wants, `i` and `n`) and returns
        the outputs.
    name : str
        Of the kernel.
    reduce_dims : bool
        Without effect: axes are merged where that changes no result.
    preamble : str
        ``__device__`` functions, templates of types, and macros in C.
    no_return, return_tuple : bool
        Return None, or a tuple although there is one output.
    language : {"c", "python"}, optional
        What a string is.
    options : tuple
        Of NVRTC, which compiles none of this: ignored with a warning.
    loop_prep : str
        Statements in C before those of the first element: declarations of what all
        elements share, which the body must not change.
    after_loop : str
        Refused: what runs once per thread has no meaning here.

    Attributes
    ----------
    nin, nout, nargs : int
        Numbers of parameters.
    in_params, out_params, params : tuple of ParameterInfo
        Each has `name`, `dtype` (None for a letter), `ctype` and `raw`.

    Raises
    ------
    DefinitionError
        A `ValueError`: a type that is no dtype, a reserved name (``i``, ``_x``),
        an invalid name or option.
    ScalarSyntaxError
        At the first call: C that is not understood, with its line.

    Notes
    -----
    C means what it means to CUDA: ``0.5`` is a double, ``0.5f`` a float, ``/`` and
    ``%`` of integers round to zero, small integers compute as int, float16 as float.
    What is undefined in C is not here: a variable begins as 0, an output of which the
    body leaves an element unassigned keeps it, or is 0 if it is a new array.
    Raw arrays are indexed as they are; what lies outside is a `RangeError`, an
    `IndexError`, under ``NBFUSED_DEBUG=1`` only.
    Differentiable in every floating input, by `Variable` or `nf.grad`.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> squared_diff = nf.ElementwiseKernel(
    ...     "T x, T y", "T z", "T diff = x - y; z = diff * diff;", "squared_diff")
    >>> squared_diff(np.arange(3.0), 1)
    array([1., 0., 1.])
    """

    def __init__(self, in_params: str, out_params: str,
                 operation: str | Callable[..., Any], name: str = "kernel",
                 reduce_dims: bool = True, preamble: str = "", no_return: bool = False,
                 return_tuple: bool = False, *, language: str | None = None,
                 options: Sequence[str] = (), loop_prep: str = "",
                 after_loop: str = "") -> None:
        check_name(name)
        called_whole(self)
        self.in_params: tuple[ParameterInfo, ...] = parse_parameters(
            in_params, "in_params")
        self.out_params: tuple[ParameterInfo, ...] = parse_parameters(
            out_params, "out_params")
        self.params: tuple[ParameterInfo, ...] = self.in_params + self.out_params
        check_unique(self.params)
        if not self.out_params:
            raise DefinitionError(f"'out_params' of {name} is empty; name what the "
                                  "body stores, as in 'T y' or 'raw T y'")
        check_texts(preamble=preamble, loop_prep=loop_prep, after_loop=after_loop)
        python = check_language(operation, language, preamble)
        if after_loop:
            raise UnsupportedError(
                "'after_loop' runs once for each thread, of which an elementwise "
                "kernel here has none of its own; write what each element needs "
                "into the body, or use nf.rawkernel")
        if loop_prep and python:
            raise DefinitionError("'loop_prep' is C; a body in Python has its "
                                  "constants in the function or around it")
        ignore_options(name, options)
        self.nin: int = len(self.in_params)
        self.nout: int = len(self.out_params)
        self.nargs: int = self.nin + self.nout
        self.name = name
        self.__name__: str = name
        self.operation: Any = operation
        self.preamble: str = preamble
        self.reduce_dims = reduce_dims
        self.no_return: bool = no_return
        self.return_tuple: bool = return_tuple
        self._body = Body(operation, preamble, python, loop_prep)
        super().__init__()
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        count_kernel(name)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: nothing prepared; a Python body carries its source."""
        keep_sources(self.operation)
        return {**self.__dict__, "_codes": {}, "_prepared": {}}

    def __repr__(self) -> str:
        ins, outs = (", ".join(f"{'raw ' * p.raw}{p.ctype} {p.name}" for p in ps)
                     for ps in (self.in_params, self.out_params))
        return f"<nbfused ElementwiseKernel {self.name}({ins}) -> ({outs})>"

    def source(self, kind: str = "primal", dtype: str = "float32") -> str:
        """The text of what runs.

        Parameters
        ----------
        kind : {"primal", "vjp", "jvp", "numba", "ptx", "hip"}
            As of an ``@nf.elementwise`` function.  In ``"vjp"`` an array for each raw
            input comes last; what is added to it is its gradient.
        dtype : str
            What the placeholders stand for.
        """
        types = {p.ctype: check_dtype(dtype) for p in self.params if p.dtype is None}
        ranks = tuple((p.name, self._body.axes(p.name)) for p in self.params if p.raw)
        ranks += ((LOOP, self._body.axes(LOOP)),) if self._body.places else ()
        function = self._function(self.in_params, tuple(types.items()), ranks)
        return SourceText(kernel_source(
            function, self.in_params, self.out_params,
            tuple(p.dtype or types[p.ctype] for p in self.params), kind))

    def __call__(self, *args: Any, size: int | None = None, block_size: int = 128,
                 stream: Any = None, out: Any = None, **unknown: Any) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *args
            Inputs: arrays that broadcast together, raw arrays, numbers, which take the
            type of their parameter.  Then all outputs, or none.
        size : int, optional
            Number of points; needed, and allowed, where no array decides it.
        block_size : int
            From 1 to 1024; the launch chooses its own.
        stream : stream, optional
            To launch on; default: the current one of the arrays' library.
        out : array or tuple of array, optional
            The outputs, by keyword.
        **unknown
            Refused.

        Returns
        -------
        array, tuple of array or None

        Raises
        ------
        KernelTypeError
            Another keyword, a wrong number of arguments, an array of another dtype
            than declared, two dtypes for one letter, a letter that cannot be inferred.
        ShapeError
            A size that is undecided or superfluous, shapes that do not fit.
        """
        if unknown:
            check_keywords(self.name, unknown, ("size", "block_size", "stream", "out"))
        check_block_size(block_size, self.name)
        given, outs = split(self.name, self.in_params, self.out_params, args, out)
        with on_stream(stream, self.name):
            results = self._run(given, outs, size)
        if self.no_return:
            return None
        return results if self.return_tuple else unpack_single(results)

    def _run(self, inputs: list[Any], outs: list[Any],
             size: int | None) -> tuple[Any, ...]:
        key = signature(self.params, inputs, outs, size), self._rank(inputs, outs)
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = self._prepare(inputs, outs, size)
        return found.run(inputs, outs, size)

    def _prepare(self, inputs: list[Any], outs: list[Any],
                 size: int | None) -> Prepared:
        made, given = ([None if x is None or is_number(x) else
                        check_dtype(dtype_of(x), f"{self.name}: '{p.name}'")
                        for p, x in zip(params, values, strict=True)]
                       for params, values in ((self.out_params, outs),
                                              (self.in_params, inputs)))
        numbers = {p.name: x for p, x in zip(self.in_params, inputs, strict=True)
                   if is_number(x)}
        types = resolve_types(self.name, (*self.out_params, *self.in_params),
                              (*made, *given), numbers)
        dtypes = [p.dtype or types[p.ctype] for p in self.params]
        in_params = indexed(self.in_params, inputs)
        kinds = input_kinds(in_params, inputs)
        check_outputs(self.name, self.out_params, outs, size)
        ranks = tuple((p.name, 1 if x is None else len(x.shape)) for p, x in zip(
            (*in_params, *self.out_params), (*inputs, *outs), strict=True) if p.raw)
        axes = self._rank(inputs, outs)
        ranks += ((LOOP, axes),) if axes is not None else ()
        function = self._function(in_params, tuple(types.items()), ranks)
        key = tuple(d for d in given if d is not None)
        raw = frozenset(p.name for p in (*in_params, *self.out_params) if p.raw)
        self._keep_code(key, lambda: typed_text(function, dtypes, raw))
        return Prepared(self.name, in_params, self.out_params, self._body.python,
                        function, kinds, tuple(dtypes),
                        tuple(x is not None for x in outs), size is not None)

    def _rank(self, inputs: list[Any], outs: list[Any]) -> int | None:
        """The number of axes of the loop, where the body asks for it."""
        if not self._body.places:
            return None
        return len(loop_shape((*self.in_params, *self.out_params), (*inputs, *outs)
                              ) or (0,))

    def _function(self, in_params: tuple[ParameterInfo, ...], types: Types,
                  ranks: Ranks) -> Function:
        return elementwise_body(self._body, self.name, in_params, self.out_params,
                                types, ranks)
