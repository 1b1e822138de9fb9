// One source, three compilers: hipcc (AMD), g++ (emulation on the CPU), nvcc (NVIDIA).
#pragma once
#if defined(NBF_EMULATION)
#include "emulation.h"
#elif defined(__CUDACC__)
#include "on_cuda.h"
#else
#include <hip/hip_runtime.h>
#endif
#include <cstdint>
#include <cstdio>
#include <cstring>

#define NBF_DEVICE static __device__ inline __attribute__((always_inline, unused))
// A member function or a constructor of what kernels compute with.
#define NBF_MEMBER __host__ __device__ inline __attribute__((always_inline))
#define NBF_API extern "C" __attribute__((visibility("default")))
// A line of a kernel on the standard output; the CPU's is written at once, since what a
// library holds back would come after what Python writes.
#if defined(NBF_EMULATION)
#define NBF_PRINT(...) (printf(__VA_ARGS__), fflush(stdout))
#else
#define NBF_PRINT(...) printf(__VA_ARGS__)
#endif
// Before a loop whose number of rounds is known: its arrays become registers.
// And before one whose rounds are long: it stays a loop.
#if defined(NBF_EMULATION)
#define NBF_UNROLL
#define NBF_LOOP
#else
#define NBF_UNROLL _Pragma("unroll")
#define NBF_LOOP _Pragma("unroll 1")
#endif
