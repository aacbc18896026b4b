#include "codegen/group_emitter.h"

#include <algorithm>
#include <bit>

#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::Index;
using kernel::IndexPool;
using kernel::Level;

namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

constexpr std::int64_t int_limit = std::int64_t{1} << 31;

}  // namespace

GroupEmitter::GroupEmitter(const graph::Graph& graph, const kernel::GroupProgram& group,
                           const kernel::Schedule& schedule, GroupContext context)
    : graph_(graph), group_(group), program_(*group.structure.program), schedule_(schedule), context_(context) {
  for (const kernel::HeldItem& held : group.held) held_[held.item] = &held;
  find_rounded_quotients();
}

/// A quotient on its way to being rounded to an integer must be the correctly rounded one: quantisation meets exact
/// halves (2.5 from 5 / 2), and an ulp decides where they go.
void GroupEmitter::find_rounded_quotients() {
  std::vector<bool> rounded(program_.items().size(), false);
  for (std::size_t i = program_.items().size(); i-- > 0;) {
    const kernel::Item& item = program_.items()[i];
    if (item.kind != kernel::Item::Kind::compute || item.origin.node < 0) continue;
    if (item.op == graph::Op::divide && rounded[i]) rounded_quotients_.insert(static_cast<ItemId>(i));
    const bool rounds = graph::rounds_to_integer(item.op, item.dtype);
    switch (item.op) {
      // What is rounded behind these is made of their operands.
      case graph::Op::divide:
      case graph::Op::convert:
      case graph::Op::negate:
      case graph::Op::abs:
      case graph::Op::add:
      case graph::Op::subtract:
      case graph::Op::multiply:
      case graph::Op::maximum:
      case graph::Op::minimum:
      case graph::Op::clamp:
      case graph::Op::select: rounded[i] = rounded[i] || rounds; break;
      default: rounded[i] = rounds;
    }
    for (const ItemId operand : item.operands) {
      if (rounded[i] && graph::is_floating(program_.at(operand).dtype)) rounded[operand] = true;
    }
  }
}

std::string GroupEmitter::pointer_name(std::size_t number) const {
  int same_kind = 0;
  for (std::size_t i = 0; i < number; ++i) same_kind += buffers_[i].kind == buffers_[number].kind ? 1 : 0;
  switch (buffers_[number].kind) {
    case kernel::Buffer::Kind::input: return fmt::format("in{}", same_kind);
    case kernel::Buffer::Kind::output: return fmt::format("out{}", same_kind);
    case kernel::Buffer::Kind::scratch: return fmt::format("scratch{}", same_kind);
    case kernel::Buffer::Kind::table: return fmt::format("table{}", buffers_[number].number);
  }
  return {};
}

std::string GroupEmitter::pointer(const kernel::Buffer& buffer, graph::DType dtype) {
  if (std::find(buffers_.begin(), buffers_.end(), buffer) == buffers_.end()) {
    buffers_.push_back(buffer);
    buffer_types_[buffer] = dtype;
  }
  return pointer_of(buffer);
}

std::string GroupEmitter::pointer_of(const kernel::Buffer& buffer) const {
  const auto found = std::find(buffers_.begin(), buffers_.end(), buffer);
  return pointer_name(static_cast<std::size_t>(found - buffers_.begin()));
}

/// By the order of items and anchors, before any text refers to them.
void GroupEmitter::number_pointers() {
  for (const kernel::Item& item : program_.items()) {
    if (item.kind == kernel::Item::Kind::load) pointer(item.buffer, item.dtype);
  }
  for (const kernel::Anchor& a : group_.structure.anchors) {
    for (std::size_t i = 0; i < a.buffers.size(); ++i) {
      pointer(a.buffers[i], i == 0 ? a.dtype : graph_.node(a.node).results[i].dtype);
    }
  }
}

std::vector<GroupEmitter::Hoisted> GroupEmitter::hoisted() const {
  std::vector<Hoisted> all;
  for (const ItemId id : group_.hoisted) {
    const kernel::Item& item = program_.at(id);
    all.push_back({std::string(storage_type(item.dtype)), name(id), array_dims(item.axes), item.buffer});
  }
  return all;
}

std::string GroupEmitter::emit_hoisted_apart() {
  number_pointers();
  emit_digits();
  emit_hoisted();
  return out_.text();
}

