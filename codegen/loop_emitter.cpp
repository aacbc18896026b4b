#include "codegen/loop_emitter.h"

#include <algorithm>

namespace stitch::codegen {

using kernel::AxisMapping;
using kernel::AxisSet;
using kernel::IndexPool;
using kernel::Level;

namespace {

/// The C++ type of indices on an axis.
std::string_view index_type(std::int64_t extent) { return extent >= std::int64_t{1} << 31 ? "s64" : "int"; }

}  // namespace

void LoopEmitter::emit_description() {
  std::string description;
  for (int a = 0; a < axes_.count(); ++a) {
    std::string levels;
    for (std::size_t l = 0; l < kernel::level_count; ++l) {
      const std::int64_t extent = group_.mapping.axes[a].extent[l];
      if (extent > 1)
        levels += fmt::format("{}{} {}", levels.empty() ? "" : ", ", to_string(static_cast<Level>(l)), extent);
    }
    description += fmt::format("{}{}: {} = {}", description.empty() ? "" : "; ", axes_.name(a), axes_.extent(a),
                               is_contracted(a) ? "tensor cores"
                               : levels.empty() ? "1"
                                                : levels);
  }
  if (!description.empty()) out_.line("// axes  {}", description);
}

bool LoopEmitter::is_contracted(int axis) const {
  return std::ranges::find(group_.products, axis, &kernel::StateProducts::depth_axis) != group_.products.end();
}

void LoopEmitter::emit_thread_digits() {
  std::int64_t divisor = 1;
  for (const Level level : {Level::lane, Level::warp}) {
    for (const int a : group_.thread_order) {
      const std::int64_t extent = group_.extent(a, level);
      if (extent == 1) continue;
      std::string text = "static_cast<int>(threadIdx.x)";
      if (divisor > 1) text += fmt::format(" / {}", divisor);
      if (divisor * extent < scope_.schedule.threads) text += fmt::format(" % {}", extent);
      out_.line("const int {} = {};", axes_.digit(a, level), text);
      divisor *= extent;
    }
  }
}

void LoopEmitter::emit_cluster_digits() {
  for (int a = 0; a < axes_.count(); ++a) {
    if (group_.extent(a, Level::cluster) == 1) continue;
    out_.line("const int {} = static_cast<int>(blockIdx.x % {});  // rank in the cluster",
              axes_.digit(a, Level::cluster), scope_.schedule.cluster);
  }
}

void LoopEmitter::emit_tile_digits() {
  std::int64_t tiles = 1;
  for (int a = axes_.count(); a-- > 0;) {
    const std::int64_t extent = group_.extent(a, Level::grid);
    if (extent == 1) continue;
    std::string text = "tile";
    if (tiles > 1) text += fmt::format(" / {}", tiles);
    if (tiles * extent < group_.tiles) text += fmt::format(" % {}", extent);
    out_.line("const int {} = {};", axes_.digit(a, Level::grid), text);
    tiles *= extent;
  }
}

/// Where a thread's part of an axis starts; of shifted rows, were they aligned.
void LoopEmitter::emit_start(int a) {
  const AxisMapping& axis = group_.mapping.axes[a];
  std::string text = a == group_.structure.slab_axis ? "slab" : "";
  const auto term = [&](const std::string& digit, std::int64_t step) {
    if (digit == "0") return;
    text += (text.empty() ? "" : " + ") + (step == 1 ? digit : fmt::format("{} * {}", digit, step));
  };
  if (axis.threads() > 1) term(axes_.thread_digit(a), axis.step(Level::lane));
  term(axes_.digit(a, Level::cluster), axis.step(Level::cluster));
  term(axes_.digit(a, Level::grid), axis.step(Level::grid));
  if (text.empty()) text = "0";
  if (group_.is_shifted(a)) return out_.line("const int {}_first = {};", axes_.name(a), text);
  const bool varies = axis.at(Level::loop) > 1 || axis.at(Level::reg) > 1;
  out_.line("const {} {}{} = {};", index_type(group_.extents[a]), axes_.name(a), varies ? "0" : "", text);
}

void LoopEmitter::emit_digits() {
  emit_description();
  emit_thread_digits();
  emit_cluster_digits();
  emit_tile_digits();
  for (int a = 0; a < axes_.count(); ++a) {
    if (!is_contracted(a)) emit_start(a);
  }
  if (group_.threads < scope_.schedule.threads) out_.line("const bool active = threadIdx.x < {};", group_.threads);
  if (group_.shift && !row_is_looped()) emit_shifted_start();
}

bool LoopEmitter::row_is_looped() const {
  return kernel::axes_of(scope_.program, *group_.shift).meets(group_.outer_loops);
}

/// Where a thread's part of a shifted row starts.
void LoopEmitter::emit_shifted_start() {
  const int a = group_.mapping.vector_axis;
  const std::int64_t last = axes_.vector_extent() - 1;
  std::string shift;
  for (const IndexPool::Term& term : group_.shift->terms) {
    const std::string digit =
        fmt::format("static_cast<int>({} & {})", items_.index(term.atom, false, items_.is_wide(term.atom)), last);
    shift += (shift.empty() ? "" : " + ") +
             (term.coefficient == 1 ? digit : fmt::format("{} * {}", digit, term.coefficient));
  }
  if (group_.shift->constant != 0) shift += fmt::format(" + {}", group_.shift->constant);
  const bool varies = group_.extent(a, Level::loop) > 1 || group_.extent(a, Level::reg) > 1;
  out_.line("// vectors are aligned in memory: they begin before the row");
  out_.line("const int {0}{1} = {0}_first - (({2}) & {3});", axes_.name(a), varies ? "0" : "", shift, last);
}

void LoopEmitter::open_outer_loops(AxisSet axes) {
  for (const int a : axes& group_.outer_loops) {
    open_loop({a, 0, group_.extent(a, Level::loop)});
    emit_value(a);
  }
}

void LoopEmitter::emit_value(int axis) {
  const AxisMapping& mapping = group_.mapping.axes[axis];
  if (mapping.at(Level::reg) > 1) return;
  out_.line("const int {0} = {0}0 + {0}_loop * {1};", axes_.name(axis), mapping.step(Level::loop));
}

void LoopEmitter::emit_start_in_row() {
  if (group_.shift && row_is_looped()) emit_shifted_start();
}

bool LoopEmitter::is_backwards(int axis) const {
  return scope_.frame.backwards && group_.mapping.axes[axis].interleaved;
}

LoopEmitter::Turns LoopEmitter::turns_of(const Iterations& iterations) const {
  const std::string turn = axes_.name(iterations.axis) + "_loop";
  if (is_backwards(iterations.axis))
    return {fmt::format("{}", iterations.last - 1), turn + " - 1", fmt::format("{} > {}", turn, iterations.first)};
  return {fmt::format("{}", iterations.first), turn + " + 1", fmt::format("{} + 1 < {}", turn, iterations.last)};
}

std::string LoopEmitter::number_of_turn(const Iterations& iterations) const {
  const std::string turn = axes_.name(iterations.axis) + "_loop";
  if (is_backwards(iterations.axis)) return fmt::format("{} - {}", iterations.last - 1, turn);
  return iterations.first == 0 ? turn : fmt::format("{} - {}", turn, iterations.first);
}

std::string LoopEmitter::turn_of_number(const Iterations& iterations, const std::string& number) const {
  if (is_backwards(iterations.axis)) return fmt::format("{} - ({})", iterations.last - 1, number);
  return iterations.first == 0 ? number : fmt::format("{} + ({})", iterations.first, number);
}

void LoopEmitter::open_loop(const Iterations& iterations) {
  const std::string axis = axes_.name(iterations.axis);
  if (is_backwards(iterations.axis)) {
    out_.line("// from the end, of which L2 still has something");
    out_.open("for (int {0}_loop = {1}; {0}_loop >= {2}; --{0}_loop)", axis, iterations.last - 1, iterations.first);
  } else {
    out_.open("for (int {0}_loop = {1}; {0}_loop < {2}; ++{0}_loop)", axis, iterations.first, iterations.last);
  }
}

void LoopEmitter::open_inner_loops(AxisSet axes, const std::optional<Iterations>& some) {
  for (const int a : axes& group_.inner_loops) {
    const std::int64_t chunk = group_.mapping.axes[a].step(Level::loop), turns = group_.extent(a, Level::loop);
    const bool all = !some || some->axis != a;
    if (scope_.frame.runtime_extent) {
      out_.open("for (int {0}_loop = 0; {0}_loop * {1} < extent; ++{0}_loop)", axes_.name(a), chunk);
    } else if (!all && some->wrapped) {
      out_.open("for (int {0}_next = {1}; {0}_next < {2}; ++{0}_next)", axes_.name(a), some->first, some->last + turns);
      // No remainder: NVVM 13.0 takes it in 16 bits and then moves what is added to it out of them.
      out_.line("const int {0}_loop = {0}_next < {1} ? {0}_next : {0}_next - {1};", axes_.name(a), turns);
    } else {
      open_loop(all ? Iterations{a, 0, turns} : *some);
    }
    emit_value(a);
  }
}

void LoopEmitter::open_register_loops(AxisSet axes) {
  for (const int a : axes) {
    const std::int64_t places = group_.extent(a, Level::reg);
    if (places == 1) continue;
    const AxisMapping& mapping = group_.mapping.axes[a];
    out_.line("#pragma unroll");
    out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axes_.name(a), places);
    std::string text = fmt::format("{0}0 + {0}_r * {1}", axes_.name(a), mapping.step(Level::reg));
    if (group_.extent(a, Level::loop) > 1)
      text += fmt::format(" + {}_loop * {}", axes_.name(a), mapping.step(Level::loop));
    out_.line("const {} {} = {};", index_type(group_.extents[a]), axes_.name(a), text);
  }
}

std::optional<LoopEmitter::Iterations> LoopEmitter::whole_iterations(AxisSet axes) const {
  std::optional<Iterations> whole;
  for (const int a : axes& group_.inner_loops) {
    if (!axes_.has_tail(a) || scope_.frame.runtime_extent) continue;
    const std::int64_t last = group_.extents[a] / group_.mapping.axes[a].step(Level::loop);
    const std::int64_t first = group_.is_shifted(a) ? 1 : 0;
    if (whole || last < first + 2 || last >= group_.extent(a, Level::loop)) return std::nullopt;
    whole = Iterations{a, first, last};
  }
  return whole;
}

}  // namespace stitch::codegen
