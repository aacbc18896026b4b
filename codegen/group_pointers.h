#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernel/structure/structure.h"

namespace stitch::codegen {

/// The buffers that a group's code refers to, in the order of its items and then of its anchors, and the names that
/// the code has for them: "in0", "in1", "out0", "scratch0", numbered by kind; a constant's table by its node.
class GroupPointers {
 public:
  /// `overlapping`: GroupFrame::overlapping.
  GroupPointers(const graph::Graph& graph, const kernel::GroupStructure& group,
                std::span<const kernel::Buffer> overlapping);

  struct Pointer {
    kernel::Buffer buffer;
    graph::DType dtype = graph::DType::f32;  ///< of the elements as the code accesses them
    std::string name;
    bool overlaps = false;  ///< another pointer may be to the same elements
  };
  /// Those that a function of the group's code has to be given; tables are there for all.
  [[nodiscard]] std::vector<Pointer> parameters() const;
  [[nodiscard]] const std::string& name(const kernel::Buffer& buffer) const { return of(buffer).name; }
  /// Pointer::overlaps
  [[nodiscard]] bool overlaps(const kernel::Buffer& buffer) const { return of(buffer).overlaps; }

 private:
  void add(const kernel::Buffer& buffer, graph::DType dtype);
  [[nodiscard]] const Pointer& of(const kernel::Buffer& buffer) const;

  const std::span<const kernel::Buffer> overlapping_;
  std::vector<Pointer> pointers_;
};

}  // namespace stitch::codegen
