#include "codegen/contraction/computed_text.h"

#include <algorithm>

#include "codegen/contraction/element_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/shown_depth.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {
namespace {

using kernel::Index;
using kernel::Item;
using kernel::ItemId;

class ComputedPrinter {
 public:
  ComputedPrinter(Writer& out, const kernel::ComputedElement& element, const kernel::ContractionOperand& operand,
                  int run)
      : out_(out),
        program_(element.program),
        element_(element.element),
        dtype_(operand.dtype),
        axis_(kernel::copied_axis(operand)),
        run_(run),
        made_of_(program_.item_count(), false),
        address_of_(program_.item_count(), false) {
    find_items();
  }

  void print() {
    print_run();
    print_load();
    print_make();
  }

  /// Whether there is anything but zero at (row, k): what the condition is made of is loaded for itself.
  void print_shows(const kernel::ShownCondition& condition) {
    out_.open("__device__ __forceinline__ bool shows(int row, int k) const");
    print_at_once(kernel::needed_by(program_, condition.item), false);
    out_.line("return {}{};", condition.shows ? "" : "!", name(condition.item));
    out_.close();
  }

 private:
  /// What an element is made of, and what says where that lies.
  void find_items() {
    made_of_[element_] = true;
    for (ItemId id = element_; id >= 0; --id) {
      const Item& item = program_.at(id);
      if (!made_of_[id]) continue;
      for (const ItemId operand : item.operands) made_of_[operand] = true;
      if (item.kind != Item::Kind::load) continue;
      for (const ItemId looked_up : program_.items_of(item.index)) {
        const std::vector<bool> needed = kernel::needed_by(program_, looked_up);
        for (ItemId each = 0; each <= looked_up; ++each) address_of_[each] = address_of_[each] || needed[each];
      }
    }
  }

  /// Items one after the other, each load where it is used. `first`: of the place that a run begins at.
  void print_at_once(const std::vector<bool>& items, bool first) {
    for (ItemId id = 0; id < std::ssize(items); ++id) {
      const Item& item = program_.at(id);
      if (!items[id] || item.kind == Item::Kind::literal) continue;
      std::string text;
      if (item.kind == Item::Kind::load) {
        text = fmt::format("load_one<Cached::streamed>({})", place(item, first));
        if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
      } else {
        text = expression_of(id);
      }
      out_.line("const {} {} = {};", type_of(item), name(id), text);
    }
  }

  static std::string name(ItemId id) { return fmt::format("x{}", id); }
  [[nodiscard]] std::string_view along() const { return axis_ == 1 ? "row" : "k"; }
  [[nodiscard]] std::string_view parameters() const { return axis_ == 1 ? "int first, int k" : "int row, int first"; }
  /// Whether each element of a run has one of its own.
  [[nodiscard]] bool is_of_element(ItemId load) const { return kernel::differs_in_run(program_, load, axis_, run_); }

  void for_each_load(const std::function<void(ItemId, const Item&)>& visit) const {
    for (ItemId id = 0; id <= element_; ++id) {
      if (made_of_[id] && program_.at(id).kind == Item::Kind::load) visit(id, program_.at(id));
    }
  }

  void print_run() {
    out_.open("struct Run");
    for_each_load([&](ItemId id, const Item& item) {
      const std::string count = is_of_element(id) ? fmt::format("[{}]", run_) : "";
      out_.line("{} {}{};", storage_type(item.dtype), name(id), count);
    });
    out_.set_depth(1);
    out_.line("}};");
  }

  /// `first`: how the place is called that the run begins at.
  [[nodiscard]] std::string place(const Item& item, bool first) const {
    const std::array<std::string_view, 3> names = {"batch", first && axis_ == 1 ? "first" : "row",
                                                   first && axis_ == 2 ? "first" : "k"};
    return fmt::format("in{} + {}", item.buffer.number, index_of(program_, item.index, names, name));
  }

  void print_load() {
    out_.open("__device__ __forceinline__ void load(Run& run, {}) const", parameters());
    print_at_once(address_of_, true);
    for_each_load([&](ItemId id, const Item& item) {
      const int most = std::min(run_, kernel::widest_bytes / graph::byte_size(item.dtype));
      if (!is_of_element(id)) {
        out_.line("run.{} = load_one<Cached::streamed>({});", name(id), place(item, true));
      } else if (run_ > 1 && program_.counts_along(item.index, axis_, run_)) {
        // What no other row or depth is made of comes from afar, and is asked for here and nowhere else.
        const bool far = item.axes.contains(1) && item.axes.contains(2);
        out_.line("load_held<{}, Cached::{}>(run.{}, {});", most, far ? "ahead" : "streamed", name(id),
                  place(item, true));
      } else {
        out_.line("#pragma unroll");
        out_.open("for (int v = 0; v < {}; ++v)", run_);
        out_.line("const int {} = first + v;", along());
        out_.line("run.{}[v] = load_one<Cached::ahead>({});", name(id), place(item, false));
        out_.close();
      }
    });
    out_.close();
  }

