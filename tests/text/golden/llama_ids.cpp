// Tokenizes with llama.cpp's library, many texts at one load: make_goldens.py compiles and runs it.
// Arguments: the GGUF file, then the pre-tokenizer to use instead of the file's, or "".
// Standard input: lines of "1 HEX" (special tokens parsed) or "0 HEX"; standard output: ids, one
// line each.

#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "llama.h"

int main(int, char** argv) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model_kv_override overrides[2] = {};
  if (*argv[2]) {
    overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_STR;
    std::strcpy(overrides[0].key, "tokenizer.ggml.pre");
    std::strncpy(overrides[0].val_str, argv[2], sizeof overrides[0].val_str - 1);
    params.kv_overrides = overrides;
  }
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (!model) {
    std::fprintf(stderr, "llama.cpp cannot load %s\n", argv[1]);
    return 1;
  }
  const llama_vocab* vocab = llama_model_get_vocab(model);
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    for (size_t i = 2; i + 1 < line.size(); i += 2) {
      text += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    }
    std::vector<llama_token> ids(text.size() + 16);
    try {
      const int n = llama_tokenize(vocab, text.data(), int(text.size()), ids.data(),
                                   int(ids.size()), false, line[0] == '1');
      for (int i = 0; i < n; ++i) std::printf("%d ", ids[i]);
    } catch (const std::exception&) {
      std::printf("-1");  // it throws on some ill-formed texts
    }
    std::printf("\n");
  }
  llama_model_free(model);
}
