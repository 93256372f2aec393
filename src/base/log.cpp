#include "base/log.h"

#include <memory>
#include <mutex>

namespace cera {
namespace {
std::mutex sink_mutex;
std::shared_ptr<LogSink> current_sink;
}  // namespace

void set_log_sink(LogSink sink) {
  std::lock_guard lock(sink_mutex);
  current_sink = sink ? std::make_shared<LogSink>(std::move(sink)) : nullptr;
}

void log(LogLevel level, std::string_view message) {
  std::shared_ptr<LogSink> sink;
  {
    std::lock_guard lock(sink_mutex);
    sink = current_sink;
  }
  if (sink) (*sink)(level, message);
}

}  // namespace cera
