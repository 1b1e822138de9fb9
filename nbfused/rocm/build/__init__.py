"""From the text of kernels to libraries.

============= ==========================================================================
`kernel`      a kernel as it is compiled: its text and its parameters
`toolchain`   compilers: hipcc, nvcc, a C++ compiler with the emulation
`compile`     translation units, libraries, the cache of them
`index`       which library holds a kernel, where several were built at once
`ahead`       kernels built ahead, recorded instead of launched
`report`      registers, memory and spills, read from libraries
============= ==========================================================================
"""
