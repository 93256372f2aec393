#include "text/jinja/inputs.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "text/jinja/unicode.h"

namespace cera::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

/// Roles name the parts of a template ("<|im_start|>user"); anything else in that place is just
/// text.
bool is_identifier(std::string_view role) {
  return !role.empty() && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  });
}

class Converter {
 public:
  Converter(uint32_t max_depth, std::string_view what, bool messages)
      : max_depth_(max_depth), what_(what), messages_(messages) {}

  Value convert(const Json& json, uint32_t depth = 0) const {
    if (depth > max_depth_) {
      throw Failure{ErrorCode::invalid_argument,
                    fmt::format("'{}' is nested deeper than {} levels", what_, max_depth_),
                    {}};
    }
    switch (json.type()) {
      case Json::value_t::null:
        return Value::none();
      case Json::value_t::boolean:
        return Value::boolean(json.get<bool>());
      case Json::value_t::number_integer:
        return Value::integer(json.get<int64_t>());
      case Json::value_t::number_unsigned: {
        const auto value = json.get<uint64_t>();
        return value <= uint64_t(INT64_MAX) ? Value::integer(int64_t(value))
                                            : Value::big_integer(value);
      }
      case Json::value_t::number_float:
        return Value::real(json.get<double>());
      case Json::value_t::string:
        return input_text(json.get_ref<const std::string&>(), Origin::content);
      case Json::value_t::array:
        return convert_array(json, depth);
      case Json::value_t::object:
        return convert_object(json, depth);
      default:
        break;
    }
    throw Failure{ErrorCode::invalid_argument,
                  fmt::format("'{}' holds something that is not JSON", what_),
                  {}};
  }

 private:
  Value convert_array(const Json& json, uint32_t depth) const {
    Sequence list{{}, Sequence::Flavor::list, 1, false, Account()};
    list.items.reserve(json.size());
    for (const Json& item : json) {
      list.items.push_back(convert(item, depth + 1));
      list.depth = std::max(list.depth, list.items.back().depth() + 1);
    }
    return Value(std::make_shared<const Sequence>(std::move(list)));
  }

  Value convert_object(const Json& json, uint32_t depth) const {
    Dict dict{{}, 1, Account()};
    dict.entries.reserve(json.size());
    for (const auto& [key, value] : json.items()) {
      const bool role = messages_ && depth == 1 && key == "role" && value.is_string() &&
                        is_identifier(value.get_ref<const std::string&>());
      dict.entries.emplace_back(input_text(key, Origin::content),
                                role ? input_text(value.get<std::string>(), Origin::template_text)
                                     : convert(value, depth + 1));
      dict.depth = std::max(dict.depth, dict.entries.back().second.depth() + 1);
    }
    return Value(std::make_shared<const Dict>(std::move(dict)));
  }

  const uint32_t max_depth_;
  const std::string_view what_;
  const bool messages_;
};

}  // namespace

Value from_json(const Json& json, uint32_t max_depth, std::string_view what) {
  return Converter(max_depth, what, false).convert(json);
}

Value messages_from_json(const Json& json, uint32_t max_depth) {
  return Converter(max_depth, "messages", true).convert(json);
}

Value input_text(std::string text, Origin origin) {
  const bool ascii = unicode::is_ascii(text);
  return Value(std::make_shared<const String>(
      String{SpanText(std::move(text), origin), Account(), ascii, false}));
}

}  // namespace cera::text::jinja
