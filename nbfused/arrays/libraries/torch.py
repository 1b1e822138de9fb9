"""PyTorch tensors, on the host and on CUDA or ROCm devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from ...errors import KernelTypeError
from ...support.loop_nests import dense_strides
from ..description import Array, Reading
from ..devices import ordinal, torch_device
from ..dtypes import SUPPORTED, check_address
from .numpy import host_view
from .torch_inside import allocation, are_tracked, increments

__all__ = ["TORCH", "TorchLibrary", "refuse_tracing", "stands_for_others"]


#: A function written in C, and the very object that it gives in a usual call.
Question = tuple[Callable[..., Any], Any]


class TorchLibrary:
    """The library interface of `torch.Tensor` and its subclasses."""

    name = "torch"
    writable = True
    differentiates = True

    def describe(self, x: Any, name: str) -> Array:
        """Describe a dense tensor.

        Raises
        ------
        KernelTypeError
            If it is sparse, quantised, lazily conjugated, or has no storage; of a
            subclass that computes otherwise; or while TorchScript traces.
        """
        dtype = _dtypes().get(x.dtype)
        if stands_for_others(x):
            _refuse_traced(x, name)
        _check_plain(x, name)
        if dtype is None or _unusual(x):
            _refuse(x, name)
        if _torch()._C._get_tracing_state() is not None:
            refuse_tracing(name)
        device = _device(x.device, name)
        try:
            pointer = x.data_ptr() or _address_without_storage(x)
        except RuntimeError as error:  # FakeTensor, vmap and other transforms
            raise KernelTypeError(
                f"{name}: a {type(x).__name__} without storage of its own, such as "
                "is_grads_batched=True makes; use torch.func.vmap, and tensors whose "
                "storage was not freed") from error
        stream = None if device == "cpu" else self.stream(device)
        check_address(pointer, dtype, name)
        return Array(pointer, tuple(x.shape), x.stride(), dtype, device, stream, False,
                     self, x)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate with PyTorch's allocator."""
        return self.maker(shape, dtype, device)()

    def reading(self) -> Reading:
        """The text by which calls read a tensor that autograd ignores."""
        return Reading("{x}.data_ptr() or nowhere({x})", (
            "{x}.dtype", "{x}.shape", "{x}.stride()", "{x}.device", "{x}.layout",
            "{x}.is_conj()", "{x}.is_neg()", "{x}.is_nested"),
            unless="{x}.requires_grad and is_grad_enabled()",
            unless_now="forward_ad._current_level >= 0 or tracing() is not None or "
                       "modes() or transforms()",
            names=(("is_grad_enabled", _torch().is_grad_enabled),
                   ("forward_ad", _torch().autograd.forward_ad),
                   ("tracing", _torch()._C._get_tracing_state),
                   ("modes", _torch()._C._len_torch_dispatch_stack),
                   ("transforms", _torch()._C._are_functorch_transforms_active),
                   ("nowhere", _address_without_storage)))

    def plain(self) -> Callable[[Sequence[Any]], bool]:
        """A function that asks whether autograd ignores tensors, and none is negated.

        Of such ones, if they are not complex, DLPack's header says everything.
        """
        torch = _torch()
        enabled, tracing = torch.is_grad_enabled, torch._C._get_tracing_state
        modes = torch._C._len_torch_dispatch_stack
        transforms = torch._C._are_functorch_transforms_active
        forward_ad, is_neg = torch.autograd.forward_ad, torch.Tensor.is_neg
        any_tracked = are_tracked()

        def is_plain(tensors: Sequence[Any]) -> bool:
            if forward_ad._current_level >= 0 or tracing() is not None or modes() or \
                    transforms():
                return False
            if enabled() and any_tracked(*tensors):
                return False
            return not any(map(is_neg, tensors))

        return is_plain

    def questions(self) -> tuple[tuple[Question, ...], tuple[Question, ...], Question]:
        """The questions of `plain`, for machine code.

        Returns
        -------
        of_calls, of_tensors
            Questions about PyTorch, and about each tensor.
        quiet
            The one whose answer makes the last question about tensors superfluous.
        """
        torch = _torch()
        level = partial(getattr, torch.autograd.forward_ad, "_current_level")
        return (
            ((level, -1), (torch._C._get_tracing_state, None),
             (torch._C._len_torch_dispatch_stack, 0),
             (torch._C._are_functorch_transforms_active, False)),
            ((torch.Tensor.is_neg, False), (attrgetter("requires_grad"), False)),
            (torch.is_grad_enabled, False))

    def from_numpy(self, host: np.ndarray, device: str) -> Any:
        """Copy an array from the host."""
        return _torch().from_numpy(np.asarray(host, order="C")).to(_place(device))

    def maker(self, shape: tuple[int, ...], dtype: np.dtype, device: str,
              ) -> Callable[[], Any]:
        """A function that allocates with PyTorch's allocator."""
        return self.strided_maker(shape, dense_strides(shape), dtype, device)

    def strided_maker(self, shape: tuple[int, ...], strides: tuple[int, ...],
                      dtype: np.dtype, device: str) -> Callable[[], Any]:
        """A function that allocates tensors with these strides.

        They are no views, which PyTorch would not let change in place where a call of
        ours has given them.
        """
        theirs = _names()[dtype]
        quick = allocation("cpu" if device == "cpu" else "cuda")
        if quick is not None:
            return partial(quick, shape, strides, theirs)
        # Given the strides it takes two thirds of the time of `empty`.
        return partial(_torch().empty_strided, shape, strides, dtype=theirs,
                       device=_place(device))

    def pointer(self, native: Any) -> int:
        """The tensor's address."""
        return int(native.data_ptr())

    @property
    def address_reader(self) -> Callable[[Any], int]:
        """`pointer` as a function written in C."""
        return _torch().Tensor.data_ptr

    def view(self, native: Any, shape: tuple[int, ...], strides: tuple[int, ...],
             offset: int) -> Any:
        """View the same memory with other strides.

        Raises
        ------
        KernelTypeError
            If a stride is negative, which tensors cannot have.
        """
        if min(strides, default=0) < 0:
            raise KernelTypeError(
                f"torch tensors have no negative strides, got {strides}; use "
                "torch.flip, which copies")
        return native.as_strided(shape, strides, native.storage_offset() + offset)

    def viewer(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...],
               offset: int) -> Callable[[Any], Any]:
        """A function that views tensors which are laid out like `x`, as `view` does.

        Where they begin at the same place it is one written in C.
        """
        as_strided = _torch().as_strided
        if offset == 0:
            return partial(as_strided, size=shape, stride=strides)
        return lambda x: as_strided(x, shape, strides, x.storage_offset() + offset)

    def stream(self, device: str) -> int:
        """Handle of ``torch.cuda.current_stream``."""
        if device == "cpu":
            return 0
        return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(ordinal(device)))

    def streams(self, device: str) -> Callable[[], int]:
        """A function that returns the handle of the current stream."""
        if device == "cpu":
            return int
        return partial(sys.modules["torch"]._C._cuda_getCurrentRawStream,
                       ordinal(device))

    def free_cache(self, device: str) -> None:
        """Empty PyTorch's caching allocator."""
        if device != "cpu":
            _torch().cuda.empty_cache()

    def tracks(self, x: Any) -> bool:
        """Whether autograd, in either mode, records operations on `x`."""
        torch = sys.modules["torch"]
        if (x.requires_grad and torch.is_grad_enabled()) or stands_for_others(x):
            return True
        return _forward_mode(torch) and \
            torch.autograd.forward_ad.unpack_dual(x).tangent is not None

    def symbolic(self, x: Any) -> bool:
        """Whether PyTorch traces or transforms what is done with `x`."""
        return stands_for_others(x)

    def wrote(self, arrays: Sequence[Any]) -> None:
        """Tell PyTorch's autograd that these were written to in place."""
        increments()(arrays)

    #: PyTorch's count of the writes to a tensor or to its base; RuntimeError of one of
    #: inference mode.  Not a function of Python: the tape asks for it twice an operand.
    version = attrgetter("_version")

    def counted(self, x: Any) -> tuple[int, int]:
        """The addresses of the tensors that have one counter with `x`."""
        storage = x.untyped_storage()
        low = int(storage.data_ptr())
        return low, low + int(storage.nbytes())

    def finish(self, native: Any) -> Any:
        """Return the tensor unchanged."""
        return native

    def to_host(self, x: Any) -> np.ndarray:
        """Share the memory of a tensor on the host; copy from a device."""
        if type(x) is _torch().Tensor and x.device.type == "cpu" and \
                not x.requires_grad and not _unusual(x) and x.dtype in _shared() and \
                _torch()._C._get_tracing_state() is None:
            with suppress(RuntimeError):  # PyTorch knows another NumPy, or none
                return x.numpy()
        _check_plain(x, "tensor")
        _device(x.device, "tensor")
        return host_view(self.describe(x.detach().resolve_conj().resolve_neg().cpu(),
                                       "tensor"))


