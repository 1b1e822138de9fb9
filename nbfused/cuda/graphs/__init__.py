"""Calls that are always started in the same order, as CUDA graphs.

================ =======================================================================
`sequence`       such calls: their nodes, and what each run changes
`waits`          which of the calls wait for which
`graph`          graphs made node by node
`captured`       calls of other libraries as nodes
`libraries`      the driver's functions
`graph_start`    their launch with the arguments of a run, by machine code
`beside`         small kernels as one
`workspaces`     memory that their kernels need besides
`tensor_headers` the addresses and layouts of all tensors of a call, by machine code
================ =======================================================================
"""