std::string GroupEmitter::emit() {
  number_pointers();
  // With an odd number of exchanges in a turn of the loops around the sweeps the next turn would begin with the buffer
  // that this one's last readers may not have left. Tiles end with a barrier, and so need none of that.
  std::set<int> exchanging;
  for (const kernel::ReductionPlan& plan : group_.reductions) {
    const kernel::Anchor& reduced = anchor(plan.anchor);
    const bool within = reduced.kind != kernel::Anchor::Kind::partial;  // the others come after the loops
    if (within && (plan.exchange > 1 || plan.cluster > 1)) exchanging.insert(reduced.sweep);
  }
  alternating_ = group_.outer_loops != 0 && exchanging.size() % 2 == 1;

  emit_digits();
  if (alternating_) out_.line("int turn = 0;  // which of the two exchange buffers is free");
  const bool special = group_.structure.anchors[0].kind == kernel::Anchor::Kind::scan ||
                       group_.structure.anchors[0].kind == kernel::Anchor::Kind::scatter;
  if (special) {
    group_.structure.anchors[0].kind == kernel::Anchor::Kind::scan ? emit_scan(0) : emit_scatter(0);
    return out_.text();
  }
  std::vector<int> partial_plans;
  for (std::size_t i = 0; i < group_.reductions.size(); ++i) {
    if (anchor(group_.reductions[i].anchor).kind != kernel::Anchor::Kind::partial) continue;
    partial_plans.push_back(static_cast<int>(i));
    declare_accumulators(group_.reductions[i].anchor);
  }
  if (!context_.hoisted_apart) emit_hoisted();
  if (context_.hoisted_apart) {
    for (const ItemId id : group_.hoisted) arrays_[id] = program_.at(id).axes & group_.varying;
  }
  const int depth = out_.depth();
  emit_outer_loops();
  for (const kernel::HeldItem& held : group_.held) declare_array(held.item);
  emit_retained_places();
  for (std::size_t stage = 0; stage < group_.sweeps.size(); ++stage)
    emit_sweep(group_.sweeps[stage], static_cast<int>(stage));
  out_.close(out_.depth() - depth);
  if (!partial_plans.empty()) emit_partials(partial_plans);
  return out_.text();
}

std::string GroupEmitter::axis_name(std::size_t axis) const {
  constexpr std::string_view letters = "ijklmnpqrs";
  return axis < letters.size() ? std::string(1, letters[axis]) : fmt::format("x{}", axis);
}

std::string GroupEmitter::digit(std::size_t axis, Level level) const {
  if (group_.extent(axis, level) == 1) return "0";
  return fmt::format("{}_{}", axis_name(axis), to_string(level));
}

std::string GroupEmitter::thread_digit(std::size_t axis) const {
  const std::int64_t lanes = group_.extent(axis, Level::lane), warps = group_.extent(axis, Level::warp);
  if (lanes == 1) return digit(axis, Level::warp);
  if (warps == 1) return digit(axis, Level::lane);
  return fmt::format("({} + {} * {})", digit(axis, Level::lane), lanes, digit(axis, Level::warp));
}

