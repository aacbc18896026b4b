#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/group_pointers.h"
#include "kernel/program/program.h"
#include "kernel/program/unwaited_loads.h"

namespace stitch::codegen {

/// Groups of a phase whose code is the same text: they share it and differ in their pointers, extents and tiles.
struct GroupClass {
  std::string body;
  std::string description;
  bool runtime_extent = false;  ///< the code has the length of the only axis as a variable
  bool leaves_cluster = false;  ///< the code arrives at a cluster barrier, at which the kernel has to wait
  std::vector<GroupPointers::Pointer> parameters;
  struct Member {
    std::vector<kernel::Buffer> buffers;  ///< by parameter
    std::int64_t extent = 0;
    std::int64_t tiles = 0;
  };
  std::vector<Member> members;

  [[nodiscard]] std::int64_t tiles() const;

  /// What the packed kernel's table has for each member: a row of 8-byte words.
  struct Word {
    enum class Kind : std::uint8_t {
      pointer,     ///< of parameter `parameter`
      extent,      ///< where the code has it as a variable
      first_tile,  ///< of the member, counted from the class' first; the last word, where there are several members
    };
    Kind kind = Kind::pointer;
    int parameter = 0;
  };
  [[nodiscard]] std::vector<Word> row() const;
};

/// The classes of a phase's groups, in the order of their first members. `overlapping`: GroupFrame::overlapping;
/// `unwaited`: GenerateOptions::unwaited.
std::vector<GroupClass> classify(const graph::Graph& graph, const kernel::KernelProgram& program, std::size_t phase,
                                 std::span<const kernel::Buffer> overlapping, kernel::UnwaitedInputs unwaited);

}  // namespace stitch::codegen
