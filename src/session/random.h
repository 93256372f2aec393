#pragma once
// Our own random numbers, so that a seed gives the same text on every machine and library version.
// xoshiro256++ (Blackman and Vigna, public domain), seeded by splitmix64.

#include <cstdint>

namespace cera {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  uint64_t next() {
    const uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// In [0, 1), 53 bits.
  double uniform() { return double(next() >> 11) * 0x1p-53; }

  /// In [0, n), n > 0; the bias of 2^-64 * n does not matter here.
  uint64_t below(uint64_t n) { return uint64_t(uniform() * double(n)); }

 private:
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  uint64_t state_[4];
};

}  // namespace cera
