#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace stitch::cli {

/// A line of a process's trace (base/trace.h).
struct TraceEvent {
  std::string name;
  std::int64_t at_us = 0;               ///< since 1970
  std::optional<std::int64_t> took_us;  ///< nothing: a moment
  std::int64_t thread = 0;
  nlohmann::json fields;  ///< the whole line

  [[nodiscard]] std::int64_t end_us() const { return at_us + took_us.value_or(0); }
  /// A member as text, whatever it is; "" where there is none.
  [[nodiscard]] std::string text(std::string_view field) const;
  /// A member that is a number, or 0.
  [[nodiscard]] double number(std::string_view field) const;
  [[nodiscard]] bool is_true(std::string_view field) const;
};

/// What one process wrote.
struct ProcessTrace {
  std::string file;
  std::int64_t process = 0, parent = 0;
  std::optional<std::int64_t> rank;
  std::string host, program, version;
  std::int64_t began_us = 0, ended_us = 0;  ///< of its first line, and of the last thing that it told
  bool ended = false;                       ///< it said so itself; otherwise it was killed, or is still running
  bool cut = false;                         ///< its last line is no whole one and was skipped
  std::vector<TraceEvent> events;           ///< without beginning and end

  /// "rank 3, python3 train.py (1234)".
  [[nodiscard]] std::string title() const;
};

/// Nothing where the process was killed before its first line was there. Errors: parse and version_mismatch, with file
/// and line.
Result<std::optional<ProcessTrace>> parse_trace(std::string_view text, const std::string& file);

/// Of a folder all files named as traces are ("stitch-….jsonl"; what else is there stays unread), or of one file; by
/// rank and then by time. Errors: those of parse_trace; not_found (no such file or folder, or no trace in it).
Result<std::vector<ProcessTrace>> read_traces(const FileSystem& files, const std::filesystem::path& from);

/// The process that began last, and all that ran at the same time as one of these: processes of one run do.
std::vector<ProcessTrace> latest_run(std::vector<ProcessTrace> all);

}  // namespace stitch::cli
