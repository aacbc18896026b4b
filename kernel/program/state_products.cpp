#include "kernel/program/state_products.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

constexpr int lanes_of_warp = 32;
constexpr std::int64_t bytes_of_bank_row = 128;
constexpr std::int64_t bytes_of_sum = 4;
constexpr std::int64_t most_index = std::int64_t{1} << 31;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The load that an item widens, if it does nothing else.
std::optional<ItemId> widened_load(const ScalarProgram& program, ItemId id) {
  while (program.at(id).kind == Item::Kind::compute && program.at(id).op == graph::Op::convert &&
         program.at(id).dtype == graph::DType::f32)
    id = program.at(id).operands[0];
  const Item& item = program.at(id);
  const bool narrow = item.dtype == graph::DType::f16 || item.dtype == graph::DType::bf16;
  if (item.kind != Item::Kind::load || !narrow || item.guard >= 0) return std::nullopt;
  return id;
}

/// Coefficients of an index in two variables, if it is a sum of multiples of these and a constant.
std::optional<std::pair<std::int64_t, std::int64_t>> plain_steps(const IndexPool& pool, Index index, Index a, Index b) {
  std::pair<std::int64_t, std::int64_t> steps{0, 0};
  for (const IndexPool::Term& term : pool.terms(index)) {
    if (term.atom != a && term.atom != b) return std::nullopt;
    (term.atom == a ? steps.first : steps.second) = term.coefficient;
  }
  return steps;
}

/// Whether a block's shared memory has it for a turn: what the turn before, or an earlier phase, has left.
bool is_handed_on(const GroupStructure& structure, const Buffer& buffer) {
  if (buffer.kind == Buffer::Kind::scratch) return true;
  return buffer.kind == Buffer::Kind::input && !structure.lasting_inputs.contains(buffer.number);
}

/// One sum as a product of its own.
std::optional<StateProducts> product_of(const GroupStructure& structure, int number) {
  const ScalarProgram& program = *structure.program;
  const Anchor& anchor = structure.anchors[number];
  const graph::Node& node = program.graph().node(anchor.node);
  if (node.op != graph::Op::reduce || anchor.combiner != graph::Op::reduce || anchor.sweep != 0) return std::nullopt;
  if (node.as<graph::ReduceAttributes>().kind != graph::ReduceKind::sum || anchor.items.size() != 1)
    return std::nullopt;
  const Item& product = program.at(anchor.items[0]);
  const bool multiplies = product.kind == Item::Kind::compute && product.op == graph::Op::multiply;
  if (!multiplies || product.dtype != graph::DType::f32 || node.results[0].dtype != graph::DType::f32)
    return std::nullopt;
  const auto left = widened_load(program, product.operands[0]), right = widened_load(program, product.operands[1]);
  if (!left || !right || program.at(*left).dtype != program.at(*right).dtype) return std::nullopt;
  const bool turned = is_handed_on(structure, program.at(*right).buffer);
  const ItemId state = turned ? *right : *left, weights = turned ? *left : *right;
  const Item &of_state = program.at(state), &of_weights = program.at(weights);
  const bool lasting = of_weights.buffer.kind == Buffer::Kind::input &&
                       structure.lasting_inputs.contains(of_weights.buffer.number) &&
                       program.items_of(of_weights.index).empty();
  if (!is_handed_on(structure, of_state.buffer) || !lasting) return std::nullopt;
  if (anchor.reduced.size() != 1 || anchor.axes.size() != 3) return std::nullopt;
  const AxisSet rows = of_state.axes - anchor.reduced, columns = of_weights.axes - anchor.reduced;
  const bool both = of_state.axes.size() == 2 && of_weights.axes.size() == 2 && rows.size() == 1 &&
                    columns.size() == 1 && rows != columns && anchor.axes.contains_all(rows | columns);
  if (!both || program.pool().high(of_weights.index) >= most_index) return std::nullopt;
  StateProducts made;
  made.state = state;
  made.row_axis = *rows.begin();
  made.column_axis = *columns.begin();
  made.depth_axis = *anchor.reduced.begin();
  made.parts = {{number, weights}};
  made.dtype = of_state.dtype;
  made.depth = program.axes().extents[made.depth_axis];
  const auto& variables = program.axes().variables;
  const auto steps = plain_steps(program.pool(), of_state.index, variables[made.row_axis], variables[made.depth_axis]);
  if (!steps || steps->first < made.depth || steps->second != 1) return std::nullopt;
  const auto weight_steps =
      plain_steps(program.pool(), of_weights.index, variables[made.column_axis], variables[made.depth_axis]);
  if (!weight_steps || weight_steps->second == 0) return std::nullopt;
  made.pitch = steps->first;
  // A run must not begin in its middle.
  if (program.pool().constant_part(of_state.index) % StateProducts::tile_rows != 0) return std::nullopt;
  return made;
}

