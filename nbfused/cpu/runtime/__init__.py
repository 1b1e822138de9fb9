"""Machine code of kernels, and the thread pool that runs it.

=========== ===========================================================================
`binding`   launchers that bind the layout of a call once, then start it with addresses
`compile`   compilation of a kernel's text by Numba to machine code, through the cache
`direct`    direct calls by machine code: from arrays on the host to a launch
`direct_code` their machine code, and the words that it reads
`functions` built-in functions of the interpreter, made of machine code
`headers`   addresses and layouts of NumPy arrays, read from their objects
`native`    descriptions of launches that one thread runs
`objects`   object files with machine code: packing, checking, and linking by llvmlite
`pipeline`  Numba's compiler, with the passes that generated text needs
`pool`      the thread pool: a calling thread and helpers share the pieces of a launch
`schedule`  partition of a launch into pieces for the threads of the pool
`sequence`  launches one after another by machine code, without Python between them
`team`      work sharing between threads in machine code, without Python
`team_code` atomic operations on 64-bit words, as LLVM intrinsics for generated text
`workspace` temporary memory that each thread keeps for kernels that it calls
=========== ===========================================================================
"""
