#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/trace/trace_file.h"

namespace stitch::cli {

/// All phases of one name. What is inside another phase counts in both.
struct PhaseTotal {
  std::string name;
  std::int64_t count = 0, failed = 0;
  double total_us = 0, longest_us = 0;
};

/// What was asked for one fragment, as often as it was answered so.
struct FragmentRow {
  std::string fragment, name, plan, label, source, reason;
  bool hit = false;
  std::int64_t count = 0;

  /// "hit", "miss", or "made": in this process, which asked nobody.
  [[nodiscard]] std::string_view outcome() const { return hit ? "hit" : source == "made" ? "made" : "miss"; }
};

/// Something that others ran, or that ran otherwise, for one reason.
struct FallbackRow {
  std::string what, reason, to;
  std::int64_t count = 0;
};

/// What a process's trace comes to.
struct TraceSummary {
  std::vector<PhaseTotal> phases;        ///< the longest first
  std::vector<FragmentRow> fragments;    ///< misses first
  std::vector<FallbackRow> fallbacks;    ///< the most frequent first
  std::vector<const TraceEvent*> steps;  ///< of programs, where they were timed; they live as long as the trace
  std::vector<const TraceEvent*> notes;  ///< servers, programs, work handed in, swaps, reports
  std::int64_t hits = 0, misses = 0, made = 0, swaps = 0;
};

TraceSummary summary_of(const ProcessTrace& trace);

/// A line per process, with what its phases took, and misses and fall-backs with their reasons.
std::string to_table(const std::vector<ProcessTrace>& traces);
std::string to_json(const std::vector<ProcessTrace>& traces);

}  // namespace stitch::cli
