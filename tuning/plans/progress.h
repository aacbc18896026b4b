#pragma once

#include <functional>
#include <string>
#include <utility>

namespace stitch::tuning {

/// How far a long task is. `share` never falls within one task.
struct Progress {
  std::string stage;   ///< "plan", "codegen", "verify", …
  double share = 0;    ///< 0 … 1 of the whole task
  std::string detail;  ///< "kernel 3 of 12"
};
/// May be empty: nobody wants to know.
using ProgressSink = std::function<void(const Progress&)>;

/// A task's part of a longer one: its progress from 0 to 1 is told to `whole` as `from` to `until`. `whole` must
/// outlive the sink that is returned.
inline ProgressSink part_of(const ProgressSink& whole, double from, double until) {
  if (!whole) return {};
  return [&whole, from, until](const Progress& part) {
    whole({part.stage, from + (until - from) * part.share, part.detail});
  };
}

/// Wall time of the stages, seconds.
struct StageSeconds {
  double import = 0, plan = 0, codegen = 0, verify = 0, measure = 0, search = 0;
};

}  // namespace stitch::tuning
