"""Tools that every part of the package may use, and that import none of it.

`dtypes` is the table of dtypes that kernels take, `display` formats tables, `forks` has
the lock for lazy imports and compilation, `records` makes frozen records, `pickling`
sends decorated functions by name, `loop_nests` merges axes, `temporary` makes folders
that go again, `recursion` gives deep programs room, `progress` shows how far long work
is, `generated` compiles code made at run time, `workers` run calls in `processes` that
compile, each a `worker`, `stamp` counts changes of settings, `trees` finds arrays in
containers, `llvm` is LLVM code that two backends share.
"""
