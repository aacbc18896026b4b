#include "codegen/contraction/contraction_epilogue.h"

#include <algorithm>
#include <map>
#include <memory>

#include "codegen/contraction/element_text.h"
#include "codegen/spelling.h"
#include "graph/literal.h"
#include "kernel/attention/visible_keys.h"
#include "kernel/contraction/gated_contraction.h"
#include "kernel/structure/items.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::codegen {
namespace {

using kernel::Buffer;
using kernel::ContractionProblem;
using kernel::Index;
using kernel::Item;
using kernel::ItemId;
using kernel::ScalarProgram;

/// The sum, and what rows are combined to, in the order of row_reductions: no buffer holds them. Of two gates the
/// second one's sum may be another product's; no rows are combined then.
constexpr Buffer sum_buffer{Buffer::Kind::scratch, 0}, other_sum_buffer{Buffer::Kind::scratch, 1};
Buffer total_buffer(std::size_t reduction) { return {Buffer::Kind::scratch, static_cast<int>(reduction) + 1}; }

class EpiloguePrinter {
 public:
  EpiloguePrinter(const ContractionProblem& problem, bool with_seen, bool keeps = false)
      : problem_(problem),
        with_seen_(with_seen),
        keeps_(keeps),
        program_(*problem.graph, {0, 1, 2}, {problem.batch, problem.rows, problem.units()}) {}

  Result<ContractionEpilogues> print(std::string_view name) {
    declare_stored();
    if (problem_.gates > 1) STITCH_TRY(declare_gates());
    std::vector<ItemId> combined, results;
    for (const kernel::RowReduction& reduction : problem_.row_reductions) {
      STITCH_TRY(declare_total(reduction));
      STITCH_ASSIGN(const ItemId item, item_of(reduction.operand, operand_of(reduction)));
      combined.push_back(item);
    }
    const std::span<const kernel::ContractionResult> stored = kernel::results_of(problem_);
    for (std::size_t r = 0; r < stored.size(); ++r) {
      const kernel::ColumnSum* sum = column_sum(r);
      Result<ItemId> item = sum == nullptr ? item_of(stored[r], problem_.graph->results()[r])
                                           : item_of(sum->operand, problem_.graph->node(sum->node).operands[0]);
      if (!item) return item.error();
      results.push_back(*item);
    }
    std::vector<ItemId> roots = combined;
    roots.insert(roots.end(), results.begin(), results.end());
    STITCH_TRY(check_sum(roots));

    ContractionEpilogues made;
    STITCH_ASSIGN(made.in_place, find_in_place(results));
    for (const kernel::InPlace& pair : made.in_place) overwritten_.insert(pair.input);
    if (!combined.empty()) {
      if (const ItemId carried = carried_of(roots); carried >= 0) {
        STITCH_ASSIGN(made.carried, print_function("Carried", carried));
        carried_ = carried;
      }
    }
    for (std::size_t i = 0; i < combined.size(); ++i) {
      STITCH_ASSIGN(ContractionEpilogue each, print_function(fmt::format("Combined{}", i), combined[i]));
      made.combined.push_back(std::move(each));
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      const std::string own = results.size() == 1 ? std::string(name) : fmt::format("{}{}", name, r);
      const int takes = column_sum(r) == nullptr ? -1 : taken_by(results, r);
      const ItemId carried = carried_;
      if (takes >= 0) carried_ = results[takes];
      STITCH_ASSIGN(ContractionEpilogue each, print_function(own, results[r]));
      carried_ = carried;
      each.takes = takes;
      made.results.push_back(std::move(each));
    }
    return made;
  }

  /// Where keys end that are shown, of an attention's scores.
  Result<std::optional<ShownKeys>> print_shown(const kernel::AttentionProblem& problem, kernel::LimitOf of) {
    declare_stored();
    STITCH_ASSIGN(const ItemId logits, item_of(problem_.result, problem_.graph->results()[0]));
    const std::optional<kernel::KeyLimit> limit = kernel::key_limit(problem, program_, logits, of);
    if (!limit) return std::optional<ShownKeys>();
    STITCH_ASSIGN(ContractionEpilogue bound, print_function("Bound", limit->bound));
    return std::optional(ShownKeys{std::move(bound), *limit});
  }

