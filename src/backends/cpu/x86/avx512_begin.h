// Opens a region compiled for the avx512 tier (base/cpu_info.h); avx512_end.h closes it. Rules as
// in avx2_begin.h.
#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((                                                                         \
        target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni"))), \
    apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")
#endif
