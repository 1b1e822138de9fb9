// What every kernel has: its arguments, its entry point, its accesses to memory.
#pragma once
#include "numbers.h"
#include "portable.h"

namespace nbf {

// The arguments of a kernel, each in a word of its own: pointers, then extents and
// strides, then numbers.  A complex number takes two words.
template <int N> struct Words {
  uint64_t word[N > 0 ? N : 1];

  template <class T> NBF_MEMBER T *pointer(int k) const {
#if defined(__AMDGCN__)  // known to be global, or every access would ask where it goes
    return (T *)(__attribute__((address_space(1))) T *)word[k];
#else
    return reinterpret_cast<T *>(word[k]);
#endif
  }
  NBF_MEMBER int64_t integer(int k) const { return static_cast<int64_t>(word[k]); }
  template <class T> NBF_MEMBER T number(int k) const {
    T value;
    memcpy(&value, reinterpret_cast<const char *>(word) + 8 * k, sizeof(T));
    return value;
  }
  NBF_MEMBER complex<float> complex64(int k) const {
    return {number<float>(k), number<float>(k + 1)};
  }
  NBF_MEMBER complex<double> complex128(int k) const {
    return {number<double>(k), number<double>(k + 1)};
  }
};

// Neighbouring elements that one access moves, of at most 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];

  NBF_MEMBER T &operator[](int k) { return at[k]; }
  NBF_MEMBER const T &operator[](int k) const { return at[k]; }
};

template <int N, class T> NBF_DEVICE Pack<T, N> load(const T *p, int64_t at) {
  return *reinterpret_cast<const Pack<T, N> *>(p + at);
}
// One element for all of an access.
template <int N, class T> NBF_DEVICE Pack<T, N> repeat(const T *p, int64_t at) {
  Pack<T, N> pack;
  for (int k = 0; k < N; ++k) pack[k] = p[at];
  return pack;
}
template <int N, class T> NBF_DEVICE void store(T *p, int64_t at, const Pack<T, N> &pack) {
  *reinterpret_cast<Pack<T, N> *>(p + at) = pack;
}

// The shared memory that a launch asks for, aligned to 16 bytes.
NBF_DEVICE unsigned char *shared() {
#if defined(NBF_EMULATION)
  HIP_DYNAMIC_SHARED(unsigned char, memory)
#else
  extern __shared__ __attribute__((aligned(16))) unsigned char memory[];
#endif
  return memory;
}

// This thread among all of a launch along x, and how many there are.
NBF_DEVICE int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
NBF_DEVICE int64_t thread_count() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// a / b of integers >= 0, in 32 bits where both fit: GPUs divide 64 bits slowly.
NBF_DEVICE int64_t divide(int64_t a, int64_t b) {
  if ((static_cast<uint64_t>(a | b) >> 32) == 0)
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
}

// The offset, in elements, of a flat C-order index over RANK extents that begin at word
// `extents`, with as many strides from word `strides` on.
template <int RANK, class W>
NBF_DEVICE int64_t offset(const W &w, int64_t index, int extents, int strides) {
  int64_t at = 0;
  for (int k = RANK - 1; k > 0; --k) {
    const int64_t extent = w.integer(extents + k), rest = divide(index, extent);
    at += (index - rest * extent) * w.integer(strides + k);
    index = rest;
  }
  return RANK > 0 ? at + index * w.integer(strides) : at;
}

// The product of RANK extents.
template <int RANK, class W> NBF_DEVICE int64_t product(const W &w, int extents) {
  int64_t size = 1;
  for (int k = 0; k < RANK; ++k) size *= w.integer(extents + k);
  return size;
}

// What the compiler knows of a kernel: registers, bytes of shared, local and constant
// memory, threads at most.
inline int attributes([[maybe_unused]] const void *kernel, int64_t *found) {
#if defined(NBF_EMULATION)
  const int64_t none[] = {0, 0, 0, 0, 1024};
  memcpy(found, none, sizeof none);
  return 0;
#else
  hipFuncAttributes known;
  const int code = static_cast<int>(hipFuncGetAttributes(&known, kernel));
  found[0] = known.numRegs;
  found[1] = static_cast<int64_t>(known.sharedSizeBytes);
  found[2] = static_cast<int64_t>(known.localSizeBytes);
  found[3] = static_cast<int64_t>(known.constSizeBytes);
  found[4] = known.maxThreadsPerBlock;
  return code;
#endif
}

}  // namespace nbf

#define NBF_JOIN_(a, b) a##b
#define NBF_JOIN(a, b) NBF_JOIN_(a, b)

// The kernel and its entry in C: `call` is a statement that uses `w`, the arguments.
// Without a grid the entry launches nothing and tells the attributes.
#define NBF_KERNEL(WORDS, THREADS, ...)                                                 \
  __global__ void __launch_bounds__(THREADS)                                            \
      NBF_JOIN(NBF_SYMBOL, _kernel)(const nbf::Words<WORDS> w) {                        \
    __VA_ARGS__;                                                                        \
  }                                                                                     \
  NBF_API int NBF_SYMBOL(const unsigned *grid, const unsigned *block, size_t shared,    \
                         void *stream, const void *words) {                             \
    if (!grid)                                                                          \
      return nbf::attributes(                                                           \
          reinterpret_cast<const void *>(&NBF_JOIN(NBF_SYMBOL, _kernel)),               \
          static_cast<int64_t *>(const_cast<void *>(words)));                           \
    nbf::Words<WORDS> w;                                                                \
    memcpy(&w, words, sizeof w);                                                        \
    hipLaunchKernelGGL((NBF_JOIN(NBF_SYMBOL, _kernel)), dim3(grid[0], grid[1], grid[2]), \
                       dim3(block[0], block[1], block[2]), shared,                      \
                       static_cast<hipStream_t>(stream), w);                            \
    return static_cast<int>(hipGetLastError());                                         \
  }
