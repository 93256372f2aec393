// First inputs for fuzz_chat_template: our own templates, and a file per expression that they are
// tested with. usage: seeds_chat_template FOLDER

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const fs::path out = argv[1];
  const fs::path templates = fs::path(CERA_SOURCE_DIR) / "tests/text/templates";
  for (const auto& entry : fs::directory_iterator(templates)) {
    if (entry.path().extension() != ".jinja") continue;
    fs::copy_file(entry.path(), out / entry.path().filename(),
                  fs::copy_options::overwrite_existing);
  }
  std::ifstream lines(templates / "expressions.txt");
  std::string line;
  for (int n = 0; std::getline(lines, line); ++n) {
    if (!line.empty() && !line.starts_with('#')) {
      std::ofstream(out / ("expression_" + std::to_string(n))) << "{{ " << line << " }}";
    }
  }
  return 0;
}
