#pragma once
// Step 4 of ops/linear.h for any vector width. Included inside a region. V describes the vectors:
// width, load and store of whole ones and of the first n lanes, set1, add, mul, silu.

namespace cera::cpu::avx2 {
namespace {

// Whole vectors are not stored through a mask: on some processors that takes ten times as long.
template <class V>
struct Whole {
  inline __attribute__((always_inline)) typename V::Type load(const float* from) const {
    return V::load(from);
  }
  inline __attribute__((always_inline)) void store(float* to, typename V::Type y) const {
    V::store(to, y);
  }
};
template <class V>
struct Part {
  uint32_t n;
  inline __attribute__((always_inline)) typename V::Type load(const float* from) const {
    return V::load_part(from, n);
  }
  inline __attribute__((always_inline)) void store(float* to, typename V::Type y) const {
    V::store_part(to, n, y);
  }
};

template <class V, class Access>
inline __attribute__((always_inline)) void finish_vector(Access at, const Epilogue& epilogue,
                                                         const float* dots, const float* bias,
                                                         float* out) {
  auto y = at.load(dots);
  if (bias != nullptr) y = V::add(y, at.load(bias));
  if (epilogue.activation == Activation::silu) y = V::silu(y);
  if (epilogue.scale != 1.0f) y = V::mul(y, V::set1(epilogue.scale));
  if (epilogue.accumulate) y = V::add(at.load(out), y);
  at.store(out, y);
}

template <class V>
void finish_vectors(const Epilogue& epilogue, const float* dots, const float* bias, float* out,
                    uint32_t n) {
  uint32_t i = 0;
  const auto bias_at = [&] { return bias != nullptr ? bias + i : nullptr; };
  for (; i + V::width <= n; i += V::width)
    finish_vector<V>(Whole<V>{}, epilogue, dots + i, bias_at(), out + i);
  if (i < n) finish_vector<V>(Part<V>{n - i}, epilogue, dots + i, bias_at(), out + i);
}

template <class V, class Access>
inline __attribute__((always_inline)) void finish_glu_vector(Access at, Activation activation,
                                                             const float* gate, const float* up,
                                                             float* out) {
  auto g = at.load(gate);
  if (activation == Activation::silu) g = V::silu(g);
  at.store(out, V::mul(g, at.load(up)));
}

template <class V>
void finish_glu_vectors(Activation activation, const float* gate, const float* up, float* out,
                        uint32_t n) {
  uint32_t i = 0;
  for (; i + V::width <= n; i += V::width)
    finish_glu_vector<V>(Whole<V>{}, activation, gate + i, up + i, out + i);
  if (i < n) finish_glu_vector<V>(Part<V>{n - i}, activation, gate + i, up + i, out + i);
}

}  // namespace
}  // namespace cera::cpu::avx2
