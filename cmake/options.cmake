# Language level, warnings and sanitizers, the same for every target.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(CERA_TESTS "build the tests" ON)
option(CERA_FUZZ "build the fuzzers (needs clang)" OFF)
option(CERA_COVERAGE "instrument for coverage" OFF)
set(CERA_SANITIZE "" CACHE STRING "sanitizers, for example address,undefined or thread")

# The order and rounding of every float operation is part of an op's definition
# (docs/ARCHITECTURE.md, "Numbers"): no contraction, no reassociation.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off)

# GCC 12 at -O3 warns of overlapping and overflowing copies inside std::string and std::vector (its bugs 105651
# and 105329) and of uninitialised optionals where there are none.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  foreach(warning restrict stringop-overflow maybe-uninitialized)
    add_compile_options($<$<CONFIG:Release>:-Wno-${warning}>)
  endforeach()
endif()

if(CERA_SANITIZE)
  add_compile_options(-fsanitize=${CERA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CERA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees uninitialised members of std::variant in instrumented code where there are none.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
if(CERA_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()
if(CERA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
