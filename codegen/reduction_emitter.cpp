// GroupEmitter: reductions — accumulators of a thread, then lanes, warps, cluster; partial results to scratch.

#include <algorithm>

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"
#include "graph/reduce_kind.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::Level;
using kernel::ReductionPlan;

namespace {

/// An expression as one factor of a product.
std::string factor(const std::string& text) { return text.find(' ') == std::string::npos ? text : "(" + text + ")"; }

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

/// Up to this many results of a block may lie next to their own partials; more lie next to one another.
constexpr std::int64_t few_results = 32;
constexpr std::int64_t bank_row_bytes = 128;  ///< of shared memory: 32 banks of 4 bytes

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : std::string(separator)) + part;
  return text;
}

}  // namespace

bool GroupEmitter::is_arg(int number) const { return graph_.node(anchor(number).node).op == graph::Op::arg_reduce; }

std::uint64_t GroupEmitter::kept_axes(int number) const { return anchor(number).axes & ~anchor(number).reduced; }

std::string GroupEmitter::accumulator_type(int number) const {
  const graph::DType dtype = graph_.node(anchor(number).node).results[0].dtype;
  const std::string element = compute_type(graph::info(dtype).accumulator);
  return is_arg(number) ? fmt::format("Indexed<{}>", element) : element;
}

std::string GroupEmitter::accumulator_op(int number) const {
  const graph::Node& node = graph_.node(anchor(number).node);
  if (is_arg(number)) {
    const auto& a = node.as<graph::ArgReduceAttributes>();
    return fmt::format("ArgExtreme<{}, {}>", a.kind == graph::ReduceKind::max, a.last);
  }
  return combiner(node.as<graph::ReduceAttributes>().kind);
}

std::string GroupEmitter::accumulator_name(int number) const {
  const graph::Node& node = graph_.node(anchor(number).node);
  const std::string_view what = is_arg(number) ? "extreme" : graph::to_string(node.as<graph::ReduceAttributes>().kind);
  return fmt::format("{}{}", what, number);
}

void GroupEmitter::declare_accumulators(int number) {
  const graph::Node& node = graph_.node(anchor(number).node);
  std::string identity;
  if (is_arg(number)) {
    const graph::ReduceKind kind = node.as<graph::ArgReduceAttributes>().kind;
    const bool last = node.as<graph::ArgReduceAttributes>().last;
    // An index that loses every tie: the identity must not win against an equal element.
    identity =
        fmt::format("{{{}, {}}}", literal(node.results[0].dtype, graph::identity_bits(kind, node.results[0].dtype)),
                    last ? "-1" : "0x7fffffffffffffffll");
  } else {
    // The type's own, not its accumulator's: of nothing it is the result.
    const graph::DType dtype = node.results[0].dtype;
    identity = literal(dtype, graph::identity_bits(node.as<graph::ReduceAttributes>().kind, dtype));
  }
  const std::string dims = array_dims(kept_axes(number));
  const std::string name = accumulator_name(number);
  if (dims.empty()) {
    out_.line("{} {}{};", accumulator_type(number), name, is_arg(number) ? identity : " = " + identity);
    return;
  }
  out_.line("{} {}{};", accumulator_type(number), name, dims);
  const int depth = out_.depth();
  const int loops = open_kept_loops(number);
  out_.line("{}{} = {}{};", name, array_subscript(kept_axes(number), true),
            is_arg(number) ? accumulator_type(number) : "", identity);
  (void)loops;
  out_.close(out_.depth() - depth);
}

/// Loops over the results that a thread keeps.
int GroupEmitter::open_kept_loops(int number) {
  int opened = 0;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(kept_axes(number), a) || group_.extent(a, Level::reg) == 1) continue;
    out_.line("#pragma unroll");
    out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axis_name(a), group_.extent(a, Level::reg));
    ++opened;
  }
  const int vector = group_.mapping.vector_axis;
  if (vector >= 0 && has(kept_axes(number), static_cast<std::size_t>(vector)) && vector_extent() > 1) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", vector_extent());
    ++opened;
  }
  return opened;
}

