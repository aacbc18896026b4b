#include "kernel/program/held_places.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "kernel/program/group_deriver.h"
#include "kernel/structure/items.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/mapping_space.h"

namespace stitch::kernel {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Three reductions one after the other along rows of bf16, with values of both sizes between them.
graph::Graph three_sweeps(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const graph::Dims dims = {rows, columns};
  const Value x = b.parameter(DType::bf16, dims), y = b.parameter(DType::bf16, dims);
  const auto repeated = [&](ReduceKind kind, Value value) {
    return b.broadcast(b.reduce(kind, value, {1}), dims, {0});
  };
  const Value clamped = b.add(Op::clamp, {y, b.binary(Op::subtract, x, repeated(ReduceKind::max, x)), x});
  const Value centred = b.binary(Op::subtract, clamped, repeated(ReduceKind::max, clamped));
  const Value square = b.binary(Op::multiply, centred, centred);
  return *b.finish({b.binary(Op::divide, square, repeated(ReduceKind::sum, square))});
}

/// Held values share bytes only where every thread has the same ones: in one place, with elements of one size, and one
/// after the other.
TEST(HeldPlaces, OtherThreadsBytesAreNotOverwritten) {
  for (const std::int64_t columns : {1031, 4096}) {
    const graph::Graph graph = three_sweeps(16, columns);
    const auto structure = derive_structure(graph, AxisAnalysis(graph), {{1}, {}});
    ASSERT_TRUE(structure) << structure.error().message;
    const GroupStructure& group = structure->phases.at(0).groups.at(0);
    int shared = 0, mixed = 0;
    for (const int threads : {128, 256}) {
      Schedule schedule;
      schedule.threads = threads;
      search::MappingSpaceOptions space;
      space.threads = threads;
      for (const GroupMapping& mapping : search::enumerate_mappings(group, space, *find_device("h200"))) {
        const auto derived = derive_group(group, mapping, schedule, 1);
        if (!derived) continue;
        const ScalarProgram& program = *group.program;
        for (const HeldItem& a : derived->held) {
          if (a.place != Hold::shared) continue;
          ++shared;
          const auto bytes = [&](const HeldItem& held) {
            const Item& item = program.at(held.item);
            return derived->elements_per_thread(item.axes) * held_bytes(item) * derived->threads;
          };
          EXPECT_LE(a.shared_offset + bytes(a), derived->held_bytes);
          for (const HeldItem& b : derived->held) {
            if (&a >= &b || b.place != Hold::shared) continue;
            const bool same_layout = program.at(a.item).axes == program.at(b.item).axes &&
                                     held_bytes(program.at(a.item)) == held_bytes(program.at(b.item));
            if (!same_layout) ++mixed;
            const bool apart =
                a.shared_offset + bytes(a) <= b.shared_offset || b.shared_offset + bytes(b) <= a.shared_offset;
            const bool follows = a.until <= b.from || b.until <= a.from;
            EXPECT_TRUE(apart || (same_layout && follows && a.shared_offset == b.shared_offset))
                << "item " << a.item << " at " << a.shared_offset << " and " << b.item << " at " << b.shared_offset;
          }
        }
      }
    }
    EXPECT_GT(shared, 0);
    EXPECT_GT(mixed, 0) << "values of two sizes";
  }
}

}  // namespace
}  // namespace stitch::kernel
