#include "kernel/loop/recurrent_step.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

constexpr std::int64_t alignment = 16;
std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

std::set<int> RecurrentStep::lasting_inputs() const {
  std::set<int> lasting;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kind == Source::Kind::input) lasting.insert(i);
  }
  return lasting;
}

bool RecurrentStep::is_sequence(int parameter) const {
  return std::ranges::any_of(sequences, [&](const Sequence& sequence) { return sequence.parameter == parameter; });
}

ResidentLayout resident_layout(const RecurrentStep& step, std::span<const std::int64_t> scratch_bytes,
                               std::span<const std::int64_t> fragment_bytes) {
  ResidentLayout layout;
  for (const RecurrentStep::State& state : step.states) {
    layout.states.push_back(layout.copy);
    layout.copy += aligned(state.type.bytes());
  }
  layout.bytes = 2 * layout.copy;
  for (const std::int64_t bytes : scratch_bytes) {
    layout.scratch.push_back(layout.bytes);
    layout.bytes += aligned(bytes);
  }
  for (const std::int64_t bytes : fragment_bytes) {
    layout.fragments.push_back(layout.bytes);
    layout.bytes += aligned(bytes);
  }
  layout.first_row = layout.bytes;
  layout.bytes += alignment;
  return layout;
}

}  // namespace stitch::kernel
