"""Libraries that carry arrays between processes, each behind the same five methods.

=============== ======================================================================
`engine`        what an engine is, and which one a communicator belongs to
`torch_groups`  process groups of `torch.distributed`: gloo, NCCL, …
`mpi`           communicators of mpi4py, for arrays in host memory
`nccl`          communicators of NCCL through CuPy
=============== ======================================================================
"""
