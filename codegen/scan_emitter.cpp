// GroupEmitter: cumulative combination along an axis. Where lanes walk the axis, a warp takes 32 elements at a time and
// carries the total on; else every thread walks its own line.

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"
#include "graph/reduce_kind.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::Level;

namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

}  // namespace

void GroupEmitter::emit_scan(int number) {
  const kernel::Anchor& it = anchor(number);
  const graph::Node& node = graph_.node(it.node);
  const auto& a = node.as<graph::ScanAttributes>();
  const graph::DType accumulator = graph::info(node.type().dtype).accumulator;
  const std::string type = compute_type(accumulator), op = combiner(a.kind);
  std::size_t lanes_axis = group_.extents.size();
  std::uint64_t others = 0;
  for (std::size_t x = 0; x < group_.extents.size(); ++x) {
    if (!has(it.reduced, x)) others |= std::uint64_t{1} << x;
    if (has(it.reduced, x) && group_.extent(x, Level::lane) == 32) lanes_axis = x;
  }
  const bool by_warp = lanes_axis < group_.extents.size();
  out_.blank();
  out_.line("// {} along the axis, {}", a.kind == graph::ReduceKind::sum ? "running sum" : "running combination",
            by_warp ? "32 elements of a warp at a time" : "a line per thread");
  const std::string guard = range_guard(others, false);
  const int depth = out_.depth();
  if (!guard.empty()) out_.open("if ({})", guard);
  // The type's own, not its accumulator's: an exclusive scan stores it.
  const graph::DType dtype = node.type().dtype;
  const std::string identity = literal(dtype, graph::identity_bits(a.kind, dtype));
  out_.line("{} total = {};", type, identity);
  std::string inside;
  for (std::size_t x = 0; x < group_.extents.size(); ++x) {
    if (!has(it.reduced, x)) continue;
    const std::int64_t extent = group_.extents[x];
    if (x == lanes_axis) {
      out_.open("for (int first = 0; first < {}; first += 32)", extent);
      out_.line("const int step = first + {};", digit(x, Level::lane));
      out_.line("const bool inside = step < {};", extent);
      out_.line("const int {} = {};", axis_name(x),
                a.reverse ? fmt::format("inside ? {} - step : 0", extent - 1) : "inside ? step : 0");
      inside = "inside";
    } else {
      out_.open("for (int {0}_step = 0; {0}_step < {1}; ++{0}_step)", axis_name(x), extent);
      out_.line(
          "const int {} = {};", axis_name(x),
          a.reverse ? fmt::format("{} - {}_step", extent - 1, axis_name(x)) : fmt::format("{}_step", axis_name(x)));
    }
  }
  for (const std::vector<ItemId>* list : {&group_.hoisted, &group_.sweeps[0].uniform, &group_.sweeps[0].body}) {
    for (const ItemId id : *list) emit_uniform(id);
  }
  const std::string element = fmt::format("static_cast<{}>({})", type, value(it.items[0], false));
  const std::string place =
      fmt::format("{}[{}]", pointer_of(it.buffers[0]), index_text(it.addresses[0], false, is_wide(it.addresses[0])));
  const std::string storage = storage_type(node.type().dtype);
  if (by_warp) {
    out_.line("{} running = inside ? {} : {};", type, element, identity);
    out_.line("#pragma unroll");
    out_.open("for (int distance = 1; distance < 32; distance *= 2)");
    out_.line("const {} before = __shfl_up_sync(0xffffffffu, running, distance);", type);
    out_.line("if ({} >= distance) running = {}::combine(before, running);", digit(lanes_axis, Level::lane), op);
    out_.close();
    out_.line("running = {}::combine(total, running);", op);
    if (a.exclusive) {
      out_.line("const {} before = __shfl_up_sync(0xffffffffu, running, 1);", type);
      out_.line("if (inside) {} = narrow<{}>(static_cast<{}>({} == 0 ? total : before));", place, storage,
                compute_type(node.type().dtype), digit(lanes_axis, Level::lane));
    } else {
      out_.line("if (inside) {} = narrow<{}>(static_cast<{}>(running));", place, storage,
                compute_type(node.type().dtype));
    }
    out_.line("total = __shfl_sync(0xffffffffu, running, 31);");
  } else {
    if (a.exclusive)
      out_.line("{} = narrow<{}>(static_cast<{}>(total));", place, storage, compute_type(node.type().dtype));
    out_.line("total = {}::combine(total, {});", op, element);
    if (!a.exclusive)
      out_.line("{} = narrow<{}>(static_cast<{}>(total));", place, storage, compute_type(node.type().dtype));
  }
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
