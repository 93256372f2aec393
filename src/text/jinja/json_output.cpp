// json.dumps, with the origin of every byte: punctuation and numbers belong to the template, the
// inside of a string to whoever wrote the string.

#include <cmath>

#include "text/jinja/merge_sort.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonOptions& options)
      : runtime_(runtime), options_(options), out_(runtime.meter) {
    const Origin origin = Origin::template_text;
    item_separator_ = SpanText(options.indent ? "," : ", ", origin);
    key_separator_ = SpanText(": ", origin);
    if (options.separators) std::tie(item_separator_, key_separator_) = *options.separators;
  }

  Value run(const Value& value) {
    write(value, 0);
    return std::move(out_).finish();
  }

 private:
  void write(const Value& value, uint32_t depth) {
    runtime_.check_depth(depth);
    switch (value.kind()) {
      case Value::Kind::string:
        return write_string(value.string().text);
      case Value::Kind::dict:
        return write_dict(value.dict(), depth);
      case Value::Kind::sequence:
        if (value.sequence()->flavor <= Sequence::Flavor::group)
          return write_list(*value.sequence(), depth);
        break;
      case Value::Kind::undefined:
      case Value::Kind::object:
        break;
      default:
        return out_.append(scalar(value));
    }
    raise("Object of type {} is not JSON serializable", type_name(value));
  }

  static std::string scalar(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::none:
        return "null";
      case Value::Kind::boolean:
        return value.as_boolean() ? "true" : "false";
      case Value::Kind::integer:
        return fmt::to_string(value.as_integer());
      case Value::Kind::big_integer:
        return fmt::to_string(value.as_big_integer());
      default:
        break;
    }
    const double real = value.as_real();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return float_repr(real);
  }

  void write_list(const Sequence& list, uint32_t depth) {
    if (list.items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(item_separator_);
      break_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    break_line(depth);
    out_.append("]");
  }

  void write_dict(const Dict& dict, uint32_t depth) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    Account account(&runtime_.meter);
    account.take(dict.entries.size() * sizeof entries[0]);
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sort_keys) {
      merge_sort(entries, [&](const auto* a, const auto* b) {
        return runtime_.compare(CompareOp::less, a->first, b->first);
      });
    }
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(item_separator_);
      break_line(depth + 1);
      write_key(entries[i]->first);
      out_.append(key_separator_);
      write(entries[i]->second, depth + 1);
    }
    break_line(depth);
    out_.append("}");
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.string().text);
    if (!key.is_number() && !key.is_none()) {
      raise("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out_.append("\"" + scalar(key) + "\"");
  }

  void break_line(uint32_t depth) {
    if (!options_.indent) return;
    out_.append("\n");
    for (uint32_t i = 0; i < depth; ++i) out_.append(*options_.indent);
  }

  void write_string(const SpanText& string) {
    const std::string& text = string.str();
    out_.append("\"");
    size_t plain = 0;  // start of what is copied as it is
    for (size_t at = 0; at < text.size();) {
      const unicode::CodePoint c = unicode::decode(text, at);
      const std::string escape = escaped(c.value);
      if (!escape.empty()) {
        out_.append(string, plain, at - plain);
        out_.append(escape, string.origin_at(at));
        plain = at + c.n_bytes;
      }
      at += c.n_bytes;
    }
    out_.append(string, plain, text.size() - plain);
    out_.append("\"");
  }

  /// Empty when the code point stands for itself.
  std::string escaped(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    if (c >= 0x20 && (!options_.ensure_ascii || c < 0x7F || c >= unicode::kInvalid)) return {};
    if (c < 0x10000) return fmt::format("\\u{:04x}", uint32_t(c));
    const uint32_t rest = uint32_t(c) - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  Runtime& runtime_;
  const JsonOptions& options_;
  TextBuilder out_;
  SpanText item_separator_;
  SpanText key_separator_;
};

}  // namespace

Value to_json(Runtime& runtime, const Value& value, const JsonOptions& options) {
  return JsonWriter(runtime, options).run(value);
}

}  // namespace cera::text::jinja
