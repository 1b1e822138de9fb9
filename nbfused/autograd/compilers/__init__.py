"""Operations inside the compilers of PyTorch and JAX: one opaque call each.

================ ======================================================================
`identity`       what a call of an operation computes, with a name that processes share
`torch_calls`    operations on what PyTorch traces or transforms, as calls of its ops
`torch_gradient` the derivative of such an operation, itself one op
`torch_ops`      ops of `torch.library`, made where they are first called
`torch_names`    the namespace ``torch.ops.nbfused``, which finds them by their names
`torch_views`    what moves no elements, by PyTorch's own functions
`dynamo`         tells PyTorch's compiler which callables it calls as they are
================ ======================================================================
"""