/// Divides the columns' tiles and the depth among the warps: least work of a warp first, then least that passes through
/// shared memory.
void divide_among_warps(StateProducts& product) {
  const std::int64_t all_columns = std::ssize(product.parts) * product.columns;
  const std::int64_t all_tiles = divide_up(all_columns, StateProducts::tile_columns);
  const int unit = product.paired_rows() == 0 ? 2 : 1;  // chunks that a warp takes together
  const std::int64_t units = divide_up(product.depth, std::int64_t{unit} * StateProducts::chunk);
  const std::int64_t warps = product.threads / lanes_of_warp;
  std::optional<std::tuple<std::int64_t, std::int64_t>> least;
  for (std::int64_t depth_warps = 1; depth_warps <= std::min(warps, units); depth_warps *= 2) {
    const std::int64_t tiles = divide_up(all_tiles, std::min(warps / depth_warps, all_tiles));
    const std::int64_t column_warps = divide_up(all_tiles, tiles), each = divide_up(units, depth_warps);
    const std::int64_t read = column_warps * product.depth * graph::byte_size(product.dtype);
    const std::int64_t passed = 2 * depth_warps * all_columns * bytes_of_sum;
    const std::tuple cost{tiles * each, read + passed};
    if (least && *least <= cost) continue;
    least = cost;
    product.depth_warps = static_cast<int>(depth_warps);
    product.column_warps = static_cast<int>(column_warps);
    product.tiles = static_cast<int>(tiles);
    product.chunks = static_cast<int>(each * unit);
  }
  // Sums of at most so many tiles are in a thread's registers at once, four each.
  constexpr int most_sums = 8;
  product.tiles_at_once = std::clamp(most_sums / product.tiles, 1, std::min(4, product.row_tiles()));
}

/// Elements of an axis that a block has.
std::int64_t of_block(const AxisMapping& axis, std::int64_t extent) {
  return axis.at(Level::cluster) > 1 ? axis.per_block() : std::min(axis.per_block(), extent);
}

}  // namespace

std::int64_t StateProducts::working_registers() const {
  constexpr std::int64_t of_tile = 4, words = 4, of_addresses = 20;  // guess
  const std::int64_t chunks_at_once = paired_rows() == 0 ? 2 : 1;
  return of_tile * tiles * tiles_at_once + words * chunks_at_once * tiles_at_once + (in_registers ? 0 : 4 * words) +
         of_addresses;
}

std::int64_t StateProducts::fragment_bytes() const {
  constexpr std::int64_t of_lane = 16;
  return in_registers ? 0 : of_lane * lanes_of_warp * tiles * steps() * warps();
}

// A lane's neighbouring sums are of two rows, a pair, and lanes' of different pairs: with this pitch a warp's sums go
// to different banks, and so do vectors of a row.
std::int64_t StateProducts::sum_pitch() const {
  constexpr std::int64_t beside = 4;
  return std::int64_t{column_warps} * tiles * tile_columns + (paired_rows() == 4 ? 2 : 1) * beside;
}

std::int64_t StateProducts::sum_bytes() const { return depth_warps * sums_of_depth_warp() * bytes_of_sum; }

int StateProducts::run() const {
  int run = 8;
  while (depth % run != 0 || pitch % run != 0) run /= 2;
  return run;
}

