#include "kernel/program/access.h"

#include <algorithm>
#include <set>

namespace stitch::kernel {
namespace {

/// Most bytes of one access; longer runs take several.
constexpr std::int64_t most_bytes = 16;

class AccessFinder {
 public:
  AccessFinder(const ScalarProgram& program, int axis, std::int64_t extent, const std::optional<Misalignment>& shift)
      : program_(program), axis_(axis), extent_(extent), shift_(shift) {}

  [[nodiscard]] Access of(Index address, graph::DType dtype, ItemId guard) const {
    if (axis_ < 0) return {};
    const bool uniform = !program_.axes_of(address).contains(axis_) && (guard < 0 || !varies(guard));
    if (uniform) return {1, true};
    if (shift_) return of_shifted(address, dtype, guard);
    // All of a vector's elements lie side by side and are there together, or each is looked up by itself.
    const IndexPool::Run whole = run(address, extent_);
    if (!whole.regular || whole.step != 1 || !guard_is_uniform(guard)) return {1, false};
    // Dynamic indices that vary along the vector make it a gather.
    if (program_.looked_up_axes(address).contains(axis_)) return {1, false};
    for (int width = widest(dtype); width > 1; width /= 2) {
      const IndexPool::Run part = run(address, width);
      if (part.regular && part.step == 1 && part.aligned) return {width, false};
    }
    return {1, false};
  }

 private:
  [[nodiscard]] bool varies(ItemId id) const { return program_.at(id).axes.contains(axis_); }
  [[nodiscard]] IndexPool::Run run(Index index, std::int64_t width) const {
    return program_.pool().run(index, program_.axes().variables[axis_], width);
  }
  [[nodiscard]] int widest(graph::DType dtype) const {
    return std::min<std::int64_t>(extent_, most_bytes / graph::byte_size(dtype));
  }

  /// Each item is looked at once: a guard on a comparison of what dozens of others were selected from has more ways
  /// through its operands than could be walked.
  [[nodiscard]] bool guard_is_uniform(ItemId guard) const {
    std::vector<ItemId> open;
    std::set<ItemId> seen;
    const auto visit = [&](ItemId id) {
      if (varies(id) && seen.insert(id).second) open.push_back(id);
    };
    if (guard >= 0) visit(guard);
    while (!open.empty()) {
      const Item& item = program_.at(open.back());
      open.pop_back();
      if (item.kind == Item::Kind::in_range) {
        const IndexPool::Run of_index = run(item.index, extent_);
        if (of_index.regular && of_index.step == 0) continue;
        const bool whole_vectors = item.low % extent_ == 0 && item.high % extent_ == 0;
        if (of_index.regular && of_index.step == 1 && of_index.aligned && whole_vectors) continue;
        return false;
      }
      // What is read or counted along the vector tells its elements apart (unsigned indices of a scatter).
      if (item.kind == Item::Kind::load || item.operands.empty()) return false;
      for (const ItemId operand : item.operands) visit(operand);
    }
    return true;
  }

  /// Aligned where rows of this tensor begin as those do that the shift is of.
  [[nodiscard]] Access of_shifted(Index address, graph::DType dtype, ItemId guard) const {
    if (guard >= 0 && varies(guard)) return {1, false};
    for (int width = widest(dtype); width > 1; width /= 2) {
      const std::optional<Misalignment> own = misalignment(program_, address, axis_, width);
      if (own && *own == modulo(*shift_, width)) return {width, false};
    }
    return {1, false};
  }

  const ScalarProgram& program_;
  const int axis_;
  const std::int64_t extent_;
  const std::optional<Misalignment>& shift_;
};

}  // namespace

GroupAccesses find_accesses(const GroupStructure& structure, int vector_axis, std::int64_t vector_extent,
                            const std::optional<Misalignment>& shift) {
  const ScalarProgram& program = *structure.program;
  const AccessFinder access(program, vector_axis, vector_extent, shift);
  GroupAccesses found;
  for (const Item& item : program.items()) {
    const bool load = item.kind == Item::Kind::load;
    found.loads.push_back(load ? access.of(item.index, item.dtype, item.guard) : Access{});
  }
  for (const Anchor& anchor : structure.anchors) {
    found.stores.emplace_back();
    if (anchor.kind == Anchor::Kind::sort) found.stores.back().assign(anchor.buffers.size(), Access{});
    if (anchor.kind == Anchor::Kind::scan) {
      const graph::Node& node = program.graph().node(anchor.node);
      for (std::size_t b = 0; b < anchor.buffers.size(); ++b)
        found.stores.back().push_back(access.of(anchor.addresses[b], node.type(anchor.results[b]).dtype, anchor.guard));
    }
    if (anchor.kind != Anchor::Kind::store && anchor.kind != Anchor::Kind::atomic) continue;
    found.stores.back().push_back(access.of(anchor.addresses[0], anchor.dtype, anchor.guard));
  }
  return found;
}

}  // namespace stitch::kernel
