#pragma once
// The variable `loop` of a running `for`. It feeds the loop, so that it can look ahead only when
// asked to.

#include <deque>
#include <memory>

#include "text/jinja/evaluate.h"

namespace cera::text::jinja {

class Loop final : public Object {
 public:
  Loop(Evaluator& evaluator, const ForStatement& statement, Value iterable,
       std::shared_ptr<Frame> outer, uint32_t depth);

  /// The next item that passes the loop's `if`.
  bool next(Value& out);
  /// The loop is over: lets go of everything, so that a template that kept it holds no cycle.
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  /// loop(items): the loop's body over other items, for recursive loops.
  Value call(Runtime& runtime, const Arguments& arguments) override;
  const Builtin* method(std::string_view name) const override;
  Value attribute(Runtime& runtime, std::string_view name) override;

 private:
  static Value cycle(Runtime& runtime, const Bound& args);
  static Value changed(Runtime& runtime, const Bound& args);
  bool pull(Value& out);
  bool peek();
  int64_t length();

  Evaluator& evaluator_;
  const ForStatement& statement_;
  std::weak_ptr<Frame> outer_;
  std::optional<Cursor> source_;
  std::deque<Value> ahead_;  // pulled, not yet handed out
  Account account_;
  std::optional<int64_t> length_;
  int64_t index0_ = -1;
  uint32_t depth_;
  Value current_, before_;
  Value changed_;  // the arguments of the last changed()
};

}  // namespace cera::text::jinja