void GroupEmitter::emit_accumulate(int number, bool element) {
  const Anchor& it = anchor(number);
  std::string guard;
  if (element && vector_tail_by_element()) {
    const std::size_t axis = group_.mapping.vector_axis;
    if (has(it.axes, axis)) guard = fmt::format("if ({}) ", in_range(axis, true));
  }
  const std::string target = accumulator_name(number) + array_subscript(kept_axes(number), element);
  std::string operand = value(it.items[0], element);
  if (is_arg(number)) {
    const std::string index =
        it.items.size() > 1 ? value(it.items[1], element) : index_text(it.addresses[0], element, true);
    const std::string type = compute_type(graph::info(graph_.node(it.node).results[0].dtype).accumulator);
    if (compute_type(program_.at(it.items[0]).dtype) != type)
      operand = fmt::format("static_cast<{}>({})", type, operand);
    operand = fmt::format("{}{{{}, static_cast<s64>({})}}", accumulator_type(number), operand, index);
  } else {
    const graph::Node& node = graph_.node(it.node);
    if (compute_type(program_.at(it.items[0]).dtype) != accumulator_type(number))
      operand = fmt::format("static_cast<{}>({})", accumulator_type(number), operand);
    if (node.as<graph::ReduceAttributes>().kind == graph::ReduceKind::sum &&
        graph::is_floating(node.results[0].dtype)) {
      out_.line("{}{} += {};", guard, target, operand);
      return;
    }
  }
  out_.line("{}{} = {}::combine({}, {});", guard, target, accumulator_op(number), target, operand);
}

/// Position of a thread's result among those of its block.
std::string GroupEmitter::kept_index(int number) const {
  std::string text;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(kept_axes(number), a)) continue;
    const kernel::AxisMapping& axis = group_.mapping.axes[a];
    const std::int64_t extent = axis.at(Level::vector) * axis.threads() * axis.at(Level::reg);
    if (extent == 1) continue;
    std::vector<std::string> terms;
    const bool vector = static_cast<int>(a) == group_.mapping.vector_axis && vector_extent() > 1;
    if (axis.threads() > 1)
      terms.push_back(axis.at(Level::vector) > 1 ? fmt::format("{} * {}", thread_digit(a), axis.at(Level::vector))
                                                 : thread_digit(a));
    if (axis.at(Level::reg) > 1) terms.push_back(fmt::format("{}_r * {}", axis_name(a), axis.step(Level::reg)));
    if (vector) terms.emplace_back("v");
    const std::string own = joined(terms, " + ");
    text = text.empty() ? own : fmt::format("{} * {} + {}", factor(text), extent, own);
  }
  return text.empty() ? "0" : text;
}

namespace {

/// Which of the `exchange` partial results of a block this thread's is: the reduced warp digits (and lane digits where
/// shuffles could not combine them), slowest axis first.
struct Partner {
  std::string index;
  std::vector<std::string> leaders;  ///< digits that must be zero for one thread to speak for its lanes
};

}  // namespace

/// Whether the partials of a result lie next to one another, so that a thread reads several at once; if not, those of
/// one warp do. Lanes that read different results, each next to its own partials, must not meet in a bank.
bool GroupEmitter::partials_lie_together(const ReductionPlan& plan) const {
  if (plan.kept_per_block > few_results) return false;
  std::int64_t lanes = 1;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(kept_axes(plan.anchor), a)) lanes *= group_.extent(a, Level::lane);
  }
  if (lanes == 1) return true;
  const bool vector = group_.mapping.vector_axis >= 0 &&
                      has(kept_axes(plan.anchor), static_cast<std::size_t>(group_.mapping.vector_axis));
  const std::int64_t results = lanes * (vector ? vector_extent() : 1);
  const std::int64_t slots = plan.exchange + (plan.cluster > 1 ? 1 : 0);
  return results * plan.exchange * (plan.shared_bytes / (plan.kept_per_block * slots)) <= bank_row_bytes;
}

