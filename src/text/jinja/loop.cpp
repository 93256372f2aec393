#include "text/jinja/loop.h"

#include <utility>

namespace cera::text::jinja {

Loop::Loop(Evaluator& evaluator, const ForStatement& statement, Value iterable,
           std::shared_ptr<Frame> outer, uint32_t depth)
    : evaluator_(evaluator),
      statement_(statement),
      outer_(outer),
      source_(std::in_place, evaluator.runtime_, iterable),
      account_(&evaluator.runtime_.meter),
      depth_(depth) {
  // What has a length tells it without being walked over; a filtered loop has none.
  if (!statement.test && !iterable.object()) length_ = int64_t(evaluator.runtime_.length(iterable));
}

bool Loop::pull(Value& out) {
  if (!source_) return false;
  while (source_->next(out)) {
    if (!statement_.test) return true;
    const std::shared_ptr<Frame> frame = std::make_shared<Frame>(Frame{outer_.lock(), {}});
    evaluator_.assign(statement_.target, out, *frame);
    const std::shared_ptr<Frame> here = std::exchange(evaluator_.frame_, frame);
    const bool passes = truth(evaluator_.evaluate(statement_.test));
    evaluator_.frame_ = here;
    if (passes) return true;
  }
  return false;
}

bool Loop::peek() {
  Value item;
  if (ahead_.empty() && pull(item)) ahead_.push_back(std::move(item));
  return !ahead_.empty();
}

bool Loop::next(Value& out) {
  if (!peek()) return false;
  out = std::move(ahead_.front());
  ahead_.pop_front();
  ++index0_;
  before_ = std::exchange(current_, out);
  return true;
}

int64_t Loop::length() {
  if (!length_) {
    for (Value item; pull(item);) {
      account_.take(sizeof(Value));
      ahead_.push_back(std::move(item));
    }
    length_ = index0_ + 1 + int64_t(ahead_.size());
  }
  return *length_;
}

void Loop::finish() {
  source_.reset();
  ahead_.clear();
  current_ = before_ = changed_ = Value();
}

Value Loop::attribute(Runtime&, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0_);
  if (name == "revindex0") return Value::integer(length() - index0_ - 1);
  if (name == "depth") return Value::integer(int64_t(depth_) + 1);
  if (name == "depth0") return Value::integer(depth_);
  if (name == "previtem")
    return index0_ == 0 ? Value::undefined("there is no previous item") : before_;
  if (name == "nextitem")
    return peek() ? ahead_.front() : Value::undefined("there is no next item");
  return {};
}

const Builtin* Loop::method(std::string_view name) const {
  static const BuiltinTable table{{"changed", "*", changed}, {"cycle", "*", cycle}};
  return table.find(name);
}

Value Loop::cycle(Runtime&, const Bound& args) {
  const auto& items = args.raw().positional;
  if (items.empty()) raise("no items for cycling given");
  return items[size_t(args.subject().object_as<Loop>()->index0_) % items.size()];
}

Value Loop::changed(Runtime& runtime, const Bound& args) {
  auto* self = args.subject().object_as<Loop>();
  Value now = runtime.tuple(args.raw().positional);
  const bool same = !self->changed_.is_undefined() && runtime.equal(self->changed_, now);
  self->changed_ = std::move(now);
  return Value::boolean(!same);
}

Value Loop::call(Runtime& runtime, const Arguments& arguments) {
  if (!statement_.recursive)
    raise("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.keywords.empty())
    raise("loop() takes one iterable");
  const std::shared_ptr<Frame> outer = outer_.lock();
  if (!outer) raise("loop() was called after the loop had ended");
  TextBuilder text(runtime.meter);
  TextBuilder* const out = std::exchange(evaluator_.out_, &text);
  evaluator_.run_loop(statement_, arguments.positional[0], outer, depth_ + 1);
  evaluator_.out_ = out;
  return std::move(text).finish();
}

}  // namespace cera::text::jinja
