// HIP for g++: a block of threads runs on one thread of the operating system, each of
// its threads on a stack of its own (a fiber), and they take turns where they wait for
// each other.  Declarations only: what does it is emulation.cpp, built once into the
// runtime's library, which is to be loaded first and globally.
//
// Environment, read at each launch; what is no number counts as 0:
//   NBFUSED_EMULATION_WAVE      32 or 64 (default): threads of a wave
//   NBFUSED_EMULATION_SCHEDULE  who runs next, of those that can:
//       step (default)  the next thread: all advance from one wait to the next together
//       first           the first wave, as far ahead as it can; the first block first
//       last            the last thread of the last wave; the last block first
//   NBFUSED_EMULATION_THREADS   of the operating system (default: cores, at most 16)
//   NBFUSED_EMULATION_DEVICES   how many devices there are (default 1)
//   NBFUSED_EMULATION_MEMORY    bytes of a device (default: half of this machine's)
//
// Memory is 0xFF when it is allocated, and so is shared memory when a block begins.  A
// barrier that some threads of a block never reach ends the launch with
// hipErrorLaunchFailure; hipGetErrorString then says where they wait.  Lanes that do
// not come to a shuffle are inactive, as on a GPU: what is read from them is 0xFF.
// Not emulated: matrix instructions, a GPU's memory model, asynchronous streams.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// A block stays on its thread of the operating system, and has that for itself.
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
};

enum hipError_t {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorInvalidConfiguration = 9,
  hipErrorNoDevice = 100,
  hipErrorInvalidDevice = 101,
  hipErrorNotFound = 500,
  hipErrorLaunchFailure = 719,
  hipErrorUnknown = 999
};
enum hipMemcpyKind {
  hipMemcpyHostToHost,
  hipMemcpyHostToDevice,
  hipMemcpyDeviceToHost,
  hipMemcpyDeviceToDevice,
  hipMemcpyDefault
};
enum hipDeviceAttribute_t {
  hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributeWarpSize,
  hipDeviceAttributeMaxThreadsPerBlock,
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeComputeCapabilityMajor,
  hipDeviceAttributeComputeCapabilityMinor
};
typedef struct ihipStream_t *hipStream_t;
typedef void *hipDeviceptr_t;

hipError_t hipGetDeviceCount(int *count);
hipError_t hipGetDevice(int *device);
hipError_t hipSetDevice(int device);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device);
hipError_t hipDeviceGetPCIBusId(char *text, int size, int device);
hipError_t hipMalloc(void **address, size_t size);
hipError_t hipFree(void *address);
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t at);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t stream);
hipError_t hipMemsetAsync(void *to, int byte, size_t size, hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipDeviceSynchronize();
hipError_t hipGetLastError();
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);

