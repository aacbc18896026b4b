#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/gpu/cupti_api.h"

/// A CUPTI that delivers what a test says that it recorded: buffers asked for and handed back by callbacks, as the real
/// one does it. Its functions carry no context, so that there is one in a process.
namespace stitch::profiler::test {

class FakeCupti {
 public:
  FakeCupti();
  ~FakeCupti();
  FakeCupti(const FakeCupti&) = delete;
  FakeCupti& operator=(const FakeCupti&) = delete;

  [[nodiscard]] std::shared_ptr<const CuptiApi> api() const;

  /// A kernel, or a whole graph, has run for so long, `gap_ns` after what ran last. Forgotten where its kind is not
  /// recorded.
  void ran(CUpti_ActivityKind kind, std::uint64_t ns, std::uint64_t gap_ns = 100);
  /// The next ones have no times, or are lost.
  void spoil(int without_times, int lost);

  bool refuses_graphs = false;  ///< whole graphs are not recorded here
  bool refuses_all = false;
  // Of counting.
  std::size_t passes = 1;  ///< that it takes, and after which it says that it is done
  bool is_done = true;
  std::size_t dropped_ranges = 0;
  std::vector<double> values = {1e6, 2e6, 50};  ///< of the metrics
};

}  // namespace stitch::profiler::test
