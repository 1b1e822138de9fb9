"""Fused functions for compilers that hand over buffers: programs run at addresses.

========= ============================================================================
`flat`    a call as a function of its arrays and numbers
`program` programs of such functions, traced for given shapes
`shared`  names of programs that processes share
`tracing` functions traced on stand-ins for arrays
========= ============================================================================
"""
