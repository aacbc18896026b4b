#include "codegen/contraction/weight_text.h"

#include <algorithm>
#include <map>
#include <memory>

#include "codegen/contraction/element_text.h"
#include "codegen/spelling.h"
#include "codegen/writer.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;
using kernel::Index;
using kernel::Item;
using kernel::ItemId;

/// No buffer holds the scores.
Buffer score_buffer(std::size_t score) { return {Buffer::Kind::scratch, static_cast<int>(score)}; }

class WeightPrinter {
 public:
  explicit WeightPrinter(const kernel::ProductChain& chain)
      : chain_(chain), program_(*chain.graph, {0, 1, 2}, {chain.batch(), chain.rows(), chain.columns()}) {}

  Result<WeightFunction> print() {
    declare_scores();
    for (std::size_t r = 0; r < chain_.weights.size(); ++r) {
      const graph::Dims& dims = chain_.graph->type(chain_.weights[r]).dims;
      STITCH_ASSIGN(const ItemId item,
                    program_.item(chain_.weights[r], element_of(program_, chain_.weights_lie[r], dims)));
      weights_.push_back(item);
    }
    find_scores();
    STITCH_TRY(find_items());
    Writer functions;
    functions.set_depth(1);
    for (const Level level : {Level::row, Level::column}) print_part(functions, level);
    print_operator(functions);
    Writer out;
    out.open("struct Weigh");
    for (const int parameter : made_.parameters) {
      const graph::NodeId node = chain_.graph->parameters()[parameter];
      const std::string name = fmt::format("in{}", parameter);
      out.line("const {}* __restrict__ {};", storage_type(chain_.graph->node(node).type().dtype), name);
      made_.members += fmt::format("{}{}", made_.members.empty() ? "" : ", ", name);
    }
    out.append(functions.text());
    out.set_depth(0);
    out.line("}};");
    made_.code = out.text();
    return std::move(made_);
  }

 private:
  /// What an item depends on: nothing but its row (or less), nothing but its column, or more.
  enum class Level : std::uint8_t { row, column, element };
  static constexpr int column_axis = 2, row_axis = 1;

  void declare_scores() {
    auto stored = std::make_shared<kernel::StoredValues>();
    for (std::size_t i = 0; i < chain_.roots.size(); ++i) {
      const graph::TensorType& type = chain_.graph->node(chain_.roots[i]).type();
      (*stored)[{chain_.roots[i], 0}] = {score_buffer(i), type.dims, type.dtype};
    }
    program_.set_stored(std::move(stored));
  }

  /// Of extents of 1 a score has no axis to tell that it is of an element.
  void find_scores() {
    takes_score_.assign(program_.item_count(), false);
    for (ItemId id = 0; id < program_.item_count(); ++id) {
      takes_score_[id] =
          is_score(program_.at(id)) || std::ranges::any_of(kernel::dependencies(program_, id),
                                                           [&](ItemId operand) { return bool(takes_score_[operand]); });
    }
  }

  /// Which items there are, and that a block has what they need.
  Status find_items() {
    needed_.assign(program_.item_count(), false);
    for (const ItemId weight : weights_) {
      const std::vector<bool> used = kernel::needed_by(program_, weight);
      for (std::size_t id = 0; id < used.size(); ++id) needed_[id] = needed_[id] || used[id];
    }
    std::map<Buffer, int> scores;
    for (ItemId id = 0; id < program_.item_count(); ++id) {
      if (!needed_[id]) continue;
      const Item& item = program_.at(id);
      if (is_score(item) && ++scores[item.buffer] > 1)
        return make_error(ErrorKind::unsupported, "weights that need a score at several places");
      const bool fits = item.kind == Item::Kind::literal || item.kind == Item::Kind::index ||
                        item.kind == Item::Kind::in_range || item.kind == Item::Kind::compute ||
                        (item.kind == Item::Kind::load && (is_score(item) || item.buffer.kind == Buffer::Kind::input));
      if (!fits) return make_error(ErrorKind::unsupported, "weights that are more than element-wise (item {})", id);
    }
    for (ItemId id = 0; id < program_.item_count(); ++id) {
      if (!needed_[id] || level_of(id) != Level::element) continue;
      keep_what_is_read(id);
    }
    for (const ItemId weight : weights_) {
      if (level_of(weight) != Level::element) kept_.insert(weight);
    }
    return {};
  }
  void keep_what_is_read(ItemId id) {
    for (const ItemId operand : kernel::dependencies(program_, id)) {
      if (level_of(operand) != Level::element && program_.at(operand).kind != Item::Kind::literal)
        kept_.insert(operand);
    }
  }

  [[nodiscard]] static bool is_score(const Item& item) {
    return item.kind == Item::Kind::load && item.buffer.kind == Buffer::Kind::scratch;
  }
  /// What indices are made of is as cheap where it is used.
  [[nodiscard]] Level level_of(ItemId id) const {
    const Item& item = program_.at(id);
    if (takes_score_[id]) return Level::element;
    if (item.kind == Item::Kind::index || item.kind == Item::Kind::in_range) {
      const bool looked_up = !program_.items_of(item.index).empty();
      if (!looked_up) return Level::element;
    }
    if (!item.axes.contains(column_axis)) return Level::row;
    return item.axes.contains(row_axis) ? Level::element : Level::column;
  }