void GroupEmitter::emit_exchange_write(const ReductionPlan& plan, const std::string& buffer) {
  const int number = plan.anchor;
  const Anchor& it = anchor(number);
  Partner partner;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    const std::int64_t lanes = group_.extent(a, Level::lane), warps = group_.extent(a, Level::warp);
    if (has(it.reduced, a)) {
      const bool lanes_left = plan.shuffles.empty() && lanes > 1;
      if (lanes > 1 && !lanes_left) partner.leaders.push_back(digit(a, Level::lane) + " == 0");
      std::string own;
      std::int64_t extent = 1;
      if (lanes_left) own = digit(a, Level::lane), extent = lanes;
      if (warps > 1) {
        own = own.empty() ? digit(a, Level::warp) : fmt::format("{} + {} * {}", own, lanes, digit(a, Level::warp));
        extent *= warps;
      }
      if (extent > 1)
        partner.index = partner.index.empty() ? own : fmt::format("{} * {} + {}", factor(partner.index), extent, own);
    } else if (!has(it.axes, a)) {
      if (lanes > 1) partner.leaders.push_back(digit(a, Level::lane) + " == 0");
      if (warps > 1) partner.leaders.push_back(digit(a, Level::warp) + " == 0");
    }
  }
  if (group_.threads < schedule_.threads) partner.leaders.emplace_back("active");
  const int depth = out_.depth();
  if (!partner.leaders.empty()) out_.open("if ({})", joined(partner.leaders, " && "));
  open_kept_loops(number);
  const std::string index = partner.index.empty() ? "0" : partner.index;
  const std::string place = partials_lie_together(plan)
                                ? fmt::format("{} * {} + {}", factor(kept_index(number)), plan.exchange, index)
                                : fmt::format("{} * {} + {}", factor(index), plan.kept_per_block, kept_index(number));
  out_.line("{}[{}] = {}{};", buffer, place, accumulator_name(number), array_subscript(kept_axes(number), true));
  out_.close(out_.depth() - depth);
}

void GroupEmitter::emit_exchange_read(const ReductionPlan& plan, const std::string& buffer) {
  const int number = plan.anchor;
  const int depth = out_.depth();
  if (group_.threads < schedule_.threads) out_.open("if (active)");
  open_kept_loops(number);
  const bool together = partials_lie_together(plan);
  const std::string first = together ? fmt::format("({}) * {}", kept_index(number), plan.exchange) : kept_index(number);
  out_.line("{}{} = reduce_shared<{}, {}, {}>({} + {});", accumulator_name(number),
            array_subscript(kept_axes(number), true), accumulator_op(number), plan.exchange,
            together ? 1 : plan.kept_per_block, buffer, first);
  out_.close(out_.depth() - depth);
}

/// What is true of one thread of the block for every element that the reduction keeps.
std::vector<std::string> GroupEmitter::block_leaders(int number) const {
  std::vector<std::string> leaders;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(kept_axes(number), a)) continue;
    for (const Level level : {Level::lane, Level::warp}) {
      if (group_.extent(a, level) > 1) leaders.push_back(digit(a, level) + " == 0");
    }
  }
  // Digits start again behind the threads that the mapping uses.
  if (group_.threads < schedule_.threads) leaders.emplace_back("active");
  return leaders;
}

