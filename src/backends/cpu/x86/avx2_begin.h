// Opens a region compiled for AVX2 + FMA + F16C, whatever the flags of the build; avx2_end.h closes
// it. No include guard: used once per region. Include every other header before it, so that no
// inline or template function of the baseline is compiled for a processor that may not be there.
// Inside the region: everything in namespace cera::cpu::avx2, no std templates.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
