// First inputs for fuzz_model: a small model of each architecture. seeds_model FOLDER

#include <cstdio>
#include <fstream>
#include <string>

#include "models/tiny_file.h"

int main(int argc, char** argv) {
  using namespace cera;
  using namespace cera::tests;
  if (argc != 2) return 2;
  const auto write = [&](const std::string& name, const TinyFile& file) {
    const std::vector<std::byte> bytes = file.bytes();
    std::ofstream out(std::string(argv[1]) + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    return out.good();
  };
  bool written = true;
  for (const std::string architecture : {"lfm2", "llama", "qwen2", "qwen3"}) {
    written &= write(architecture, random_model({.architecture = architecture,
                                                 .width = 8,
                                                 .hidden = 8,
                                                 .vocab = 8,
                                                 .heads = 2,
                                                 .kv_heads = 1,
                                                 .head_dim = 4}));
  }
  TinyFile packed = random_model({.type = TensorType::q4_0,
                                  .width = 32,
                                  .hidden = 32,
                                  .vocab = 8,
                                  .layers = 1,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .head_dim = 16});
  packed.set_string("llama.rope.scaling.type", "yarn");
  packed.set_float("llama.rope.scaling.factor", 4);
  packed.set_uint("llama.rope.scaling.original_context_length", 128);
  packed.set_uint("tokenizer.ggml.eos_token_id", 2);
  packed.tensors["rope_freqs.weight"] = {{8}, std::vector<float>(8, 2)};
  written &= write("packed", packed);
  if (!written) std::fprintf(stderr, "cannot write to %s\n", argv[1]);
  return written ? 0 : 1;
}
