// What printed functions call: numbers as NumPy computes them.
//
// Elements are plain types; 16-bit floats are their bits, uint16_t, and computed in
// float.  Nothing here computes in double what has the type float.
#pragma once
#include "portable.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

// A function of C's <math.h>; including that would take most of the time of g++.
#if defined(NBF_EMULATION)
#define NBF_MATH(name) __builtin_##name
#else
#define NBF_MATH(name) ::name
#endif

namespace nbf {

template <class To, class From> NBF_DEVICE To from_bits(From bits) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To number;
  memcpy(&number, &bits, sizeof(To));
  return number;
}

// --- integers wrap around, and division by zero is 0

template <class T> constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(1);
template <class T> constexpr bool is_integer = static_cast<T>(0.5) == static_cast<T>(0);

template <int BYTES> struct Wrapping_ { typedef uint32_t type; };
template <> struct Wrapping_<8> { typedef uint64_t type; };
// The type that an integer is computed in, so that nothing overflows.
template <class T> using Wrapping = typename Wrapping_<sizeof(T)>::type;

template <class T> NBF_DEVICE T add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T> NBF_DEVICE T sub(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T> NBF_DEVICE T mul(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <class T> NBF_DEVICE T negate(T a) { return sub(static_cast<T>(0), a); }

// Dividing the lowest number by -1 would overflow.
template <class T> NBF_DEVICE bool divides(T b) {
  if constexpr (is_signed<T>) return b != 0 && b != -1;
  return b != 0;
}
template <class T> NBF_DEVICE T fmod(T a, T b) {
  return divides(b) ? static_cast<T>(a % b) : static_cast<T>(0);
}
template <class T> NBF_DEVICE T remainder(T a, T b) {
  const T r = nbf::fmod(a, b);
  if constexpr (is_signed<T>) return r != 0 && (r < 0) != (b < 0) ? add(r, b) : r;
  return r;
}
template <class T> NBF_DEVICE T truncated_divide(T a, T b) {
  if (!divides(b)) return b == 0 ? static_cast<T>(0) : negate(a);
  return static_cast<T>(a / b);
}
template <class T> NBF_DEVICE T floor_divide(T a, T b) {
  if (!divides(b)) return b == 0 ? static_cast<T>(0) : negate(a);
  const T q = static_cast<T>(a / b);
  if constexpr (is_signed<T>)
    return a % b != 0 && (a < 0) != (b < 0) ? sub<T>(q, 1) : q;
  return q;
}

// By the width or more, or by less than nothing: 0, or the sign.
template <class T> NBF_DEVICE bool shifts(T by) {
  return static_cast<Wrapping<T>>(by) < 8 * sizeof(T);
}
template <class T> NBF_DEVICE T shift_left(T a, T by) {
  return shifts(by) ? static_cast<T>(static_cast<Wrapping<T>>(a) << by) : 0;
}
template <class T> NBF_DEVICE T shift_right(T a, T by) {
  if constexpr (is_signed<T>)
    return static_cast<T>(a >> (shifts(by) ? by : 8 * sizeof(T) - 1));
  return shifts(by) ? static_cast<T>(a >> by) : 0;
}

template <class T, class N> NBF_DEVICE T integer_power(T a, N n) {
  T result = n >= 0 ? 1 : 0;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = mul(result, a);
    a = mul(a, a);
  }
  return result;
}

// --- real numbers

template <class T> NBF_DEVICE T infinity() {
  return static_cast<T>(__builtin_huge_valf());
}
template <class T> NBF_DEVICE T nan() { return static_cast<T>(__builtin_nanf("")); }

#define NBF_UNARY(NAME)                                                                \
  NBF_DEVICE float NAME(float a) { return NBF_MATH(NAME##f)(a); }                      \
  NBF_DEVICE double NAME(double a) { return NBF_MATH(NAME)(a); }
#define NBF_BINARY(NAME)                                                               \
  NBF_DEVICE float NAME(float a, float b) { return NBF_MATH(NAME##f)(a, b); }          \
  NBF_DEVICE double NAME(double a, double b) { return NBF_MATH(NAME)(a, b); }

NBF_UNARY(fabs) NBF_UNARY(floor) NBF_UNARY(ceil) NBF_UNARY(trunc) NBF_UNARY(rint)
NBF_UNARY(sqrt) NBF_UNARY(cbrt) NBF_UNARY(exp) NBF_UNARY(exp2) NBF_UNARY(expm1)
NBF_UNARY(log) NBF_UNARY(log2) NBF_UNARY(log10) NBF_UNARY(log1p)
NBF_UNARY(asin) NBF_UNARY(acos) NBF_UNARY(atan)
NBF_UNARY(sinh) NBF_UNARY(cosh) NBF_UNARY(tanh)
NBF_UNARY(asinh) NBF_UNARY(acosh) NBF_UNARY(atanh)
NBF_UNARY(erf) NBF_UNARY(erfc) NBF_UNARY(lgamma)
NBF_BINARY(fmod) NBF_BINARY(pow) NBF_BINARY(atan2) NBF_BINARY(copysign)

template <class T> NBF_DEVICE T abs(T a) {
  if constexpr (!is_integer<T>) return nbf::fabs(a);
  else if constexpr (is_signed<T>) return a < 0 ? negate(a) : a;
  else return a;
}
template <class T> NBF_DEVICE bool is_nan(T a) { return a != a; }
template <class T> NBF_DEVICE bool is_infinite(T a) { return abs(a) == infinity<T>(); }
template <class T> NBF_DEVICE bool is_finite(T a) { return abs(a) < infinity<T>(); }

// NaN if either is.
template <class T> NBF_DEVICE T maximum(T a, T b) {
  if constexpr (is_integer<T>) return a > b ? a : b;
  else return a > b || is_nan(a) ? a : b;
}
template <class T> NBF_DEVICE T minimum(T a, T b) {
  if constexpr (is_integer<T>) return a < b ? a : b;
  else return a < b || is_nan(a) ? a : b;
}
template <class T> NBF_DEVICE T sign(T a) {
  if constexpr (is_signed<T>) return a > 0 ? 1 : a < 0 ? -1 : a + T(0);  // of -0, 0
  else return a > 0 ? 1 : 0;
}
template <class T> NBF_DEVICE T rsqrt(T a) { return static_cast<T>(1) / nbf::sqrt(a); }

// As C's, where libraries of GPUs round the largest double up to infinity.
NBF_DEVICE float hypot(float a, float b) { return NBF_MATH(hypotf)(a, b); }
NBF_DEVICE double hypot(double a, double b) {
  a = abs(a);
  b = abs(b);
  const double large = a > b ? a : b, small = a > b ? b : a;
  const double ratio = small / (large == 0 ? 1 : large);
  const bool infinite = is_infinite(a) || is_infinite(b);
  return infinite ? infinity<double>() : large * nbf::sqrt(1 + ratio * ratio);
}

// With the sign of b.
template <class T> NBF_DEVICE T real_remainder(T a, T b) {
  const T r = nbf::fmod(a, b);
  if (r == 0) return nbf::copysign(static_cast<T>(0), b);
  return (r < 0) != (b < 0) ? r + b : r;
}
NBF_DEVICE float remainder(float a, float b) { return real_remainder(a, b); }
NBF_DEVICE double remainder(double a, double b) { return real_remainder(a, b); }

// After npy_divmod: the remainder decides, not the quotient.
template <class T> NBF_DEVICE T real_floor_divide(T a, T b) {
  const T r = nbf::fmod(a, b);
  if (b == 0) return a / b;
  T q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return nbf::copysign(static_cast<T>(0), a / b);
  const T whole = nbf::floor(q);
  return q - whole > static_cast<T>(0.5) ? whole + 1 : whole;
}
NBF_DEVICE float floor_divide(float a, float b) { return real_floor_divide(a, b); }
NBF_DEVICE double floor_divide(double a, double b) { return real_floor_divide(a, b); }
NBF_DEVICE float truncated_divide(float a, float b) { return nbf::trunc(a / b); }
NBF_DEVICE double truncated_divide(double a, double b) { return nbf::trunc(a / b); }

// --- 16-bit floats, rounded to nearest even; NaN stays NaN

#if defined(__CUDACC__)
NBF_DEVICE float from_f16(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
NBF_DEVICE uint16_t to_f16(float a) { return __half_as_ushort(__float2half_rn(a)); }
#elif !defined(NBF_EMULATION)
NBF_DEVICE float from_f16(uint16_t bits) { return from_bits<_Float16>(bits); }
NBF_DEVICE uint16_t to_f16(float a) {
  return from_bits<uint16_t>(static_cast<_Float16>(a));
}
#else
// The bits moved into place are a float with a smaller exponent, subnormal ones too.
NBF_DEVICE float from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7FFFu) << 13;
  const float scaled = from_bits<float>(rest) * 0x1p112f;
  const uint32_t number = rest < 0x0F800000u ? from_bits<uint32_t>(scaled)
                                             : rest | 0x7F800000u;
  return from_bits<float>(sign | number);
}
NBF_DEVICE uint16_t to_f16(float a) {
  const uint32_t bits = from_bits<uint32_t>(a), rest = bits & 0x7FFFFFFFu;
  uint32_t number = 0x7C00;
  if (rest > 0x7F800000u)
    number = 0x7E00 | (rest >> 13 & 0x1FF);
  else if (rest < 0x38800000u)  // subnormal: adding 0.5 rounds at the right place
    number = from_bits<uint32_t>(from_bits<float>(rest) + 0.5f) - 0x3F000000u;
  else if (rest < 0x47800000u)
    number = (rest - 0x38000000u + 0xFFF + (rest >> 13 & 1)) >> 13;
  return static_cast<uint16_t>(bits >> 16 & 0x8000u) | static_cast<uint16_t>(number);
}
#endif

NBF_DEVICE float from_bf16(uint16_t bits) {
  return from_bits<float>(static_cast<uint32_t>(bits) << 16);
}
NBF_DEVICE uint16_t to_bf16(float a) {
  const uint32_t bits = from_bits<uint32_t>(a);
  if (is_nan(a)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Of wider numbers, rounded once: what a float has no room for is not rounded first, but
// tells in the last bit that stays (round to odd; 13 bits of a double, float16 has 11).
template <class T> NBF_DEVICE T rounded_to_odd(T bits, int cut) {
  const T low = (static_cast<T>(1) << cut) - 1;
  return (bits | ((bits & low) + low)) & ~low;
}
NBF_DEVICE float cut_off(double a) {
  return static_cast<float>(
      from_bits<double>(rounded_to_odd(from_bits<uint64_t>(a), 40)));
}
NBF_DEVICE uint16_t to_f16(double a) { return to_f16(cut_off(a)); }
NBF_DEVICE uint16_t to_bf16(double a) { return to_bf16(cut_off(a)); }
NBF_DEVICE uint16_t to_bf16(uint64_t a) {  // by a float of 11 to 24 bits, without double
  const int cut = a >> 52 ? 40 : a >> 38 ? 28 : a >> 24 ? 14 : 0;
  return to_bf16(static_cast<float>(rounded_to_odd(a, cut)));
}
NBF_DEVICE uint16_t to_bf16(int64_t a) {
  const uint64_t size = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  return static_cast<uint16_t>(to_bf16(size) | (a < 0 ? 0x8000 : 0));
}

}  // namespace nbf

#include "trigonometry.h"

#include "complex.h"
#include "exchange.h"

namespace nbf {

template <class T> NBF_DEVICE T unit(T) { return 1; }
template <class T> NBF_DEVICE complex<T> unit(complex<T>) { return {1, 0}; }
template <class T> NBF_DEVICE T product(T a, T b) {
  if constexpr (is_integer<T>) return mul(a, b);
  else return a * b;
}
template <class T> NBF_DEVICE complex<T> product(complex<T> a, complex<T> b) {
  return a * b;
}
// a**N: the square of the square, as few products as there are bits.
template <int N, class T> NBF_DEVICE T power(T a) {
  if constexpr (N < 0) return unit(a) / power<-N>(a);
  else if constexpr (N == 0) return unit(a);
  else if constexpr (N == 1) return a;
  else if constexpr (N % 2 == 1) return product(power<N - 1>(a), a);
  else if constexpr (N == 2) return product(a, a);
  else return power<2>(power<N / 2>(a));
}

}  // namespace nbf
