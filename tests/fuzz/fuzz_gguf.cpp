// Any bytes: the reader refuses them, or what it gives keeps its promises and survives being
// written again.

#include <cstdint>

#include "gguf/exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = cera::gguf::File::from_bytes(bytes, "fuzz");
  if (file) {
    cera::gguf::exercise(**file, bytes);
  } else {
    CERA_ASSERT(!file.error().message.empty() && file.error().message.size() < 2000);
  }
  return 0;
}
