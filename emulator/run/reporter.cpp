#include "emulator/run/reporter.h"

#include <algorithm>

#include "emulator/ptx/ptx_error.h"

namespace stitch::emulator {

void Reporter::merge(const Reporter& other) {
  for (const auto& [key, entry] : other.entries_) {
    Entry& mine = entries_[key];
    const std::uint64_t count = mine.count + entry.count;
    if (mine.count == 0 || entry.place.ordinal < mine.place.ordinal) mine = entry;
    mine.count = count;
  }
}

std::vector<Finding> Reporter::findings(std::size_t most, std::uint64_t& total) const {
  std::vector<Finding> result;
  total = 0;
  for (const auto& [key, entry] : entries_) {
    total += entry.count;
    const Origin& origin = code_->origins[entry.instruction];
    Finding finding;
    finding.detector = key.second;
    finding.message = entry.message;
    finding.count = entry.count;
    finding.place.ptx_line = origin.ptx_line;
    finding.place.ptx_text = std::string(ptx::line_text(code_->ptx, origin.ptx_line));
    if (origin.source_file != 0 && origin.source_file < code_->files.size()) {
      finding.place.source_file = code_->files[origin.source_file];
      finding.place.source_line = origin.source_line;
    }
    finding.place.block = entry.place.block;
    finding.place.thread = entry.place.thread;
    finding.place.ordinal = entry.place.ordinal;
    result.push_back(std::move(finding));
  }
  std::ranges::stable_sort(result, {}, [](const Finding& f) { return std::pair(f.place.ordinal, f.place.ptx_line); });
  if (result.size() > most) result.resize(most);
  return result;
}

}  // namespace stitch::emulator