 private:
  void declare_stored() {
    const graph::Graph& graph = *problem_.graph;
    auto stored = std::make_shared<kernel::StoredValues>();
    const auto declare = [&](graph::NodeId node, const Buffer& buffer) {
      (*stored)[{node, 0}] = {buffer, graph.node(node).type().dims, graph.node(node).type().dtype};
    };
    declare(problem_.root, sum_buffer);
    if (problem_.other_right) declare(problem_.other_root, other_sum_buffer);
    for (std::size_t i = 0; i < problem_.row_reductions.size(); ++i)
      declare(problem_.row_reductions[i].node, total_buffer(i));
    program_.set_stored(std::move(stored));
  }

  /// The sums that an element of the results may be made of.
  Status declare_gates() {
    STITCH_ASSIGN(const kernel::ContractionResult layout, kernel::sums_of_gates(problem_));
    const graph::Dims& dims = problem_.graph->node(problem_.root).type().dims;
    for (int gate = 0; gate < problem_.gates; ++gate) {
      const bool other = gate > 0 && problem_.other_right;
      const Index column = program_.pool().offset(program_.axes().variables[2], other ? 0 : gate * problem_.units());
      STITCH_ASSIGN(const ItemId sum, program_.item({other ? problem_.other_root : problem_.root, 0},
                                                    element_of(program_, layout, dims, column)));
      gates_.emplace(sum, gate);
    }
    return {};
  }

  /// What of columns a result is the sum of; null: it is none.
  [[nodiscard]] const kernel::ColumnSum* column_sum(std::size_t result) const {
    const auto found = std::ranges::find(problem_.column_sums, result, &kernel::ColumnSum::result);
    return found == problem_.column_sums.end() ? nullptr : &*found;
  }
  /// A result that is computed anyway, and all that this sum's values take of the product; −1: there is none.
  [[nodiscard]] int taken_by(std::span<const ItemId> results, std::size_t sum) const {
    const std::string type = compute_type(problem_.accumulator);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const bool is_made =
          kernel::results_of(problem_)[r].of_elements() && program_.at(results[r]).kind == Item::Kind::compute;
      if (is_made && compute_type(program_.at(results[r]).dtype) == type && sums_of(results[sum], results[r]).empty())
        return static_cast<int>(r);
    }
    return -1;
  }

  /// Of one product whose elements each have one thread. Results are stored in their order, an element of each.
  Result<std::vector<kernel::InPlace>> find_in_place(std::span<const ItemId> results) {
    std::vector<kernel::InPlace> pairs;
    const graph::Graph& graph = *problem_.graph;
    const bool others = !problem_.terms.empty() || !problem_.computed.empty() || problem_.scales ||
                        problem_.gates > 1 || !problem_.row_reductions.empty() || !problem_.column_sums.empty() ||
                        results.size() != graph.results().size();
    if (!graph.constraints.in_place || others) return pairs;
    std::vector<std::vector<bool>> used;
    for (const ItemId result : results) used.push_back(kernel::needed_by(program_, result));
    const std::span<const kernel::ContractionResult> stored = kernel::results_of(problem_);
    for (int p = 0; p < std::ssize(graph.parameters()); ++p) {
      const graph::TensorType& type = graph.node(graph.parameters()[p]).type();
      if (p == problem_.left.parameter || p == problem_.right.parameter || type.elements() == 0) continue;
      for (int r = 0; r < std::ssize(results); ++r) {
        if (graph.type(graph.results()[r]) != type) continue;
        STITCH_ASSIGN(const ItemId own, item_of(stored[r], {graph.parameters()[p], 0}));
        if (is_read_before(p, own, r, used)) pairs.push_back({p, r});
      }
    }
    return pairs;
  }
  /// Whether results up to number `at` read of parameter `p` the item `own` alone, and those behind it nothing.
  [[nodiscard]] bool is_read_before(int p, ItemId own, int at, const std::vector<std::vector<bool>>& used) const {
    bool any = false;
    for (int r = 0; r < std::ssize(used); ++r) {
      for (ItemId id = 0; id < std::ssize(used[r]); ++id) {
        const Item& item = program_.at(id);
        if (!used[r][id] || item.kind != Item::Kind::load || item.buffer != Buffer{Buffer::Kind::input, p}) continue;
        if (r > at || id != own || item.guard >= 0) return false;
        any = true;
      }
    }
    return any;
  }

