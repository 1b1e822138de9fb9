"""Devices, compiled kernels and their launches.

=============== ========================================================================
`ahead`         kernels of calls to come: compiled in other processes
`pipeline`      Numba's compiler for CUDA, with the passes that generated text needs
`inlined`       functions that kernel text defines beside its kernel
`driver`        the driver API: errors, contexts, devices, memory
`first_call`    starting a device beside the imports of a program's first call
`compile`       kernel text to machine code, by Numba; the cache of both
`assemble`      PTX to machine code, by ptxas where there is one
`launch`        kernels as callables: `Program`; launches prepared for many calls
`fast_launch`   prepared launches as machine code
`machine_code`  such code from LLVM's text
`notes`         launches that are noted instead of being made
`binding`       launchers that decide once for all calls of a layout
`scratch`       memory that the launches on a stream share
`attributes`    registers, memory and limits of a kernel
`tensor_map`    descriptors of arrays for TMA
=============== ========================================================================
"""
