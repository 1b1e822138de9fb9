"""Thread kernels on the CPU: blocks run by the pool, their threads in loops.

============ =========================================================================
`atomics`    atomic updates that return the old value, between threads of the pool
`launcher`   launcher of `Raw` on the CPU
`phase_text` text of a block in phases: loops over threads, with values kept in arrays
`phases`     blocks with barriers, rewritten as loops over the block's threads
`printing`   C's printf, also for bodies of elementwise kernels
`uniform`    uniformity analysis: values that all threads of a block have in common
============ =========================================================================
"""
