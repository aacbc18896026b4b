#include "codegen/contraction/contraction_epilogue.h"

#include <algorithm>
#include <memory>

#include "codegen/index_text.h"
#include "codegen/spelling.h"
#include "graph/literal.h"
#include "kernel/attention/visible_keys.h"
#include "kernel/structure/items.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;
using kernel::ContractionDigits;
using kernel::ContractionProblem;
using kernel::Index;
using kernel::IndexPool;
using kernel::Item;
using kernel::ItemId;
using kernel::ScalarProgram;

constexpr std::int64_t int_limit = std::int64_t{1} << 31;
/// The sum, which no buffer holds.
constexpr Buffer sum_buffer{Buffer::Kind::scratch, 0};

class EpiloguePrinter {
 public:
  EpiloguePrinter(const ContractionProblem& problem, std::string_view name, bool with_seen)
      : problem_(problem),
        name_(name),
        with_seen_(with_seen),
        program_(*problem.graph, {0, 1, 2}, {problem.batch, problem.rows, problem.columns}) {}

  Result<ContractionEpilogue> print() {
    STITCH_ASSIGN(const ItemId result, result_item());
    Writer body;
    body.set_depth(2);
    std::vector<bool> needed(program_.items().size(), false);
    needed[result] = true;
    for (ItemId id = result; id >= 0; --id) {
      if (!needed[id]) continue;
      for (const ItemId each : kernel::dependencies(program_, id)) needed[each] = true;
    }
    const auto ids = program_.item_ids();
    // A block has the sum of the result's own place alone.
    if (std::ranges::count_if(ids, [&](ItemId id) { return needed[id] && is_sum(program_.at(id)); }) > 1)
      return make_error(ErrorKind::unsupported, "an epilogue that needs the product at several places");
    for (const ItemId id : ids) {
      const Item& item = program_.at(id);
      if (!needed[id] || item.kind == Item::Kind::literal || is_sum(item)) continue;
      if (!is_element_wise(item))
        return make_error(ErrorKind::unsupported, "an epilogue that is more than element-wise (item {})", id);
      body.line("const {} {} = {};", item.kind == Item::Kind::in_range ? "bool" : compute_type(item.dtype), name(id),
                expression_of(id));
    }
    return finish(result, body);
  }

 private:
  /// Position of (batch, row, column) in the result, and from there the element.
  Result<ItemId> result_item() {
    const graph::Graph& graph = *problem_.graph;
    auto stored = std::make_shared<kernel::StoredValues>();
    const graph::Value root{problem_.root, 0};
    (*stored)[root] = {sum_buffer, graph.type(root).dims, graph.type(root).dtype};
    program_.set_stored(std::move(stored));
    IndexPool& pool = program_.pool();
    Index position = pool.constant(0);
    const ContractionDigits* digits[] = {&problem_.result.batch, &problem_.result.rows, &problem_.result.columns};
    for (std::size_t i = 0; i < 3; ++i) {
      std::int64_t step = 1;
      for (auto each = digits[i]->rbegin(); each != digits[i]->rend(); step *= each->extent, ++each) {
        Index digit = pool.divide(program_.axes().variables[i], step);
        if (each != digits[i]->rend() - 1) digit = pool.remainder(digit, each->extent);
        position = pool.add(position, pool.scale(digit, each->stride));
      }
    }
    const graph::Value result = graph.results()[0];
    return program_.item(result, pool.delinearise(position, graph.type(result).dims));
  }

  Result<ContractionEpilogue> finish(ItemId result, const Writer& body) {
    ContractionEpilogue made;
    made.parameters = parameters_;
    Writer out;
    out.open("struct {}", name_);
    for (const int parameter : parameters_) {
      const graph::NodeId node = problem_.graph->parameters()[parameter];
      out.line("const {}* __restrict__ in{};", storage_type(problem_.graph->node(node).type().dtype), parameter);
    }
    const std::string sum = compute_type(problem_.accumulator), type = compute_type(program_.at(result).dtype);
    if (with_seen_) out.line("template <bool seen>");
    out.open("__device__ __forceinline__ {} operator()({} sum, int batch, int row, int column) const", type, sum);
    out.append(body.text());
    out.line("return {};", value(result));
    out.close();
    out.set_depth(0);
    out.line("}};");
    made.code = out.text();
    return made;
  }