/// Splits the thread index and the tile number into one digit per axis and level.
void GroupEmitter::emit_digits() {
  std::string description;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    std::string levels;
    for (std::size_t l = 0; l < kernel::level_count; ++l) {
      const std::int64_t extent = group_.mapping.axes[a].extent[l];
      if (extent > 1)
        levels += fmt::format("{}{} {}", levels.empty() ? "" : ", ", to_string(static_cast<Level>(l)), extent);
    }
    description += fmt::format("{}{}: {} = {}", description.empty() ? "" : "; ", axis_name(a), extent_text(a),
                               levels.empty() ? "1" : levels);
  }
  if (!description.empty()) out_.line("// axes  {}", description);
  std::int64_t divisor = 1;
  for (const Level level : {Level::lane, Level::warp}) {
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      const std::int64_t extent = group_.extent(a, level);
      if (extent == 1) continue;
      std::string text = "static_cast<int>(threadIdx.x)";
      if (divisor > 1) text += fmt::format(" / {}", divisor);
      if (divisor * extent < schedule_.threads) text += fmt::format(" % {}", extent);
      out_.line("const int {} = {};", digit(a, level), text);
      divisor *= extent;
    }
  }
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (group_.extent(a, Level::cluster) > 1) {
      out_.line("const int {} = static_cast<int>(blockIdx.x % {});  // rank in the cluster", digit(a, Level::cluster),
                schedule_.cluster);
    }
  }
  std::int64_t tiles = 1;
  for (std::size_t a = group_.extents.size(); a-- > 0;) {
    const std::int64_t extent = group_.extent(a, Level::grid);
    if (extent == 1) continue;
    std::string text = "tile";
    if (tiles > 1) text += fmt::format(" / {}", tiles);
    if (tiles * extent < group_.tiles) text += fmt::format(" % {}", extent);
    out_.line("const int {} = {};", digit(a, Level::grid), text);
    tiles *= extent;
  }
  // Where a thread's part of each axis starts; of shifted rows, were they aligned.
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    const kernel::AxisMapping& axis = group_.mapping.axes[a];
    std::string text = static_cast<int>(a) == group_.structure.slab_axis ? "slab" : "";
    const auto term = [&](const std::string& digit_text, std::int64_t step) {
      if (digit_text == "0") return;
      text += (text.empty() ? "" : " + ") + (step == 1 ? digit_text : fmt::format("{} * {}", digit_text, step));
    };
    if (axis.threads() > 1) term(thread_digit(a), axis.step(Level::lane));
    term(digit(a, Level::cluster), axis.step(Level::cluster));
    term(digit(a, Level::grid), axis.step(Level::grid));
    const bool varies = axis.at(Level::loop) > 1 || axis.at(Level::reg) > 1;
    const bool wide = group_.extents[a] >= int_limit;
    if (group_.is_shifted(a)) {
      out_.line("const int {}_first = {};", axis_name(a), text.empty() ? "0" : text);
      continue;
    }
    out_.line("const {} {}{} = {};", wide ? "s64" : "int", axis_name(a), varies ? "0" : "", text.empty() ? "0" : text);
  }
  if (group_.threads < schedule_.threads) out_.line("const bool active = threadIdx.x < {};", group_.threads);
  if (group_.shift && !row_is_looped()) emit_shifted_start();
}

/// Whether the tile's outer loops decide in which row a thread is.
bool GroupEmitter::row_is_looped() const {
  return (kernel::axes_of(program_, *group_.shift) & group_.outer_loops) != 0;
}

/// Where a thread's part of a shifted row starts.
void GroupEmitter::emit_shifted_start() {
  const std::size_t a = group_.mapping.vector_axis;
  const std::int64_t last = vector_extent() - 1;
  std::string shift;
  for (const IndexPool::Term& term : group_.shift->terms) {
    const std::string digit_text =
        fmt::format("static_cast<int>({} & {})", term_text(term.atom, false, is_wide(term.atom)), last);
    shift += (shift.empty() ? "" : " + ") +
             (term.coefficient == 1 ? digit_text : fmt::format("{} * {}", digit_text, term.coefficient));
  }
  if (group_.shift->constant != 0) shift += fmt::format(" + {}", group_.shift->constant);
  const bool varies = group_.extent(a, Level::loop) > 1 || group_.extent(a, Level::reg) > 1;
  out_.line("// vectors are aligned in memory: they begin before the row");
  out_.line("const int {0}{1} = {0}_first - (({2}) & {3});", axis_name(a), varies ? "0" : "", shift, last);
}

/// Bounds of the row, as elements from the vector's element `at`: load_part's and store_part's first and count.
std::string GroupEmitter::part_bounds(std::int64_t at) const {
  const std::size_t axis = group_.mapping.vector_axis;
  const std::string shift = at == 0 ? "" : fmt::format(" - {}", at);
  return fmt::format("-{0}{1}, {2} - {0}{1}", axis_name(axis), shift, extent_text(axis));
}

/// Loops that wrap all sweeps; inside them the axis has its value, unless registers add to it.
void GroupEmitter::emit_outer_loops() {
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(group_.outer_loops, a)) continue;
    const kernel::AxisMapping& axis = group_.mapping.axes[a];
    open_loop(a, {a, 0, axis.at(Level::loop)});
    if (axis.at(Level::reg) == 1)
      out_.line("const int {0} = {0}0 + {0}_loop * {1};", axis_name(a), axis.step(Level::loop));
  }
  if (group_.shift && row_is_looped()) emit_shifted_start();
}

bool GroupEmitter::has_tail(std::size_t axis) const {
  if (context_.runtime_extent) return true;
  if (has(whole_axes_, axis)) return false;
  return group_.mapping.axes[axis].covered() > group_.extents[axis];
}

std::string GroupEmitter::extent_text(std::size_t axis) const {
  return context_.runtime_extent ? "extent" : fmt::format("{}", group_.extents[axis]);
}

