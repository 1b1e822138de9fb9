// sin, cos and tan of float without double, for arguments of any size: NVIDIA's compute
// partly in double.  As scalar/printing/trigonometry.py has them, operation by operation: they
// give the same bits.
#pragma once
#include "portable.h"

namespace nbf {

// 32 bits of 2/pi from the bit `32 * i - 32 + shift` on; 32 zeros come first.
NBF_DEVICE uint64_t two_over_pi(unsigned i, unsigned shift) {
  uint64_t pair = 0;
  for (unsigned k = i; k < i + 2; ++k) {
    const uint32_t word = k == 0   ? 0u
                          : k == 1 ? 0xA2F9836Eu
                          : k == 2 ? 0x4E441529u
                          : k == 3 ? 0xFC2757D1u
                          : k == 4 ? 0xF534DDC0u
                          : k == 5 ? 0xDB629599u
                          : k == 6 ? 0x3C439041u
                                   : 0xFE5163ABu;
    pair = pair << 32 | word;
  }
  return pair >> (32 - shift) & 0xFFFFFFFFu;
}

// An angle less than pi/4, and how many quarter turns were taken off.
struct Angle {
  float rest;
  int quarters;
};

// Up to here the quotient by pi/2 has at most 13 bits: it is subtracted in four parts,
// the products of the first three being exact (Cody and Waite).
NBF_DEVICE Angle near_angle(float x) {
  const float k = nbf::rint(x * 0.6366197723675814f);
  const float r = ((x - k * 1.5703125f) - k * 0.0004837512969970703f) -
                  k * 7.549533620476723e-08f - k * 2.5633440682570896e-12f;
  return {r, static_cast<int>(k)};
}
// Beyond, it is multiplied with the bits of 2/pi that matter (Payne and Hanek).
NBF_DEVICE Angle far_angle(float x) {
  const uint32_t bits = from_bits<uint32_t>(x);
  const uint64_t m = (bits & 0x7FFFFFu) | 0x800000u;
  const unsigned offset = (bits >> 23 & 0xFFu) - 120, i = offset >> 5, s = offset & 31;
  const uint64_t low = m * two_over_pi(i + 2, s);
  const uint64_t middle = m * two_over_pi(i + 1, s) + (low >> 32);
  const uint64_t high = (m * two_over_pi(i, s) + (middle >> 32)) & 0xFFFFFFFFu;
  const uint64_t fraction = (high & 0x3FFFFFFFu) << 34 | (middle & 0xFFFFFFFFu) << 2 |
                            (low & 0xFFFFFFFFu) >> 30;
  const int quarters = static_cast<int>(high >> 30) + static_cast<int>(fraction >> 63);
  // pi/2 * 2**-64
  const float r = static_cast<float>(static_cast<int64_t>(fraction)) *
                  8.515303950216386e-20f;
  return x < 0 ? Angle{-r, -quarters} : Angle{r, quarters};
}
NBF_DEVICE Angle reduced(float x) {
  if (abs(x) < 12800.0f) return near_angle(x);
  return is_finite(x) ? far_angle(x) : Angle{nan<float>(), 0};
}

// On [-pi/4, pi/4], with the polynomials of Cephes.
NBF_DEVICE float sine_of(float r) {
  const float z = r * r;
  return r + r * z * (-0.16666654611f + z * (0.0083321608736f - z * 0.00019515295891f));
}
NBF_DEVICE float cosine_of(float r) {
  const float z = r * r;
  return 1.0f - 0.5f * z +
         z * z * (0.04166664568298827f +
                  z * (-0.001388731625493765f + z * 2.443315711809948e-05f));
}

NBF_DEVICE float sin(float x) {
  if (x == 0) return x;  // keeps -0
  const Angle a = reduced(x);
  const float y = (a.quarters & 1) == 0 ? sine_of(a.rest) : cosine_of(a.rest);
  return (a.quarters & 2) == 0 ? y : -y;
}
NBF_DEVICE float cos(float x) {
  const Angle a = reduced(x);
  const float y = (a.quarters & 1) == 0 ? cosine_of(a.rest) : sine_of(a.rest);
  return ((a.quarters + 1) & 2) == 0 ? y : -y;
}
NBF_DEVICE float tan(float x) {
  if (x == 0) return x;
  const Angle a = reduced(x);
  const float s = sine_of(a.rest), c = cosine_of(a.rest);
  return (a.quarters & 1) == 0 ? s / c : -c / s;
}

NBF_DEVICE double sin(double x) { return NBF_MATH(sin)(x); }
NBF_DEVICE double cos(double x) { return NBF_MATH(cos)(x); }
NBF_DEVICE double tan(double x) { return NBF_MATH(tan)(x); }

}  // namespace nbf
