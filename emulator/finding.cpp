#include "emulator/finding.h"

#include <fmt/format.h>

#include <array>

namespace stitch::emulator {

std::string_view to_string(Detector detector) {
  constexpr std::array<std::string_view, detector_count> names = {
      "out_of_bounds",     "misaligned",          "uninitialised_read", "shared_race",       "global_race",
      "tensor_race",       "redundant_write",     "missing_fence",      "divergent_barrier", "deadlock",
      "async_before_wait", "read_only_violation", "cluster_lifetime",   "invalid_use",       "trap"};
  return names[static_cast<std::size_t>(detector)];
}

std::string to_text(const Finding& finding) {
  const FindingPlace& place = finding.place;
  std::string source;
  if (place.source_line != 0) source = fmt::format(" at {}:{}", place.source_file, place.source_line);
  std::string times;
  if (finding.count > 1) times = fmt::format(", {} times", finding.count);
  return fmt::format("{}: {}{} (PTX line {}: {}), block ({},{},{}) thread ({},{},{}){}", to_string(finding.detector),
                     finding.message, source, place.ptx_line, place.ptx_text, place.block.x, place.block.y,
                     place.block.z, place.thread.x, place.thread.y, place.thread.z, times);
}

}  // namespace stitch::emulator
