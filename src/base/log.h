#pragma once
// Library code never prints: it reports through this callback (default: silent). The command line
// sets it.

#include <functional>
#include <string_view>

namespace cera {

enum class LogLevel { debug, info, warning };

using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the process-wide sink. Thread-safe; the sink must be thread-safe itself.
void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view message);

}  // namespace cera
