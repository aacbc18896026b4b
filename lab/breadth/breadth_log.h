#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include "base/result.h"
#include "lab/breadth/breadth.h"

namespace stitch::lab {

/// What a long run has done so far, one line of JSON per piece, appended as pieces end: a run that was stopped goes on
/// where it was. The first line says which seed the pieces are of, and what is run. Safe to use from several threads.
class BreadthLog {
 public:
  /// Opens or begins a log; an empty path keeps nothing. A last line that was cut off is left out. Errors: io, parse
  /// (a line that is none of a log), invalid_argument (a log of another seed, or of something else than `of`).
  static Result<std::unique_ptr<BreadthLog>> open(const std::filesystem::path& path, std::uint64_t seed,
                                                  std::string_view of = "graphs");

  [[nodiscard]] bool has(std::int64_t from) const { return done_.contains(from); }
  /// Error: io.
  Status add(std::int64_t from, const BreadthReport& piece);
  /// All pieces together.
  [[nodiscard]] const BreadthReport& total() const { return total_; }

 private:
  Status read(const std::filesystem::path& path, std::uint64_t seed, std::string_view of);

  std::mutex mutex_;
  std::ofstream file_;
  std::set<std::int64_t> done_;
  BreadthReport total_;
};

}  // namespace stitch::lab
