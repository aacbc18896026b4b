#include "codegen/group_pointers.h"

#include <fmt/format.h>
#include <algorithm>
#include <string_view>

namespace stitch::codegen {

using kernel::Buffer;

namespace {

std::string_view prefix(Buffer::Kind kind) {
  switch (kind) {
    case Buffer::Kind::input: return "in";
    case Buffer::Kind::output: return "out";
    case Buffer::Kind::scratch: return "scratch";
    case Buffer::Kind::table: return "table";
  }
  return "";
}

}  // namespace

GroupPointers::GroupPointers(const graph::Graph& graph, const kernel::GroupStructure& group,
                             std::span<const Buffer> overlapping)
    : overlapping_(overlapping) {
  for (const kernel::Item& item : group.program->items()) {
    if (item.kind == kernel::Item::Kind::load) add(item.buffer, item.dtype);
  }
  for (const kernel::Anchor& anchor : group.anchors) {
    const auto dtype_of = [&](std::size_t i) {
      if (!anchor.results.empty()) return graph.node(anchor.node).type(anchor.results[i]).dtype;
      return i == 0 ? anchor.dtype : graph.node(anchor.node).type(static_cast<std::int32_t>(i)).dtype;
    };
    for (std::size_t i = 0; i < anchor.buffers.size(); ++i) add(anchor.buffers[i], dtype_of(i));
  }
}

void GroupPointers::add(const Buffer& buffer, graph::DType dtype) {
  if (std::ranges::find(pointers_, buffer, &Pointer::buffer) != pointers_.end()) return;
  const auto same_kind =
      std::ranges::count_if(pointers_, [&](const Pointer& each) { return each.buffer.kind == buffer.kind; });
  const auto number = buffer.kind == Buffer::Kind::table ? buffer.number : same_kind;
  const bool overlaps = std::ranges::find(overlapping_, buffer) != overlapping_.end();
  pointers_.push_back({buffer, dtype, fmt::format("{}{}", prefix(buffer.kind), number), overlaps});
}

std::vector<GroupPointers::Pointer> GroupPointers::parameters() const {
  std::vector<Pointer> parameters = pointers_;
  std::erase_if(parameters, [](const Pointer& each) { return each.buffer.kind == Buffer::Kind::table; });
  return parameters;
}

const GroupPointers::Pointer& GroupPointers::of(const Buffer& buffer) const {
  return *std::ranges::find(pointers_, buffer, &Pointer::buffer);
}

}  // namespace stitch::codegen