std::int64_t GroupEmitter::vector_extent() const {
  return group_.mapping.vector_axis < 0
             ? 1
             : group_.extent(static_cast<std::size_t>(group_.mapping.vector_axis), Level::vector);
}

bool GroupEmitter::has_vector(std::uint64_t axes) const {
  return group_.mapping.vector_axis >= 0 && has(axes, static_cast<std::size_t>(group_.mapping.vector_axis)) &&
         vector_extent() > 1;
}

bool GroupEmitter::vector_tail_by_element() const {
  if (vector_extent() == 1) return false;
  const std::size_t a = group_.mapping.vector_axis;
  if (has(whole_axes_, a)) return false;
  return context_.runtime_extent || group_.shift || group_.extents[a] % vector_extent() != 0;
}

std::string GroupEmitter::axis_value(std::size_t axis, bool element) const {
  if (element && static_cast<int>(axis) == group_.mapping.vector_axis && vector_extent() > 1)
    return fmt::format("({} + v)", axis_name(axis));
  return axis_name(axis);
}

/// A shifted row's vectors reach beyond both its ends.
std::string GroupEmitter::in_range(std::size_t axis, bool element) const {
  if (element && group_.is_shifted(axis))
    return fmt::format("static_cast<u32>({}) < {}u", axis_value(axis, true), extent_text(axis));
  return fmt::format("{} < {}", axis_value(axis, element), extent_text(axis));
}

std::string GroupEmitter::range_guard(std::uint64_t axes, bool element) const {
  std::string guard;
  const auto add = [&](const std::string& text) { guard += (guard.empty() ? "" : " && ") + text; };
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(axes, a) && has_tail(a)) add(in_range(a, element));
  }
  if (group_.threads < schedule_.threads) add("active");
  return guard;
}

bool GroupEmitter::is_wide(Index address) const {
  return context_.runtime_extent || program_.pool().high(address) >= int_limit ||
         program_.pool().low(address) < -int_limit;
}

std::string GroupEmitter::term_text(Index atom, bool element, bool wide) const {
  const IndexPool& pool = program_.pool();
  if (pool.kind(atom) == IndexPool::Kind::quotient)
    return fmt::format("({} / {})", index_text(pool.dividend(atom), element, wide), pool.divisor(atom));
  if (pool.kind(atom) == IndexPool::Kind::remainder)
    return fmt::format("({} % {})", index_text(pool.dividend(atom), element, wide), pool.divisor(atom));
  const auto found = std::find(program_.axes().variables.begin(), program_.axes().variables.end(), atom);
  if (found != program_.axes().variables.end()) {
    const std::string text = axis_value(static_cast<std::size_t>(found - program_.axes().variables.begin()), element);
    return wide ? fmt::format("static_cast<s64>({})", text) : text;
  }
  // A dynamic index: the item's value, clamped into range.
  const ItemId item = program_.dynamic_item(atom);
  const std::string type = wide ? "s64" : "int";
  const graph::DType dtype = program_.at(item).dtype;
  const std::string clamp = graph::is_unsigned_integer(dtype) ? "min<{0}>" : "";
  if (graph::is_unsigned_integer(dtype)) {
    return fmt::format("static_cast<{}>(minimum<u64>({}, {}ull))", type, value(item, element), pool.high(atom));
  }
  return fmt::format("static_cast<{}>(minimum<s64>(maximum<s64>({}, 0), {}))", type, value(item, element),
                     pool.high(atom));
}

std::string GroupEmitter::index_text(Index index, bool element, bool wide) const {
  const IndexPool& pool = program_.pool();
  if (pool.is_constant(index)) return fmt::format("{}", pool.constant_part(index));
  std::string text;
  for (const IndexPool::Term& term : pool.terms(index)) {
    const std::string atom = term_text(term.atom, element, wide);
    const std::int64_t c = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    const std::string product = c == 1 ? atom : fmt::format("{} * {}", atom, c);
    text += text.empty() ? (term.coefficient < 0 ? "-" : "") : (term.coefficient < 0 ? " - " : " + ");
    text += product;
  }
  const std::int64_t constant = pool.kind(index) == IndexPool::Kind::sum ? pool.constant_part(index) : 0;
  if (constant != 0) text += fmt::format(" {} {}", constant < 0 ? "-" : "+", constant < 0 ? -constant : constant);
  const bool compound = pool.kind(index) == IndexPool::Kind::sum;
  return compound ? "(" + text + ")" : text;
}

}  // namespace stitch::codegen
