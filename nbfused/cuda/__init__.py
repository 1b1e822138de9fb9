"""The CUDA backend: kernels compiled by Numba, launched through the driver by ctypes.

=============== ========================================================================
`backend`       `CudaBackend`
`runtime`       devices, compilation, loaded kernels and their launches
`native`        kernels of users in CUDA C++, PTX or machine code
`graphs`        calls that are started together, as CUDA graphs
`text`          writing kernel text: lines, branches, states of reductions, cache hints
`isa`           instructions that Numba's Python lacks
`tuning`        choices among kernels: measured, kept, remembered
`map`           kernels and launchers of Map; likewise `reduce`, `row`, `contract`
`raw`           kernels and launches of Raw
``tuned``       choices that come with the package, a JSON file for each model
=============== ========================================================================

Importing it touches no driver and no compiler.
"""

from .backend import CudaBackend

__all__ = ["CudaBackend"]
