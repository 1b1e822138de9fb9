"""Thread kernels on the CPU: blocks run by the pool, their threads in loops.

============ =========================================================================
`accesses`   accesses of a kernel's arrays, by the places of threads in the grid
`alone`      updates of elements that only one thread of the pool reaches
`atomics`    atomic updates that return the old value, between threads of the pool
`guards`     guards that end a loop over threads
`joined`     kernels whose blocks run as one loop along x
`launcher`   launcher of `Raw` on the CPU
`own_arrays` local arrays of threads that wait, in the block's memory
`phase_text` text of a block in phases: loops over threads, with values kept in arrays
`phases`     blocks with barriers, rewritten as loops over the block's threads
`printing`   C's printf, also for bodies of elementwise kernels
============ =========================================================================
"""