  [[nodiscard]] graph::Value operand_of(const kernel::RowReduction& reduction) const {
    return problem_.graph->node(reduction.node).operands[0];
  }

  std::vector<Index> place_of(const kernel::ContractionResult& layout, graph::Value value) {
    return element_of(program_, layout, problem_.graph->type(value).dims);
  }
  Result<ItemId> item_of(const kernel::ContractionResult& layout, graph::Value value) {
    return program_.item(value, place_of(layout, value));
  }

  /// A block has what its own rows are combined to, and no other's.
  Status declare_total(const kernel::RowReduction& reduction) {
    const graph::Node& node = problem_.graph->node(reduction.node);
    const std::vector<Index> place = place_of(reduction.operand, node.operands[0]);
    std::vector<Index> kept;
    for (std::size_t d = 0; d < place.size(); ++d) {
      if (std::ranges::count(node.as<graph::ReduceAttributes>().dimensions, static_cast<std::int64_t>(d)) == 0)
        kept.push_back(place[d]);
    }
    STITCH_ASSIGN(const ItemId own, program_.item({reduction.node, 0}, kept));
    totals_.push_back(own);
    return {};
  }

  /// The sums that computing `root` takes, where what `known` is is known.
  [[nodiscard]] std::vector<ItemId> sums_of(ItemId root, ItemId known) const {
    const std::vector<bool> used = kernel::needed_by(program_, root, known);
    std::vector<ItemId> sums;
    for (ItemId id = 0; id <= root; ++id) {
      if (used[id] && is_sum(id)) sums.push_back(id);
    }
    return sums;
  }

  /// A block has the sum of the result's own place alone, or of all of its gates.
  [[nodiscard]] Status check_sum(std::span<const ItemId> roots) const {
    std::set<ItemId> sums;
    for (const ItemId root : roots) {
      for (const ItemId sum : sums_of(root, -1)) sums.insert(sum);
    }
    const auto is_gate = [&](ItemId sum) { return gates_.contains(sum); };
    if (problem_.gates > 1 ? !std::ranges::all_of(sums, is_gate) : sums.size() > 1)
      return make_error(ErrorKind::unsupported, "an epilogue that needs the product at several places");
    return {};
  }

  /// The last item that all ways from the sum lead through; −1: none but the sum itself, or it has no place among sums.
  [[nodiscard]] ItemId carried_of(std::span<const ItemId> roots) const {
    for (ItemId id = program_.item_count() - 1; id >= 0; --id) {
      const Item& item = program_.at(id);
      const bool fits =
          item.kind == Item::Kind::compute && compute_type(item.dtype) == compute_type(problem_.accumulator);
      if (!fits || sums_of(id, -1).empty()) continue;
      if (std::ranges::all_of(roots, [&](ItemId root) { return sums_of(root, id).empty(); })) return id;
    }
    return -1;
  }

  Result<ContractionEpilogue> print_function(std::string_view name, ItemId root) {
    parameters_.clear();
    wide_loads_.clear();
    find_kept(root);
    STITCH_ASSIGN(const Writer body, print_body(root, 2));
    ContractionEpilogue made{std::string(name), {}, {}, parameters_, {}};
    Writer out;
    open_function(out, made);
    const std::string sum = compute_type(problem_.accumulator), type = compute_type(program_.at(root).dtype);
    if (!with_seen_ && problem_.gates == 1) {
      out.open("__device__ __forceinline__ {} operator()({} sum, int batch, int row, int column) const", type, sum);
      out.append(body.text());
      out.line("return {};", value(root));
      out.close();
    }
    STITCH_TRY(print_run(out, root));
    if (!kept_.empty()) print_of_batch(out, made);
    out.set_depth(0);
    out.line("}};");
    made.code = out.text();
    return made;
  }

