#pragma once
// Writing a file so that its name never leads to half of it.

#include <cstddef>
#include <span>
#include <string>

#include "base/error.h"

namespace cera {

/// Writes the pieces one after another to a temporary file beside `path`, which is then renamed to
/// it. After an error the old file, if there was one, is untouched and the temporary one is gone.
Result<void> write_file_atomically(const std::string& path,
                                   std::span<const std::span<const std::byte>> pieces);

}  // namespace cera