TORCH = TorchLibrary()


def _torch() -> Any:
    return sys.modules["torch"]  # there is a tensor, so somebody imported it


@cache
def _dtypes() -> dict[Any, np.dtype]:
    """NumPy's dtypes by PyTorch's; older versions lack some."""
    torch = _torch()
    pairs = ((getattr(torch, dtype.name, None), dtype) for dtype in SUPPORTED)
    return {theirs: ours for theirs, ours in pairs if theirs is not None}


@cache
def _shared() -> frozenset[Any]:
    """PyTorch's dtypes that NumPy has by itself."""
    return frozenset(theirs for theirs, ours in _dtypes().items()
                     if ours.kind in "biufc")


@cache
def _place(device: str) -> Any:
    """Convert PyTorch's device; it calls ROCm devices cuda."""
    kind = "cpu" if device == "cpu" else "cuda"
    return _torch().device(kind, ordinal(device)) if kind == "cuda" else \
        _torch().device(kind)


@cache
def _names() -> dict[np.dtype, Any]:
    return {ours: theirs for theirs, ours in _dtypes().items()}


def stands_for_others(x: Any) -> bool:
    """Whether PyTorch is to see what is done with a tensor: it traces, or transforms.

    A mode that watches operations, as those of ``torch.utils.checkpoint``, is to, too,
    and so is a transform of `torch.func` where none of the tensors is its own: what is
    allocated inside of it has no memory that a kernel could be given.
    """
    torch = sys.modules["torch"]
    return isinstance(x, torch.Tensor) and (
        type(x).__module__ in _TRACERS or
        torch._C._functorch.is_functorch_wrapped_tensor(x) or
        torch._C._len_torch_dispatch_stack() > 0 or
        torch._C._are_functorch_transforms_active())


