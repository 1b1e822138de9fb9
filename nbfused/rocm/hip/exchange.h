// What threads do with one another's numbers: atomic updates, shuffles.
#pragma once
#include "portable.h"

namespace nbf {

// --- atomics: on elements as they are stored, in global or in shared memory

template <int BYTES> struct Bits_ { typedef uint32_t type; };
template <> struct Bits_<1> { typedef uint8_t type; };
template <> struct Bits_<2> { typedef uint16_t type; };
template <> struct Bits_<8> { typedef unsigned long long type; };
template <class T> using Bits = typename Bits_<sizeof(T)>::type;

// Store `wanted` where `expected` is; what was there.
template <class B> NBF_DEVICE B compare_and_swap(B *p, B expected, B wanted) {
#if !defined(NBF_EMULATION)
  if constexpr (sizeof(B) < 4) {  // through the word around it
    const uintptr_t place = reinterpret_cast<uintptr_t>(p);
    uint32_t *word = reinterpret_cast<uint32_t *>(place & ~static_cast<uintptr_t>(3));
    const unsigned shift = static_cast<unsigned>(place & 3) * 8;
    const uint32_t others = ~(static_cast<uint32_t>(static_cast<B>(-1)) << shift);
    for (uint32_t seen = *static_cast<volatile uint32_t *>(word);;) {
      const B part = static_cast<B>(seen >> shift);
      if (part != expected) return part;
      const uint32_t before = seen;
      seen = atomicCAS(word, before,
                       (before & others) | static_cast<uint32_t>(wanted) << shift);
      if (seen == before) return expected;
    }
  } else
#endif
    return atomicCAS(p, expected, wanted);
}

// What `change` makes of an element, in one step; what it was.
template <class T, class F> NBF_DEVICE T update(T *p, F change) {
  typedef Bits<T> B;
  B *const at = reinterpret_cast<B *>(p);
  B seen = *static_cast<volatile B *>(at);
  for (;;) {
    const B before = seen;
    seen = compare_and_swap(at, before, from_bits<B>(change(from_bits<T>(before))));
    if (seen == before) return from_bits<T>(seen);
  }
}

// Whether the hardware adds, joins or exchanges the bits of an integer itself.
template <class T> constexpr bool is_word = is_integer<T> && sizeof(T) >= 4;

template <class T, class V> NBF_DEVICE T fetch_add(T *p, V value) {
  const T x = static_cast<T>(value);
  if constexpr (!is_integer<T>) return atomicAdd(p, x);
  else if constexpr (is_word<T>)
    return static_cast<T>(
        atomicAdd(reinterpret_cast<Bits<T> *>(p), from_bits<Bits<T>>(x)));
  else return update(p, [=](T old) { return add(old, x); });
}
template <class T, class V> NBF_DEVICE T fetch_min(T *p, V value) {
  const T x = static_cast<T>(value);
  if constexpr (is_integer<T> && sizeof(T) == 4) return atomicMin(p, x);
  else return update(p, [=](T old) { return minimum(old, x); });
}
template <class T, class V> NBF_DEVICE T fetch_max(T *p, V value) {
  const T x = static_cast<T>(value);
  if constexpr (is_integer<T> && sizeof(T) == 4) return atomicMax(p, x);
  else return update(p, [=](T old) { return maximum(old, x); });
}

#define NBF_BITWISE(NAME, ATOMIC, OPERATOR)                                            \
  template <class T, class V> NBF_DEVICE T NAME(T *p, V value) {                       \
    const T x = static_cast<T>(value);                                                 \
    if constexpr (is_word<T>)                                                          \
      return static_cast<T>(ATOMIC(reinterpret_cast<Bits<T> *>(p),                     \
                                   static_cast<Bits<T>>(x)));                          \
    else return update(p, [=](T old) { return static_cast<T>(old OPERATOR x); });      \
  }
NBF_BITWISE(fetch_and, atomicAnd, &)
NBF_BITWISE(fetch_or, atomicOr, |)
NBF_BITWISE(fetch_xor, atomicXor, ^)

template <class T, class V> NBF_DEVICE T fetch_exch(T *p, V value) {
  const T x = static_cast<T>(value);
  if constexpr (sizeof(T) >= 4)
    return from_bits<T>(
        atomicExch(reinterpret_cast<Bits<T> *>(p), from_bits<Bits<T>>(x)));
  else return update(p, [=](T) { return x; });
}
// Compares bits: NaN equals itself, 0 and -0 differ.
template <class T, class C, class V> NBF_DEVICE T fetch_cas(T *p, C compare, V value) {
  typedef Bits<T> B;
  return from_bits<T>(compare_and_swap(reinterpret_cast<B *>(p),
                                       from_bits<B>(static_cast<T>(compare)),
                                       from_bits<B>(static_cast<T>(value))));
}

// Part by part: each is atomic, the pair is not.
template <class T> NBF_DEVICE complex<T> fetch_add(complex<T> *p, complex<T> value) {
  T *const parts = reinterpret_cast<T *>(p);
  const T real = fetch_add(parts, value.real);
  return {real, fetch_add(parts + 1, value.imag)};
}

#define NBF_SHORT_ATOMICS(S)                                                           \
  NBF_DEVICE float fetch_add_##S(uint16_t *p, float x) {                               \
    return from_##S(update(p, [=](uint16_t a) { return to_##S(from_##S(a) + x); }));   \
  }                                                                                    \
  NBF_DEVICE float fetch_min_##S(uint16_t *p, float x) {                               \
    return from_##S(                                                                   \
        update(p, [=](uint16_t a) { return to_##S(minimum(from_##S(a), x)); }));       \
  }                                                                                    \
  NBF_DEVICE float fetch_max_##S(uint16_t *p, float x) {                               \
    return from_##S(                                                                   \
        update(p, [=](uint16_t a) { return to_##S(maximum(from_##S(a), x)); }));       \
  }                                                                                    \
  NBF_DEVICE float fetch_exch_##S(uint16_t *p, float x) {                              \
    return from_##S(fetch_exch(p, to_##S(x)));                                         \
  }                                                                                    \
  NBF_DEVICE float fetch_cas_##S(uint16_t *p, float compare, float x) {                \
    return from_##S(fetch_cas(p, to_##S(compare), to_##S(x)));                         \
  }
