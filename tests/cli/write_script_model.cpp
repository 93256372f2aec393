// Writes the script model (tests/session/script_model.h) to a file, for tests that run the command.
// usage: write_script_model PATH [--no-template] [--no-bos] [--context N]

#include "session/script_model.h"

#include <cstdio>
#include <fstream>
#include <string_view>

int main(int argc, char** argv) {
  cera::tests::ScriptModelOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--no-template") options.chat_template = false;
    if (arg == "--no-bos") options.add_bos = false;
    if (arg == "--context" && i + 1 < argc)
      options.context_length = uint32_t(std::stoul(argv[++i]));
  }
  if (argc < 2) return 2;
  const std::vector<std::byte> bytes = cera::tests::script_model(options);
  std::ofstream out(argv[1], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  return out.flush() ? 0 : 1;
}
