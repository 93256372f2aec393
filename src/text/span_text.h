#pragma once
// Text that remembers, byte by byte, where it came from. `template_text` may contain special
// tokens; `content` (what users, tools and documents say) never can: the tokenizer looks for
// special tokens only inside unbroken runs of template text.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cera::text {

enum class Origin : bool { template_text = false, content = true };

class SpanText {
 public:
  struct Run {
    size_t end;  // byte offset one past the run
    Origin origin;
  };

  SpanText() = default;
  SpanText(std::string text, Origin origin);

  const std::string& str() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  /// Adjacent runs have different origins; the last run ends at size(); no run is empty.
  const std::vector<Run>& runs() const { return runs_; }
  Origin origin_at(size_t byte) const;

  void append(std::string_view text, Origin origin);
  void append(const SpanText& other);
  SpanText substr(size_t position, size_t n = std::string::npos) const;
  void clear();
  bool operator==(const SpanText& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace cera::text