#: Modules of the tensors that PyTorch's compilers compute with.
_TRACERS = frozenset(("torch._subclasses.fake_tensor",
                      "torch._subclasses.functional_tensor"))


def _forward_mode(torch: Any) -> bool:
    """Whether forward-mode automatic differentiation is active."""
    level: int = torch.autograd.forward_ad._current_level
    return level >= 0


def _address_without_storage(x: Any) -> int:
    """The address 0 of an empty tensor; `RuntimeError` for one without storage."""
    if x.numel():
        raise RuntimeError("no storage")
    return 0


def _unusual(x: Any) -> bool:
    return (x.layout is not _torch().strided or x.is_nested
            or x.is_conj() or x.is_neg())


@cache
def _computes_otherwise(kind: type) -> bool:
    """Whether a subclass redefines its operations, as DTensor does."""
    torch = _torch()
    functions = (torch.Tensor.__torch_function__.__func__,
                 torch._C._disabled_torch_function_impl)
    function: Any = kind.__torch_function__  # type: ignore[attr-defined]
    dispatch: Any = kind.__torch_dispatch__  # type: ignore[attr-defined]
    return getattr(function, "__func__", function) not in functions or \
        dispatch is not torch.Tensor.__torch_dispatch__


def _check_plain(x: Any, name: str) -> None:
    """Raise `KernelTypeError` for a subclass that redefines its operations."""
    kind: Any = type(x)
    if kind is _torch().Tensor or not _computes_otherwise(kind):
        return
    raise KernelTypeError(
        f"{name} is a {kind.__module__}.{kind.__qualname__}, a tensor that says itself "
        "what is computed with it, which kernels would pass over; expected a plain "
        f"one: use {name}.as_subclass(torch.Tensor), or the tensor that it wraps, and "
        "wrap the result again")


def refuse_tracing(name: str) -> NoReturn:
    """Raise `KernelTypeError` for a call that torch.jit.trace would not see."""
    raise KernelTypeError(
        f"{name}: torch.jit.trace records PyTorch's own operations only, and would "
        "keep an empty tensor in place of a kernel's result; expected a call outside "
        "of it: split the module there, or trace what is around it")


def _refuse_traced(x: Any, name: str) -> NoReturn:
    raise KernelTypeError(
        f"{name} is a {type(x).__name__} that PyTorch traces or transforms, and has no "
        "elements yet, which are needed here; inside of torch.compile, torch.export "
        "and torch.func call operations of nf.ops and decorated functions on tensors; "
        "call anything else outside of them")


def _device(device: Any, name: str) -> str:
    if device.type in ("cpu", "cuda"):
        return torch_device(device)
    way_out = f"{name}.to('cpu')"
    if device.type == "meta":  # it has no elements that could be moved
        way_out = f"torch.empty_like({name}, device='cpu'), and fill it"
    raise KernelTypeError(
        f"{name} is on {device}, where there are no kernels; expected cpu or cuda; use "
        f"{way_out}")


def _refuse(x: Any, name: str) -> NoReturn:
    if x.is_quantized:
        what, way = "quantised", "dequantize()"
    elif x.is_nested:
        what, way = "nested", "to_padded_tensor(0.0)"
    elif x.layout is not _torch().strided:
        what, way = f"sparse ({x.layout})", "to_dense()"
    elif x.dtype not in _dtypes():
        what, way = f"{x.dtype}", "to(torch.float32)"
    elif x.is_conj():
        what, way = "lazily conjugated", "resolve_conj()"
    else:
        what, way = "lazily negated", "resolve_neg()"
    raise KernelTypeError(
        f"{name}: {what} tensors have no kernels; expected a dense tensor; use "
        f"{name}.{way}")