  /// The structure with its members, which are told of.
  void open_function(Writer& out, ContractionEpilogue& made) const {
    out.open("struct {}", made.name);
    const auto add = [&](std::string_view declaration, std::string_view value) {
      out.line("{};", declaration);
      made.members += fmt::format("{}{}", made.members.empty() ? "" : ", ", value);
    };
    for (const int parameter : made.parameters) {
      const graph::NodeId node = problem_.graph->parameters()[parameter];
      const std::string name = fmt::format("in{}", parameter);
      add(fmt::format("const {}*{} {}", storage_type(problem_.graph->node(node).type().dtype),
                      overwritten_.contains(parameter) ? "" : " __restrict__", name),
          name);
    }
    for (const ItemId id : kept_) out.line("{} {};", compute_type(program_.at(id).dtype), this->name(id));
    if (problem_.row_reductions.empty()) return;
    add("const f32* totals", "totals");
    add("int first_row", "block_row");
  }

  /// Elements that follow one another along the columns and that one access takes, for an item that loads such; else 1.
  [[nodiscard]] int run_of(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::load || item.buffer.kind != Buffer::Kind::input || item.guard >= 0) return 1;
    for (int width = kernel::widest_bytes / graph::byte_size(item.dtype); width > 1; width /= 2) {
      if (problem_.units() % width == 0 && program_.counts_along(item.index, 2, width)) return width;
    }
    return 1;
  }

  // ---- what is the same for a whole batch: computed once, where that is asked for --------------------------------

  [[nodiscard]] bool is_of_batch(ItemId id) const {
    const Item& item = program_.at(id);
    const bool computed = item.kind == Item::Kind::compute || item.kind == Item::Kind::load;
    return computed && !item.axes.contains(1) && !item.axes.contains(2) && sums_of(id, -1).empty();
  }
  /// Those that others are made of, which are not.
  void find_kept(ItemId root) {
    kept_.clear();
    if (!keeps_) return;
    const std::vector<bool> used = kernel::needed_by(program_, root, carried_);
    for (ItemId id = 0; id <= root; ++id) {
      if (!used[id] || is_of_batch(id)) continue;
      for (const ItemId operand : kernel::dependencies(program_, id)) {
        if (is_of_batch(operand)) kept_.insert(operand);
      }
    }
  }
  /// The function that makes the structure, of the arguments that all of it reads.
  void print_of_batch(Writer& out, ContractionEpilogue& made) {
    std::vector<bool> used(program_.item_count(), false);
    for (const ItemId id : kept_) {
      const std::vector<bool> own = kernel::needed_by(program_, id);
      for (std::size_t i = 0; i < own.size(); ++i) used[i] = used[i] || own[i];
    }
    parameters_.clear();
    Writer body;
    body.set_depth(2);
    for (ItemId id = 0; id < program_.item_count(); ++id) {
      const Item& item = program_.at(id);
      if (!used[id] || item.kind == Item::Kind::literal) continue;
      body.line("const {} {} = {};", item.kind == Item::Kind::in_range ? "bool" : compute_type(item.dtype),
                this->name(id), expression_of(id));
    }
    std::string values = made.members, declared;
    for (const ItemId id : kept_) values += fmt::format("{}{}", values.empty() ? "" : ", ", name(id));
    made.parameters.insert(parameters_.begin(), parameters_.end());
    for (const int parameter : made.parameters) {
      const graph::NodeId node = problem_.graph->parameters()[parameter];
      declared += fmt::format("const {}* __restrict__ in{}, ", storage_type(problem_.graph->node(node).type().dtype),
                              parameter);
      made.made_of += fmt::format("in{}, ", parameter);
    }
    made.made_of += "batch";
    out.open("__device__ static __forceinline__ {} of({}int batch)", made.name, declared);
    out.append(body.text());
    out.line("return {{{}}};", values);
    out.close();
  }

  /// The items up to `root` as variables.
  Result<Writer> print_body(ItemId root, int depth) {
    Writer body;
    body.set_depth(depth);
    const std::vector<bool> used = kernel::needed_by(program_, root, carried_);
    for (ItemId id = 0; id <= root; ++id) {
      const Item& item = program_.at(id);
      if (!used[id] || item.kind == Item::Kind::literal || is_given(id)) continue;
      if (!kept_.empty() && is_of_batch(id)) continue;
      if (!is_element_wise(id))
        return make_error(ErrorKind::unsupported, "an epilogue that is more than element-wise (item {})", id);
      body.line("const {} {} = {};", item.kind == Item::Kind::in_range ? "bool" : compute_type(item.dtype),
                this->name(id), expression_of(id));
    }
    return body;
  }

  /// The same of several columns, with what can be read at once.
  Status print_run(Writer& out, ItemId result) {
    const std::vector<bool> used = kernel::needed_by(program_, result, carried_);
    for (ItemId id = 0; id <= result; ++id) {
      if (const int width = used[id] && !is_given(id) ? run_of(id) : 1; width > 1) wide_loads_.emplace(id, width);
    }
    in_run_ = true;
    STITCH_ASSIGN(const Writer body, print_body(result, 3));
    in_run_ = false;
    const std::string sum = compute_type(problem_.accumulator);
    out.line("template <{}int n>", with_seen_ ? "bool seen, " : "");
    out.open(
        "__device__ __forceinline__ void run(const {}* sums, int batch, int row, int first, {} (&results)[n], "
        "int behind = 0) const",
        sum, compute_type(program_.at(result).dtype));
    for (const auto& [id, width] : wide_loads_) {
      const Item& item = program_.at(id);
      // Along all columns, not only a run of them.
      const bool linear = program_.counts_along(item.index, 2, problem_.units());
      column_ = linear ? "first" : "(first + behind)";
      out.line("{} wide{}[n];", storage_type(item.dtype), id);
      out.line("load_run<{}{}>(wide{}, in{} + {}{});", width, is_overwritten(item) ? ", Cached::plain" : "", id,
               item.buffer.number, index(item.index), linear ? " + behind" : "");
    }
    column_ = "column";
    out.line("#pragma unroll");
    out.open("for (int v = 0; v < n; ++v)");
    out.line("const int column = first + behind + v;");
    for (int gate = 0; gate < problem_.gates; ++gate)
      out.line("const {} {} = sums[v + {}];", sum, sum_name(gate), gate * kernel::gate_run);
    out.append(body.text());
    out.line("results[v] = {};", value(result));
    out.close(2);
    return {};
  }

  /// Whether it is computed from the sum, parameters and literals of its own place, and what its own row is combined
  /// to: no other reduction, no table.
  [[nodiscard]] bool is_element_wise(ItemId id) const {
    const Item& item = program_.at(id);
    switch (item.kind) {
      case Item::Kind::load:
        return item.buffer.kind == kernel::Buffer::Kind::input || std::ranges::count(totals_, id) > 0;
      case Item::Kind::index:
      case Item::Kind::in_range:
      case Item::Kind::compute: return true;
      default: return false;
    }
  }
  [[nodiscard]] bool is_sum(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::load) return false;
    return item.buffer == sum_buffer || (problem_.other_right && item.buffer == other_sum_buffer);
  }
  /// Whether a function is given it as its `sum`.
  [[nodiscard]] bool is_given(ItemId id) const { return id == carried_ || is_sum(id); }
  [[nodiscard]] std::string sum_name(int gate) const {
    return problem_.gates == 1 ? "sum" : fmt::format("sum{}", gate);
  }
  [[nodiscard]] static std::string name(ItemId id) { return fmt::format("x{}", id); }

  [[nodiscard]] std::string value(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind == Item::Kind::literal) return literal(item.dtype, item.bits);
    if (!is_given(id)) return name(id);
    const auto gate = gates_.find(id);
    return fmt::format("static_cast<{}>({})", compute_type(item.dtype),
                       sum_name(gate == gates_.end() ? 0 : gate->second));
  }

  [[nodiscard]] std::string index(Index index) const {
    return index_of(program_, index, {"batch", "row", column_}, [&](ItemId id) { return value(id); });
  }

  std::string expression_of(ItemId id) {
    const Item& item = program_.at(id);
    switch (item.kind) {
      case Item::Kind::index: return fmt::format("static_cast<{}>({})", compute_type(item.dtype), index(item.index));
      case Item::Kind::in_range: return fmt::format("{0} >= {1} && {0} < {2}", index(item.index), item.low, item.high);
      case Item::Kind::load: return load(id);
      default: break;
    }
    std::vector<std::string> operands;
    const bool takes_bits = item.op == graph::Op::shift_right_logical || item.op == graph::Op::bit_and;
    for (const ItemId operand : item.operands)
      operands.push_back(in_run_ && takes_bits ? joined_place(operand) : value(operand));
    const bool selects = item.op == graph::Op::select && item.kind == Item::Kind::compute;
    if (selects && with_seen_ && hides(item.operands[2])) operands[0] = fmt::format("(seen || {})", operands[0]);
    const int data = selects ? 1 : 0;
    return expression(item, program_.at(item.operands[data]).dtype, operands);
  }

  /// As item_printer.h's: of a place whose neighbours in a run follow it the compiler does not see that their upper
  /// bits are the same, by which they share random bits.
  [[nodiscard]] std::string joined_place(ItemId id) {
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::index) return value(id);
    constexpr std::int64_t widest = 16;
    for (std::int64_t width = widest; width > 1; width /= 2) {
      if (!program_.counts_along(item.index, 2, width)) continue;
      column_ = "(first + behind)";
      const std::string joined = fmt::format("static_cast<{}>({} | v)", compute_type(item.dtype), index(item.index));
      column_ = "column";
      return width == widest ? joined : fmt::format("(n <= {} ? {} : {})", width, joined, value(id));
    }
    return value(id);
  }

  [[nodiscard]] bool hides(ItemId id) const {
    const Item& item = program_.at(id);
    if (item.kind != Item::Kind::literal || !graph::is_floating(item.dtype)) return false;
    return graph::element(graph::scalar_of(item.dtype, item.bits), 0) <= kernel::hiding_logit;
  }

  /// Rows are combined in f32, and rounded to what the reduction's result is.
  [[nodiscard]] std::string total(const Item& item) const {
    const std::string text =
        fmt::format("totals[(row - first_row) * {} + {}]", problem_.row_reductions.size(), item.buffer.number - 1);
    return needs_widening(item.dtype) ? fmt::format("widen(narrow<{}>({}))", storage_type(item.dtype), text) : text;
  }

  /// Whether a result may lie where it is loaded from.
  [[nodiscard]] bool is_overwritten(const Item& item) const {
    return item.buffer.kind == Buffer::Kind::input && overwritten_.contains(item.buffer.number);
  }

  std::string load(ItemId id) {
    const Item& item = program_.at(id);
    if (item.buffer.kind == Buffer::Kind::scratch) return total(item);
    parameters_.insert(item.buffer.number);
    std::string text = wide_loads_.contains(id)
                           ? fmt::format("wide{}[v]", id)
                           : fmt::format("load_one<Cached::{}>(in{} + {})", is_overwritten(item) ? "plain" : "streamed",
                                         item.buffer.number, index(item.index));
    if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
    return item.guard < 0 ? text : fmt::format("{} ? {} : {}", value(item.guard), text, literal(item.dtype, 0));
  }

  const ContractionProblem& problem_;
  const bool with_seen_, keeps_;
  ScalarProgram program_;
  std::map<ItemId, int> gates_;       ///< sums by whose they are, where there are several
  std::vector<ItemId> totals_;        ///< of each reduction, what its own row is combined to
  std::set<int> overwritten_;         ///< parameters whose memory results may have (InPlace)
  ItemId carried_ = -1;               ///< what functions are given in the sum's place, once that is printed
  std::set<ItemId> kept_;             ///< of the function at hand: members that are the same for a batch
  std::set<int> parameters_;          ///< and what it reads
  bool in_run_ = false;               ///< of several columns, `v` behind a multiple of as many
  const char* column_ = "column";     ///< what a place's column is called
  std::map<ItemId, int> wide_loads_;  ///< of its `run`: loads of so many columns at once
};

}  // namespace

Result<ContractionEpilogues> print_epilogues(const ContractionProblem& problem, std::string_view name) {
  return EpiloguePrinter(problem, false).print(name);
}

Result<ContractionEpilogue> print_epilogue(const ContractionProblem& problem, std::string_view name, bool with_seen) {
  STITCH_ASSIGN(ContractionEpilogues made, EpiloguePrinter(problem, with_seen, true).print(name));
  return std::move(made.results.front());
}

Result<std::optional<ShownKeys>> print_shown_keys(const kernel::AttentionProblem& problem, kernel::LimitOf of) {
  return EpiloguePrinter(problem.scores, false).print_shown(problem, of);
}

}  // namespace stitch::codegen