void GroupEmitter::finish_reductions(const std::vector<int>& plans) {
  for (const int p : plans) {
    const ReductionPlan& plan = group_.reductions[p];
    if (plan.shuffles.empty()) continue;
    const std::vector<int> distances(plan.shuffles.rbegin(), plan.shuffles.rend());
    const int depth = out_.depth();
    open_kept_loops(plan.anchor);
    const std::string target = accumulator_name(plan.anchor) + array_subscript(kept_axes(plan.anchor), true);
    out_.line("{} = reduce_lanes<{}, {}>({});", target, accumulator_op(plan.anchor), fmt::join(distances, ", "),
              target);
    out_.close(out_.depth() - depth);
  }
  std::vector<int> crossing;
  for (const int p : plans) {
    const ReductionPlan& plan = group_.reductions[p];
    if (plan.exchange > 1 || plan.cluster > 1) crossing.push_back(p);
  }
  if (crossing.empty()) return;
  std::int64_t offset = 0;
  std::vector<std::string> buffers;
  // What is left for the next phase takes both buffers, when the sweeps are done with them.
  const bool behind = anchor(group_.reductions[crossing[0]].anchor).kind == kernel::Anchor::Kind::partial;
  const bool taking_turns = alternating_ && !behind;
  if (behind && exchanges_ > 0) out_.line("{}", schedule_.cluster > 1 ? "cluster_barrier();" : "__syncthreads();");
  const std::int64_t base =
      context_.shared_exchange + (alternating_ || behind ? 0 : (exchanges_ % 2) * group_.exchange_bytes);
  const std::string turn = taking_turns ? fmt::format(" + turn * {}", group_.exchange_bytes) : "";
  ++exchanges_;
  for (const int p : crossing) {
    const ReductionPlan& plan = group_.reductions[p];
    offset = (offset + 15) / 16 * 16;
    buffers.push_back(fmt::format("partial{}", plan.anchor));
    const std::string type = accumulator_type(plan.anchor);
    out_.line("{0}* const {1} = reinterpret_cast<{0}*>(shared{2}{3});", type, buffers.back(),
              base + offset == 0 ? "" : fmt::format(" + {}", base + offset), turn);
    offset += plan.shared_bytes;
  }
  for (std::size_t i = 0; i < crossing.size(); ++i) emit_exchange_write(group_.reductions[crossing[i]], buffers[i]);
  const bool exchange =
      std::any_of(crossing.begin(), crossing.end(), [&](int p) { return group_.reductions[p].exchange > 1; });
  const bool cluster =
      std::any_of(crossing.begin(), crossing.end(), [&](int p) { return group_.reductions[p].cluster > 1; });
  if (exchange) {
    out_.line("__syncthreads();");
    for (std::size_t i = 0; i < crossing.size(); ++i) {
      const ReductionPlan& plan = group_.reductions[crossing[i]];
      if (plan.exchange > 1) emit_exchange_read(plan, buffers[i]);
    }
  }
  if (cluster) {
    // The block's results lie behind the exchange area; every block of the cluster then reads all of them.
    if (exchange) {
      for (std::size_t i = 0; i < crossing.size(); ++i) {
        ReductionPlan whole = group_.reductions[crossing[i]];
        if (whole.cluster == 1) continue;
        buffers[i] =
            fmt::format("({} + {})", buffers[i], whole.exchange > 1 ? whole.exchange * whole.kept_per_block : 0);
        const int depth = out_.depth();
        const std::vector<std::string> leaders = block_leaders(whole.anchor);
        if (!leaders.empty()) out_.open("if ({})", joined(leaders, " && "));
        open_kept_loops(whole.anchor);
        out_.line("{}[{}] = {}{};", buffers[i], kept_index(whole.anchor), accumulator_name(whole.anchor),
                  array_subscript(kept_axes(whole.anchor), true));
        out_.close(out_.depth() - depth);
      }
    }
    out_.line("cluster_barrier();");
    for (std::size_t i = 0; i < crossing.size(); ++i) {
      const ReductionPlan& plan = group_.reductions[crossing[i]];
      if (plan.cluster == 1) continue;
      const int depth = out_.depth();
      open_kept_loops(plan.anchor);
      out_.line("{}{} = reduce_cluster<{}, {}>({} + {});", accumulator_name(plan.anchor),
                array_subscript(kept_axes(plan.anchor), true), accumulator_op(plan.anchor), plan.cluster, buffers[i],
                kept_index(plan.anchor));
      out_.close(out_.depth() - depth);
    }
  }
  if (taking_turns) out_.line("turn ^= 1;");
}

/// How many of a vector's partial results one access stores: they lie side by side in registers as in memory, but the
/// lanes' lie as far apart as their vectors, a sector each if they were stored one by one.
int GroupEmitter::partial_width(const ReductionPlan& plan) const {
  const int v = group_.mapping.vector_axis;
  if (is_arg(plan.anchor) || v < 0 || vector_tail_by_element()) return 1;
  const Anchor& it = anchor(plan.anchor);
  if (storage_type(it.dtype) != accumulator_type(plan.anchor)) return 1;
  const std::int64_t elements = graph_.node(it.node).results[0].elements();
  for (int width = 16 / graph::byte_size(it.dtype); width > 1; width /= 2) {
    const kernel::IndexPool::Run run = program_.pool().run(it.addresses.back(), program_.axes().variables[v], width);
    const bool whole = vector_extent() % width == 0 && elements % width == 0;
    if (whole && run.regular && run.step == 1 && run.aligned) return width;
  }
  return 1;
}

