"""Operations inside the compilers of PyTorch and JAX: one opaque call each.

================= =====================================================================
`derived`         derivatives and samples of functions, as functions
`dynamo`          the callables that PyTorch's compiler calls as they are
`identity`        calls of operations, with names that processes share
`jax`             operations and functions with a rule inside JAX
`pulling`         the pullback of a call, run by whoever traces it
`torch_callables` functions with a derivative on our tape, as ops of PyTorch
`torch_calls`     operations on tensors that PyTorch traces or transforms
`torch_gradient`  the derivative of an op of PyTorch, itself one op
`torch_kernels`   the functions that run ops of PyTorch on tensors with elements
`torch_names`     the namespace ``torch.ops.nbfused``, which finds ops by their names
`torch_ops`       ops of `torch.library`, made where they are first called
`torch_tangents`  tangents of PyTorch's forward mode
`torch_views`     views by PyTorch's own functions
`torch_whole`     fused functions, each one op
================= =====================================================================
"""