  void print_make() {
    const std::string type = storage_type(dtype_);
    out_.open("__device__ __forceinline__ void make(const Run& run, {}, {} (&elements)[{}]) const", parameters(), type,
              run_);
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", run_);
    out_.line("const int {} = first + v;", along());
    for (ItemId id = 0; id <= element_; ++id) {
      const Item& item = program_.at(id);
      if (!made_of_[id] || item.kind == Item::Kind::literal) continue;
      out_.line("const {} {} = {};", type_of(item), name(id), expression_of(id));
    }
    const bool same = compute_type(dtype_) == type;
    out_.line("elements[v] = {}<{}>({});", same ? "static_cast" : "narrow", type, value(element_));
    out_.close(2);
  }

  [[nodiscard]] static std::string type_of(const Item& item) {
    return item.kind == Item::Kind::in_range ? "bool" : compute_type(item.dtype);
  }
  [[nodiscard]] std::string value(ItemId id) const {
    const Item& item = program_.at(id);
    return item.kind == Item::Kind::literal ? literal(item.dtype, item.bits) : name(id);
  }
  [[nodiscard]] std::string index(Index index) const {
    return index_of(program_, index, {"batch", "row", "k"}, [&](ItemId id) { return value(id); });
  }

  [[nodiscard]] std::string expression_of(ItemId id) const {
    const Item& item = program_.at(id);
    const bool loads = item.kind == Item::Kind::load;
    const std::string loaded = loads ? fmt::format("run.{}{}", name(id), is_of_element(id) ? "[v]" : "") : "";
    return item_text(
        program_, item, [&](Index each) { return index(each); }, loaded, [&](ItemId each) { return value(each); });
  }

  Writer& out_;
  const kernel::ScalarProgram& program_;
  const ItemId element_;
  const graph::DType dtype_;
  const int axis_;  ///< along which a run is
  const int run_;
  std::vector<bool> made_of_;     ///< by item
  std::vector<bool> address_of_;  ///< of loads that are looked up
};

}  // namespace

Status print_computed_operand(Writer& out, std::string_view name, const kernel::ContractionProblem& problem,
                              const kernel::ComputedOperand& computed, const TileText& tile) {
  const kernel::ContractionOperand& operand = computed.left ? problem.left : problem.right;
  STITCH_ASSIGN(const kernel::ComputedElement element, kernel::computed_element(problem, computed));
  out.open("struct {}", name);
  out.line("static constexpr int rows = {}, depth = {};", computed.left ? problem.rows : problem.columns,
           problem.contracted);
  out.line("static constexpr bool whole_rows = {}, whole_depth = {};", tile.whole_rows, tile.whole_depth);
  for (const int parameter : computed.reads) {
    const graph::NodeId node = problem.graph->parameters()[parameter];
    out.line("const {}* __restrict__ in{};", storage_type(problem.graph->node(node).type().dtype), parameter);
  }
  out.line("int batch;");
  out.line("__device__ static __forceinline__ bool covers(int, int) {{ return true; }}");
  ComputedPrinter printer(out, element, operand, tile.copy / graph::byte_size(operand.dtype));
  printer.print();
  if (&computed == kernel::shown_side(problem))
    printer.print_shows(*kernel::shown_condition(element.program, element.element));
  out.set_depth(0);
  out.line("}};");
  print_tile_type(out, name, operand, tile);
  return {};
}

std::string computed_members(const kernel::ComputedOperand& computed) {
  std::string members;
  for (const int parameter : computed.reads) members += fmt::format("in{}, ", parameter);
  return fmt::format("{{{}batch}}", members);
}

void print_held_tiles(Writer& out, const kernel::ContractionProblem& problem, int threads) {
  for (const kernel::ComputedOperand& computed : problem.computed) {
    const char* const side = computed.left ? "Left" : "Right";
    out.line("HeldTile<{0}Tile, {1}, {0}> {2}_held;", side, threads, computed.left ? "left" : "right");
  }
}

void print_walked_depth(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule) {
  const kernel::ComputedOperand& side = *kernel::shown_side(problem);
  out.line("const DepthTiles walked = shown_tiles<{}, {}, {}, {}, {}>({}, {}, shared);",
           kernel::shape_of(problem, schedule).threads, side.left ? schedule.block_rows : schedule.block_columns,
           schedule.block_depth, side.condition.rows, side.condition.depth, side.left ? "left" : "right",
           side.left ? "block_row" : "block_column");
  if (schedule.split == 1) {
    out.line("const int first_k = walked.first * {}, turns = walked.count;", schedule.block_depth);
    return;
  }
  out.line("const int each = (walked.count + {}) / {}, before = minimum(part * each, walked.count);",
           schedule.split - 1, schedule.split);
  out.line("const int first_k = (walked.first + before) * {}, turns = minimum(each, walked.count - before);",
           schedule.block_depth);
}

void print_staged_copy(Writer& out, const StagedCopy& copy, std::string_view place, std::string_view tile, int depth) {
  const char* const side = copy.left ? "left" : "right";
  const std::string from =
      fmt::format("{0}, {1}, first_k + {2} * {3}", side, copy.left ? "block_row" : "block_column", tile, depth);
  if (copy.load) out.line("{}_held.load({});", side, from);
  if (copy.store) out.line("{}_held.store({}, {});", side, place, from);
}

}  // namespace stitch::codegen
