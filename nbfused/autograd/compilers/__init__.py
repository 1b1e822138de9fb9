"""Operations inside the compilers of PyTorch and JAX: one opaque call each.

================= =====================================================================
`dynamo`          the callables that PyTorch's compiler calls as they are
`identity`        calls of operations, with names that processes share
`jax_calls`       primitives of JAX with rules from the specs
`jax_ffi`         a handler for XLA's foreign function interface, by `ctypes`
`jax_kernels`     calls that a compiled program of JAX makes, by their numbers
`jax_views`       views by JAX's own functions
`pulling`         the pullback of a call, run by whoever traces it
`torch_callables` functions with a derivative on our tape, as ops of PyTorch
`torch_calls`     operations on tensors that PyTorch traces or transforms
`torch_gradient`  the derivative of an op of PyTorch, itself one op
`torch_kernels`   the functions that run ops of PyTorch on tensors with elements
`torch_names`     the namespace ``torch.ops.nbfused``, which finds ops by their names
`torch_ops`       ops of `torch.library`, made where they are first called
`torch_views`     views by PyTorch's own functions
================= =====================================================================
"""