  /// Whether it is computed from the sum, parameters and literals of its own place: no reduction, no table.
  [[nodiscard]] static bool is_element_wise(const Item& item) {
    switch (item.kind) {
      case Item::Kind::load: return item.buffer.kind == kernel::Buffer::Kind::input;
      case Item::Kind::index:
      case Item::Kind::in_range:
      case Item::Kind::compute: return true;
      default: return false;
    }
  }
  [[nodiscard]] static bool is_sum(const Item& item) {
    return item.kind == Item::Kind::load && item.buffer == sum_buffer;
  }
  [[nodiscard]] static std::string name(ItemId id) { return fmt::format("x{}", id); }

  [[nodiscard]] std::string value(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind == Item::Kind::literal) return literal(item.dtype, item.bits);
    return is_sum(item) ? fmt::format("static_cast<{}>(sum)", compute_type(item.dtype)) : name(id);
  }

  [[nodiscard]] std::string index(Index index) const {
    const IndexPool& pool = program_.pool();
    const bool wide = pool.high(index) >= int_limit;
    return index_text(pool, index, [&](Index variable) -> std::string {
      const std::vector<Index>& variables = program_.axes().variables;
      const auto found = std::ranges::find(variables, variable) - variables.begin();
      if (found == std::ssize(variables)) return dynamic(variable, wide);
      constexpr const char* names[] = {"batch", "row", "column"};
      return wide ? fmt::format("static_cast<s64>({})", names[found]) : names[found];
    });
  }
  /// An index that is looked up, clamped into its range.
  [[nodiscard]] std::string dynamic(Index variable, bool wide) const {
    return fmt::format("static_cast<{}>(minimum<s64>(maximum<s64>({}, 0), {}))", wide ? "s64" : "int",
                       value(program_.dynamic_item(variable)), program_.pool().high(variable));
  }

  std::string expression_of(ItemId id) {
    const Item& item = program_.at(id);
    switch (item.kind) {
      case Item::Kind::index: return fmt::format("static_cast<{}>({})", compute_type(item.dtype), index(item.index));
      case Item::Kind::in_range: return fmt::format("{0} >= {1} && {0} < {2}", index(item.index), item.low, item.high);
      case Item::Kind::load: return load(item);
      default: break;
    }
    std::vector<std::string> operands;
    for (const ItemId operand : item.operands) operands.push_back(value(operand));
    const bool selects = item.op == graph::Op::select && item.kind == Item::Kind::compute;
    if (selects && with_seen_ && hides(item.operands[2])) operands[0] = fmt::format("(seen || {})", operands[0]);
    const int data = selects ? 1 : 0;
    return expression(item, program_.at(item.operands[data]).dtype, operands);
  }

  [[nodiscard]] bool hides(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::literal || !graph::is_floating(item.dtype)) return false;
    return graph::element(graph::scalar_of(item.dtype, item.bits), 0) <= kernel::hiding_logit;
  }

  std::string load(const Item& item) {
    parameters_.insert(item.buffer.number);
    std::string text = fmt::format("load_one<Cached::streamed>(in{} + {})", item.buffer.number, index(item.index));
    if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
    return item.guard < 0 ? text : fmt::format("{} ? {} : {}", value(item.guard), text, literal(item.dtype, 0));
  }

  const ContractionProblem& problem_;
  const std::string_view name_;
  const bool with_seen_;
  ScalarProgram program_;
  std::set<int> parameters_;
};

}  // namespace

Result<ContractionEpilogue> print_epilogue(const ContractionProblem& problem, std::string_view name, bool with_seen) {
  return EpiloguePrinter(problem, name, with_seen).print();
}

}  // namespace stitch::codegen
