#include "kernel/program/sort_plan.h"

#include <algorithm>
#include <bit>

namespace stitch::kernel {
namespace {

constexpr std::int64_t bank_row_bytes = 128;
/// Places that 15 bits count.
constexpr std::int64_t most_short_places = 1 << 15;

SortPlan::Word word_of(graph::DType key, std::int64_t padded) {
  const int bytes = graph::byte_size(key);
  if (bytes <= 2 && padded <= most_short_places) return SortPlan::Word::u32;
  return bytes <= 4 ? SortPlan::Word::u64 : SortPlan::Word::pair;
}

}  // namespace

SortPlan sort_plan(const GroupStructure& structure, const GroupMapping& mapping, int threads) {
  const Anchor& anchor = structure.anchors[0];
  SortPlan plan;
  int walked = -1;
  for (const int a : anchor.reduced) {
    plan.length *= structure.program->axes().extents[a];
    walked = a;
  }
  plan.threads = walked < 0 ? 1 : mapping.axes[walked].threads();
  const auto least = static_cast<std::uint64_t>(std::max(plan.length, plan.threads));
  plan.elements = static_cast<std::int64_t>(std::bit_ceil(least)) / plan.threads;
  plan.lines = std::max<std::int64_t>(threads / plan.threads, 1);
  plan.word = word_of(anchor.dtype, plan.padded());
  // A word more after each row of banks: threads that are a power of two apart meet in different ones.
  if (plan.threads > 1) plan.pitch = plan.padded() + plan.padded() * plan.word_bytes() / bank_row_bytes + 1;
  return plan;
}

}  // namespace stitch::kernel
