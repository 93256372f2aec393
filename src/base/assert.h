#pragma once
// Assertions are for our own bugs, never for outside input. They stay on in release builds (they
// are cheap); CERA_DASSERT is for checks inside hot loops and is on in debug builds only.

namespace cera {

/// Called with the failed condition and its place. A host may set its own, for example to log and
/// unwind; if the handler returns, the process ends.
using AssertHandler = void (*)(const char* condition, const char* file, int line);
AssertHandler set_assert_handler(AssertHandler handler);

[[noreturn]] void assert_failed(const char* condition, const char* file, int line);

}  // namespace cera

#define CERA_ASSERT(condition) \
  ((condition) ? void(0) : ::cera::assert_failed(#condition, __FILE__, __LINE__))
#ifdef NDEBUG
#define CERA_DASSERT(condition) void(0)
#else
#define CERA_DASSERT(condition) CERA_ASSERT(condition)
#endif
