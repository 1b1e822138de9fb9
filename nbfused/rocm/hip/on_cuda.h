// HIP's names on CUDA, so that nvcc builds what hipcc builds.  Shuffles are those of
// whole warps of 32, and always say how wide they are: AMD's waves have 64 lanes or 32.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>  // has shuffles of its own, so before they are named anew
#include <cuda_runtime.h>

typedef cudaError_t hipError_t;
typedef cudaStream_t hipStream_t;
typedef cudaMemcpyKind hipMemcpyKind;
typedef cudaDeviceAttr hipDeviceAttribute_t;
typedef cudaFuncAttributes hipFuncAttributes;
typedef void *hipDeviceptr_t;

#define hipSuccess cudaSuccess
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorInvalidConfiguration cudaErrorInvalidConfiguration
#define hipErrorNoDevice cudaErrorNoDevice
#define hipErrorInvalidDevice cudaErrorInvalidDevice
#define hipErrorNotFound cudaErrorSymbolNotFound
#define hipErrorLaunchFailure cudaErrorLaunchFailure
#define hipErrorUnknown cudaErrorUnknown

#define hipMemcpyHostToHost cudaMemcpyHostToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMemcpyDefault cudaMemcpyDefault

#define hipDeviceAttributeMultiprocessorCount cudaDevAttrMultiProcessorCount
#define hipDeviceAttributeWarpSize cudaDevAttrWarpSize
#define hipDeviceAttributeMaxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock
#define hipDeviceAttributeMaxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlockOptin
#define hipDeviceAttributeComputeCapabilityMajor cudaDevAttrComputeCapabilityMajor
#define hipDeviceAttributeComputeCapabilityMinor cudaDevAttrComputeCapabilityMinor

#define hipFuncAttributes cudaFuncAttributes
#define hipFuncGetAttributes cudaFuncGetAttributes
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDevice cudaGetDevice
#define hipSetDevice cudaSetDevice
#define hipDeviceGetAttribute cudaDeviceGetAttribute
#define hipDeviceGetPCIBusId cudaDeviceGetPCIBusId
#define hipMalloc cudaMalloc
#define hipFree cudaFree
#define hipMemGetInfo cudaMemGetInfo
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemsetAsync cudaMemsetAsync
#define hipStreamSynchronize cudaStreamSynchronize
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipGetLastError cudaGetLastError
#define hipGetErrorName cudaGetErrorName
#define hipGetErrorString cudaGetErrorString
#define hipFuncGetAttributes cudaFuncGetAttributes

// The driver's, which the runtime finds: nothing needs to be linked.
inline hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size,
                                        hipDeviceptr_t at) {
  typedef CUresult Range(CUdeviceptr *, size_t *, CUdeviceptr);
  static void *range = nullptr;
  if (!range) {
    const cudaError_t error = cudaGetDriverEntryPointByVersion(
        "cuMemGetAddressRange", &range, 12000, cudaEnableDefault);
    if (error != cudaSuccess) return error;
  }
  // A thread has no context until it sets its device, be it the one that it has.
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaSetDevice(device);
  if (error != cudaSuccess) return error;
  CUdeviceptr begin = 0;
  const CUresult result =
      reinterpret_cast<Range *>(range)(&begin, size, reinterpret_cast<CUdeviceptr>(at));
  *base = reinterpret_cast<hipDeviceptr_t>(begin);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

#undef __shfl
#undef __shfl_up
#undef __shfl_down
#undef __shfl_xor
#define __shfl(value, lane, width) __shfl_sync(0xFFFFFFFFu, value, lane, width)
#define __shfl_up(value, lanes, width) __shfl_up_sync(0xFFFFFFFFu, value, lanes, width)
#define __shfl_down(value, lanes, width) \
  __shfl_down_sync(0xFFFFFFFFu, value, lanes, width)
#define __shfl_xor(value, mask, width) __shfl_xor_sync(0xFFFFFFFFu, value, mask, width)

#define HIP_DYNAMIC_SHARED(type, name)                                     \
  extern __shared__ __align__(16) unsigned char name##_of_the_launch[];   \
  type *const name = reinterpret_cast<type *>(name##_of_the_launch);
// More than 48 KiB of shared memory must be asked for.
#define hipLaunchKernelGGL(kernel, blocks, threads, shared, stream, ...)                \
  do {                                                                                  \
    if ((shared) > 48 << 10)                                                            \
      (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,   \
                                 static_cast<int>(shared));                             \
    kernel<<<(blocks), (threads), (shared), (stream)>>>(__VA_ARGS__);                   \
  } while (0)