namespace nbf_emulation {

// What the threads of a block have in common.
struct Block {
  dim3 index, threads, blocks;
  unsigned wave_size;
  unsigned char *shared;
};
struct Thread {
  dim3 index;
  unsigned linear;
  const Block *block;
};
// The one that runs.  Not of C++'s thread_local, which would call a function for it.
extern __thread Thread *self;

// The storage of a library's `__shared__` arrays; found at its first launch.
struct Library {
  const void *inside;
  size_t module, size;
  bool known;
};
static Library library __attribute__((unused)) = {&library, 0, 0, false};

typedef void (*Call)(const void *);
void launch(dim3 blocks, dim3 threads, size_t shared, Call call, const void *argument,
            Library *library);
void barrier(const char *place);
// This thread is done as far as barriers are concerned.
void leave();
// The value that lane `source` offers, of the aligned `width` lanes around this one.
uint64_t exchange(uint64_t value, unsigned source, unsigned width, const char *place);

template <class F> void launch(dim3 blocks, dim3 threads, size_t shared, const F &f) {
  launch(blocks, threads, shared, [](const void *g) { (*static_cast<const F *>(g))(); },
         &f, &library);
}

inline unsigned lane() { return self->linear % self->block->wave_size; }

template <class T>
inline T shuffle(T value, unsigned source, unsigned width, const char *place) {
  static_assert(sizeof(T) <= 8, "HIP shuffles at most eight bytes");
  uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  word = exchange(word, source, width, place);
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
// Lanes beyond the group of `width` are the own one.
template <class T>
inline T shuffle_index(const char *place, T value, int source, unsigned width) {
  const unsigned first = lane() & ~(width - 1);
  return shuffle(value, first + (static_cast<unsigned>(source) & (width - 1)), width,
                 place);
}
template <class T>
inline T shuffle_up(const char *place, T value, unsigned delta, unsigned width) {
  const unsigned own = lane(), first = own & ~(width - 1);
  return shuffle(value, own < first + delta ? own : own - delta, width, place);
}
template <class T>
inline T shuffle_down(const char *place, T value, unsigned delta, unsigned width) {
  const unsigned own = lane(), first = own & ~(width - 1);
  return shuffle(value, own + delta >= first + width ? own : own + delta, width, place);
}
template <class T>
inline T shuffle_xor(const char *place, T value, int mask, unsigned width) {
  const unsigned own = lane(), other = own ^ static_cast<unsigned>(mask);
  const unsigned first = own & ~(width - 1);
  return shuffle(value, other >= first + width ? own : other, width, place);
}
template <class T> inline T shuffle_index(const char *place, T value, int source) {
  return shuffle_index(place, value, source, self->block->wave_size);
}
template <class T> inline T shuffle_up(const char *place, T value, unsigned delta) {
  return shuffle_up(place, value, delta, self->block->wave_size);
}
template <class T> inline T shuffle_down(const char *place, T value, unsigned delta) {
  return shuffle_down(place, value, delta, self->block->wave_size);
}
template <class T> inline T shuffle_xor(const char *place, T value, int mask) {
  return shuffle_xor(place, value, mask, self->block->wave_size);
}

// A parameter of this type does not take part in finding T.
template <class T> struct Same {
  typedef T type;
};

// What `change` makes of an element, in one step that no other thread can divide.
template <class T, class F> inline T update(T *p, F change) {
  T before, after;
  __atomic_load(p, &before, __ATOMIC_RELAXED);
  do {
    after = change(before);
  } while (!__atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
  return before;
}

}  // namespace nbf_emulation

#define NBF_TEXT_(x) #x
#define NBF_TEXT(x) NBF_TEXT_(x)
#define NBF_PLACE __FILE__ ":" NBF_TEXT(__LINE__)

#define threadIdx (nbf_emulation::self->index)
#define blockIdx (nbf_emulation::self->block->index)
#define blockDim (nbf_emulation::self->block->threads)
#define gridDim (nbf_emulation::self->block->blocks)
#define warpSize (static_cast<int>(nbf_emulation::self->block->wave_size))
#define __syncthreads() nbf_emulation::barrier(NBF_PLACE)
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __shfl(...) nbf_emulation::shuffle_index(NBF_PLACE, __VA_ARGS__)
#define __shfl_up(...) nbf_emulation::shuffle_up(NBF_PLACE, __VA_ARGS__)
#define __shfl_down(...) nbf_emulation::shuffle_down(NBF_PLACE, __VA_ARGS__)
#define __shfl_xor(...) nbf_emulation::shuffle_xor(NBF_PLACE, __VA_ARGS__)
#define HIP_DYNAMIC_SHARED(type, name) \
  type *name = reinterpret_cast<type *>(nbf_emulation::self->block->shared);
#define hipLaunchKernelGGL(kernel, blocks, threads, shared, stream, ...)   \
  (static_cast<void>(stream), nbf_emulation::launch((blocks), (threads), (shared), \
                                                    [=] { kernel(__VA_ARGS__); }))

template <class T>
inline T atomicAdd(T *p, typename nbf_emulation::Same<T>::type value) {
  if constexpr (static_cast<T>(0.5) == static_cast<T>(0))  // an integer: wraps around
    return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
  else
    return nbf_emulation::update(p, [=](T x) { return x + value; });
}
template <class T>
inline T atomicMax(T *p, typename nbf_emulation::Same<T>::type value) {
  return nbf_emulation::update(p, [=](T x) { return x < value ? value : x; });
}
template <class T>
inline T atomicMin(T *p, typename nbf_emulation::Same<T>::type value) {
  return nbf_emulation::update(p, [=](T x) { return value < x ? value : x; });
}
template <class T>
inline T atomicAnd(T *p, typename nbf_emulation::Same<T>::type value) {
  return __atomic_fetch_and(p, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicOr(T *p, typename nbf_emulation::Same<T>::type value) {
  return __atomic_fetch_or(p, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicXor(T *p, typename nbf_emulation::Same<T>::type value) {
  return __atomic_fetch_xor(p, value, __ATOMIC_RELAXED);
}
template <class T>
inline T atomicExch(T *p, typename nbf_emulation::Same<T>::type value) {
  T before;
  __atomic_exchange(p, &value, &before, __ATOMIC_RELAXED);
  return before;
}
template <class T>
inline T atomicCAS(T *p, typename nbf_emulation::Same<T>::type expected,
                   typename nbf_emulation::Same<T>::type value) {
  __atomic_compare_exchange(p, &expected, &value, false, __ATOMIC_RELAXED,
                            __ATOMIC_RELAXED);
  return expected;
}
