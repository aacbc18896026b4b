#include "daemon/jobs/constant_budget.h"

namespace stitch::daemon {
namespace {

/// A graph with less is never refused: its nodes weigh as much.
constexpr std::int64_t always_held = std::int64_t{1} << 20;

}  // namespace

std::int64_t constant_bytes(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op == graph::Op::constant) bytes += std::ssize(node.as<graph::ConstantAttributes>().data);
    for (const auto& region : node.regions) bytes += constant_bytes(*region);
  }
  return bytes;
}

Result<ConstantBudget::Hold> ConstantBudget::hold(const graph::Graph& graph) {
  const std::int64_t bytes = constant_bytes(graph);
  if ((held_ += bytes) > bytes_ && bytes > always_held) {
    held_ -= bytes;
    return make_error(ErrorKind::resource_exhausted,
                      "fragments with {} bytes of constants wait already, at most {} may", held_.load(), bytes_);
  }
  return Hold(nullptr, [this, bytes](const void*) { held_ -= bytes; });
}

}  // namespace stitch::daemon