  static std::string name(ItemId id) { return fmt::format("x{}", id); }
  /// How an item is called at a level: those of rows and columns are members of what was kept.
  [[nodiscard]] std::string value(ItemId id, Level at) const {
    const Item& item = program_.at(id);
    if (item.kind == Item::Kind::literal) return literal(item.dtype, item.bits);
    if (is_score(item)) return fmt::format("static_cast<{}>(scores[{}])", compute_type(item.dtype), item.buffer.number);
    const Level level = level_of(id);
    if (at == Level::element && level != at)
      return fmt::format("of_{}.{}", level == Level::row ? "row" : "column", name(id));
    return name(id);
  }

  [[nodiscard]] std::string index(Index index, Level at) const {
    return index_of(program_, index, {"batch", "row", "column"}, [&](ItemId id) { return value(id, at); });
  }

  std::string expression_of(ItemId id, Level at) {
    const Item& item = program_.at(id);
    switch (item.kind) {
      case Item::Kind::index:
        return fmt::format("static_cast<{}>({})", compute_type(item.dtype), index(item.index, at));
      case Item::Kind::in_range:
        return fmt::format("{0} >= {1} && {0} < {2}", index(item.index, at), item.low, item.high);
      case Item::Kind::load: return load(item, at);
      default: break;
    }
    std::vector<std::string> operands;
    for (const ItemId operand : item.operands) operands.push_back(value(operand, at));
    const int data = item.op == graph::Op::select ? 1 : 0;
    return expression(item, program_.at(item.operands[data]).dtype, operands);
  }
  std::string load(const Item& item, Level at) {
    made_.parameters.insert(item.buffer.number);
    std::string place = index(item.index, at);
    // What is so far behind is found by a constant of the address.
    if (at == Level::column && program_.counts_along(item.index, column_axis, chain_.columns())) {
      place = index_of(program_, item.index, {"batch", "row", "first"}, [&](ItemId id) { return value(id, at); }) +
              " + behind";
    }
    std::string text = fmt::format("load_one<Cached::streamed>(in{} + {})", item.buffer.number, place);
    if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
    return item.guard < 0 ? text : fmt::format("{} ? {} : {}", value(item.guard, at), text, literal(item.dtype, 0));
  }

  /// The items of a level as variables. A guard or index that is cheap is made again.
  void print_items(Writer& out, Level at, const std::vector<bool>& wanted) {
    for (ItemId id = 0; id < program_.item_count(); ++id) {
      const Item& item = program_.at(id);
      if (!wanted[id] || item.kind == Item::Kind::literal || is_score(item)) continue;
      if (at == Level::element && level_of(id) != at) continue;
      out.line("const {} {} = {};", type_of(id), name(id), expression_of(id, at));
      if (at == Level::element && item.kind == Item::Kind::compute) ++made_.operators;
    }
  }
  [[nodiscard]] std::string type_of(ItemId id) const {
    const Item& item = program_.at(id);
    return item.kind == Item::Kind::in_range ? "bool" : std::string(compute_type(item.dtype));
  }

  /// What is kept of a row or a column, and the function that makes it.
  void print_part(Writer& out, Level level) {
    const bool row = level == Level::row;
    const char* const type = row ? "Row" : "Column";
    std::vector<ItemId> members;
    for (const ItemId id : kept_) {
      if (level_of(id) == level) members.push_back(id);
    }
    (row ? made_.row_values : made_.column_values) = static_cast<int>(members.size());
    out.open("struct {}", type);
    for (const ItemId id : members) out.line("{} {};", type_of(id), name(id));
    out.set_depth(1);
    out.line("}};");
    out.open("__device__ __forceinline__ {} {} const", type,
             row ? "row(int batch, int row)" : "column(int batch, int first, int behind)");
    if (!row && !members.empty()) out.line("const int column = first + behind;");
    std::vector<bool> wanted(program_.item_count(), false);
    for (const ItemId id : members) {
      const std::vector<bool> used = kernel::needed_by(program_, id);
      for (std::size_t i = 0; i < used.size(); ++i) wanted[i] = wanted[i] || used[i];
    }
    print_items(out, level, wanted);
    std::string values;
    for (const ItemId id : members) values += fmt::format("{}{}", values.empty() ? "" : ", ", name(id));
    out.line("return {{{}}};", values);
    out.close();
  }

  void print_operator(Writer& out) {
    out.open(
        "__device__ __forceinline__ void operator()(const f32 (&scores)[{}], const Row& of_row, const Column& "
        "of_column, int batch, int row, int column, f32 (&weights)[{}]) const",
        chain_.scores.size(), weights_.size());
    print_items(out, Level::element, needed_);
    for (std::size_t r = 0; r < weights_.size(); ++r)
      out.line("weights[{}] = {};", r, value(weights_[r], Level::element));
    out.close();
  }

  const kernel::ProductChain& chain_;
  kernel::ScalarProgram program_;
  std::vector<ItemId> weights_;
  std::vector<bool> needed_, takes_score_;
  std::set<ItemId> kept_;  ///< items of rows or columns that those of elements read
  WeightFunction made_;
};

}  // namespace

Result<WeightFunction> print_weights(const kernel::ProductChain& chain) { return WeightPrinter(chain).print(); }

}  // namespace stitch::codegen