/// After the tile's loops: what the tile contributes to reductions that other tiles contribute to as well.
void GroupEmitter::emit_partials(const std::vector<int>& plans) {
  out_.blank();
  out_.line("// partial results of this tile");
  finish_reductions(plans);
  for (const int p : plans) {
    const ReductionPlan& plan = group_.reductions[p];
    const Anchor& it = anchor(plan.anchor);
    std::vector<std::string> conditions;
    std::string which;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(it.reduced, a)) {
        if (group_.extent(a, Level::grid) > 1) {
          which = which.empty()
                      ? digit(a, Level::grid)
                      : fmt::format("({} * {} + {})", which, group_.extent(a, Level::grid), digit(a, Level::grid));
        }
        for (const Level level : {Level::lane, Level::warp, Level::cluster}) {
          if (group_.extent(a, level) > 1) conditions.push_back(digit(a, level) + " == 0");
        }
      } else if (!has(it.axes, a)) {
        for (const Level level : {Level::lane, Level::warp, Level::cluster, Level::grid}) {
          if (group_.extent(a, level) > 1) conditions.push_back(digit(a, level) + " == 0");
        }
      }
    }
    if (group_.threads < schedule_.threads) conditions.emplace_back("active");
    const int depth = out_.depth();
    if (!conditions.empty()) out_.open("if ({})", joined(conditions, " && "));
    // The kept axes' values, inside loops over what the thread keeps.
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (!has(kept_axes(plan.anchor), a) || group_.extent(a, Level::reg) == 1) continue;
      out_.line("#pragma unroll");
      out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axis_name(a), group_.extent(a, Level::reg));
      out_.line("const int {0} = {0}0 + {0}_r * {1};", axis_name(a), group_.mapping.axes[a].step(Level::reg));
    }
    const int vector = group_.mapping.vector_axis;
    const bool along =
        vector >= 0 && has(kept_axes(plan.anchor), static_cast<std::size_t>(vector)) && vector_extent() > 1;
    const int width = along ? partial_width(plan) : 1;
    if (along) {
      out_.line("#pragma unroll");
      out_.open("for (int v = 0; v < {}; v += {})", vector_extent(), width);
    }
    std::string guard;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(kept_axes(plan.anchor), a) && has_tail(a))
        guard += fmt::format("{}{} < {}", guard.empty() ? "" : " && ", axis_value(a, along), extent_text(a));
    }
    if (!guard.empty()) out_.open("if ({})", guard);
    const kernel::Index address = it.addresses.back();
    std::string place = index_text(address, along, is_wide(address));
    const std::int64_t elements = std::max<std::int64_t>(graph_.node(it.node).results[0].elements(), 1);
    if (!which.empty()) {
      const bool wide = plan.partials * elements >= std::int64_t{1} << 31;
      place = fmt::format("{} * {} + {}", wide ? fmt::format("static_cast<s64>({})", which) : which, elements, place);
    }
    const std::string own = accumulator_name(plan.anchor) + array_subscript(kept_axes(plan.anchor), along);
    if (is_arg(plan.anchor)) {
      out_.line("{}[{}] = {}.value;", pointer_of(it.buffers[0]), place, own);
      out_.line("{}[{}] = static_cast<{}>({}.index);", pointer_of(it.buffers[1]), place,
                compute_type(graph_.node(it.node).results[1].dtype), own);
    } else if (width > 1) {
      out_.line("store<{}>({} + {}, &{});", width, pointer_of(it.buffers[0]), place, own);
    } else {
      // Accumulators are stored as they are, but a truth value as a byte.
      const bool is_pred = graph_.node(it.node).type().dtype == graph::DType::pred;
      out_.line("{}[{}] = {};", pointer_of(it.buffers[0]), place, is_pred ? fmt::format("narrow<pred>({})", own) : own);
    }
    out_.close(out_.depth() - depth);
  }
}

}  // namespace stitch::codegen