int StateProducts::paired_rows() const {
  const std::int64_t apart = pitch * graph::byte_size(dtype) % bytes_of_bank_row;
  for (const int rows_apart : {1, 2, 4}) {
    if (apart * rows_apart % bytes_of_bank_row == bytes_of_bank_row / 2) return rows_apart;
  }
  return apart == 0 ? 0 : 1;
}

std::vector<StateProducts> find_state_products(const GroupStructure& structure) {
  std::vector<StateProducts> found;
  if (structure.program == nullptr || structure.lasting_inputs.empty()) return found;
  if (structure.program->graph().constraints.batch_invariant) return found;  // the order of sums follows from the block
  for (int a = 0; a < std::ssize(structure.anchors); ++a) {
    if (structure.anchors[a].kind == Anchor::Kind::store) continue;
    auto product = structure.anchors[a].kind == Anchor::Kind::reduce ? product_of(structure, a) : std::nullopt;
    if (!product) return {};
    const auto same = std::ranges::find_if(found, [&](const StateProducts& each) {
      return each.state == product->state && each.column_axis == product->column_axis;
    });
    if (same != found.end())
      same->parts.push_back(product->parts[0]);
    else
      found.push_back(std::move(*product));
  }
  return found;
}

Result<std::vector<StateProducts>> plan_state_products(const GroupStructure& structure, const GroupMapping& mapping,
                                                       const Schedule& schedule) {
  std::vector<StateProducts> products = find_state_products(structure);
  if (products.empty())
    return make_error(ErrorKind::constraint, "tensor cores take products of a turn's state with weights only");
  const std::vector<std::int64_t>& extents = structure.program->axes().extents;
  constexpr std::int64_t most = 255, for_the_rest = 80, of_an_sm = 65536;  // registers, as in hoisting.cpp
  std::int64_t room = std::min(most, of_an_sm / schedule.threads) - for_the_rest;
  for (StateProducts& product : products) {
    if (mapping.axes[product.depth_axis] != AxisMapping{} || mapping.vector_axis == product.depth_axis)
      return make_error(ErrorKind::constraint, "axis {} is contracted by tensor cores, but mapped", product.depth_axis);
    product.threads = schedule.threads;
    product.rows = of_block(mapping.axes[product.row_axis], extents[product.row_axis]);
    product.columns = of_block(mapping.axes[product.column_axis], extents[product.column_axis]);
    const std::int64_t vector = mapping.axes[product.column_axis].at(Level::vector);
    if (product.columns % vector != 0)
      return make_error(ErrorKind::constraint, "{} columns in vectors of {}", product.columns, vector);
    if (product.rows < StateProducts::least_rows)
      return make_error(ErrorKind::constraint, "{} rows for tensor cores, at least {}", product.rows,
                        StateProducts::least_rows);
    divide_among_warps(product);
    product.in_registers = true;
    const std::int64_t beside = std::max<std::int64_t>(product.working_registers() - for_the_rest, 0);
    product.in_registers = product.fragment_registers() + beside <= room;
    if (product.in_registers) room -= product.fragment_registers();
  }
  return products;
}

bool is_product_of(const std::vector<StateProducts>& products, int anchor) {
  return std::ranges::any_of(products, [&](const StateProducts& product) {
    return std::ranges::find(product.parts, anchor, &StateProducts::Part::anchor) != product.parts.end();
  });
}

std::vector<bool> needed_beside(const std::vector<StateProducts>& products, const GroupStructure& structure) {
  const ScalarProgram& program = *structure.program;
  std::vector<bool> needed(program.item_count(), products.empty());
  if (products.empty()) return needed;
  std::vector<ItemId> open;
  for (int a = 0; a < std::ssize(structure.anchors); ++a) {
    if (is_product_of(products, a)) continue;
    const std::vector<ItemId> roots = roots_of(program, structure.anchors[a]);
    open.insert(open.end(), roots.begin(), roots.end());
  }
  while (!open.empty()) {
    const ItemId id = open.back();
    open.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    const std::vector<ItemId> more = dependencies(program, id);
    open.insert(open.end(), more.begin(), more.end());
  }
  return needed;
}

}  // namespace stitch::kernel