NBF_SHORT_ATOMICS(f16)
NBF_SHORT_ATOMICS(bf16)

// --- between the lanes of a group of 32, all of which take part

#define NBF_SHUFFLE(NAME, MOVE, LANE)                                                  \
  template <class T> NBF_DEVICE T NAME(T value, int64_t lane) {                        \
    uint32_t words[(sizeof(T) + 3) / 4] = {};                                          \
    memcpy(words, &value, sizeof(T));                                                  \
    for (uint32_t &word : words)                                                       \
      word = static_cast<uint32_t>(MOVE(static_cast<int>(word), LANE, 32));            \
    memcpy(&value, words, sizeof(T));                                                  \
    return value;                                                                      \
  }
// AMD's would go on into the other group of a wave of 64.
NBF_SHUFFLE(shuffle_idx, __shfl, static_cast<int>(lane & 31))
NBF_SHUFFLE(shuffle_up, __shfl_up, static_cast<unsigned>(lane & 31))
NBF_SHUFFLE(shuffle_down, __shfl_down, static_cast<unsigned>(lane & 31))
NBF_SHUFFLE(shuffle_xor, __shfl_xor, static_cast<int>(lane & 31))

// Wait for the other lanes of the group, and see what they wrote.
NBF_DEVICE void sync_wave() {
#if defined(NBF_EMULATION)
  static_cast<void>(__shfl(0, 0, 32));
#elif defined(__CUDACC__)
  __syncwarp();
#else
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#endif
}

// No barrier is to wait for this thread, which ends.  GPUs know without being told; the
// emulation takes a thread that ends otherwise for one that a barrier waits for in vain.
NBF_DEVICE void leave() {
#if defined(NBF_EMULATION)
  nbf_emulation::leave();
#endif
}

}  // namespace nbf
