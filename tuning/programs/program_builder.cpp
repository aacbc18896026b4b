#include "tuning/programs/program_builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "graph/calls/column_tiles.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/subgraph.h"
#include "tuning/programs/batch_halves.h"
#include "tuning/programs/eager_memory.h"
#include "tuning/programs/grouped_sums.h"
#include "tuning/programs/memory_plan.h"
#include "tuning/programs/region_pieces.h"
#include "tuning/programs/site_parts.h"
#include "tuning/programs/step_order.h"

namespace stitch::tuning {
namespace {

using api::ProgramRegion;
using api::ProgramStep;
using api::ProgramValue;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::TensorType;
using graph::Value;
using Storage = api::ProgramValue::Storage;

/// What the regions of one program share.
struct Tables {
  const ProgramOptions& options;
  api::Program program;
  std::map<Hash128, int> fragments;
  std::map<std::string, int> calls;
  /// What own_product said of a call: layers have equal ones, and it ranks schedules.
  std::map<std::pair<std::string, bool>, bool> ours;
};

/// Names and lines tell where something stands, and equal calls stand in many places.
Graph nameless(Graph graph) {
  const std::vector<Value> results(graph.results().begin(), graph.results().end());
  std::vector<Node> nodes = graph.release_nodes();
  for (Node& node : nodes) {
    node.name.clear();
    node.line = 0;
  }
  graph.name.clear();
  graph.adopt_nodes(std::move(nodes));
  graph.set_results(results);
  return graph;
}

/// Whether a kernel of ours computes a part of the graph.
bool is_ours(Tables& tables, const Graph& graph, Graph part, bool rest_apart) {
  if (!tables.options.own_product) return false;
  part = nameless(std::move(part));
  part.constraints = graph.constraints | tables.options.constraints;
  const auto [known, added] = tables.ours.try_emplace({graph::encode(part, graph::Encoding::cbor), rest_apart});
  if (added) known->second = tables.options.own_product(part, rest_apart);
  return known->second;
}

/// Which attentions and longer epilogues are single steps: those that kernels of ours compute.
graph::OwnCall own_calls(Tables& tables, const Graph& graph) {
  if (!tables.options.own_product) return {};
  return [&](const Graph& part, bool rest_apart) { return is_ours(tables, graph, part, rest_apart); };
}

class RegionBuilder {
 public:
  /// `apart`, `sums`: as of RegionPieces.
  RegionBuilder(Tables& tables, const Graph& graph, std::string name, std::int64_t occurrences, bool carried,
                const PartsApart& apart = {}, const SumsBefore& sums = {})
      : tables_(tables),
        pieces_(graph, carried, tables.options.whole_loop, tables.options.constraints, own_calls(tables, graph),
                tables.options.quick_layouts, apart, sums),
        graph_(graph),
        before_(sums.graph == nullptr ? graph : *sums.graph),
        occurrences_(occurrences),
        carried_(carried),
        apart_(apart.least_bytes > 0),
        // Of the model alone: what a step hands to a region's results is never what it hands to its parameters.
        results_(name.empty() && (graph.constraints | tables.options.constraints).in_place ? ResultMemory::kept
                                                                                           : ResultMemory::lent) {
    region_.name = std::move(name);
  }

  /// Gives the region's place in the program. The regions inside stand behind it.
  Result<int> build() {
    const int index = tables_.program.regions.size();
    tables_.program.regions.emplace_back();
    for (const NodeId id : graph_.parameters()) {
      const std::int64_t position = region_.parameters.size();
      const int value = add_value({graph_.node(id).type(), graph_.node(id).name, Storage::parameter, position});
      region_.parameters.push_back(value);
      memory_[{id, 0}] = value;
    }
    count_readers();
    find_in_place();
    std::vector<UnorderedStep> unordered;
    for (const RegionPiece& piece : pieces_.pieces()) {
      STITCH_ASSIGN(ProgramStep step, make_step(piece));
      unordered.push_back({{}, {}, scratch_bytes(step), piece.first, piece.last});
      for (const Value value : piece.reads) unordered.back().reads.push_back(number_of(pieces_.memory_of(value)));
      for (const Value value : primary_) unordered.back().writes.push_back(number_of(value));
      steps_.push_back(std::move(step));
    }
    give_results_memory();
    STITCH_TRY(put_in_order(unordered));
    plan_memory(region_, results_);
    if (apart_) find_peak();
    region_.eager_bytes = eager_peak_bytes(before_);
    tables_.program.regions[index] = std::move(region_);
    return index;
  }

  /// Of fragments of several parts that write what is alive where most is, the last ones first. After build.
  [[nodiscard]] const std::vector<int>& levels_at_peak() const { return levels_at_peak_; }
  /// Library's products over a batch that read what is alive there, the first ones first. After build.
  [[nodiscard]] const std::vector<NodeId>& products_at_peak() const { return products_at_peak_; }

 private:
  int add_value(ProgramValue value) {
    region_.values.push_back(std::move(value));
    return region_.values.size() - 1;
  }
  int add_scratch(std::int64_t bytes) {
    return bytes == 0 ? -1 : add_value({{graph::DType::u8, {bytes}}, "arena of regions", Storage::arena, 0});
  }

  /// The memory of what a piece reads.
  int memory(Value value) { return memory_for(pieces_.memory_of(value)); }
  int memory_for(Value value) {
    const auto known = memory_.find(value);
    if (known != memory_.end()) return known->second;
    if (const auto before = takes_over_.find(value); before != takes_over_.end())
      return memory_[value] = memory_for(before->second);
    return memory_[value] = add_value({graph_.type(value), graph_.node(value.node).name, Storage::arena, 0});
  }

  /// The memory of what a piece writes. What is written a second time (a result that is the same as another, or a
  /// parameter), or by a piece that reads it, is a copy with memory of its own.
  int memory_of_result(const RegionPiece& piece, std::size_t result) {
    const Value value = piece.writes[result];
    const bool copies = is_copy(piece, value, [&](Value read) { return pieces_.memory_of(read); });
    if (!copies && written_.insert(value).second && graph_.node(value.node).op != Op::parameter) {
      primary_.push_back(value);
      return memory_for(value);
    }
    const int copy = add_value({graph_.type(value), graph_.node(value.node).name, Storage::arena, 0});
    copies_.emplace(value, copy);
    return copy;
  }

  void count_readers() {
    for (const RegionPiece& piece : pieces_.pieces()) {
      for (const Value value : piece.reads) ++readers_[pieces_.memory_of(value)];
    }
    for (const Value value : graph_.results()) ++readers_[pieces_.memory_of(value)];
  }

  /// Whose memory is written in place: a parameter's by its update, and that of what a loop begins with by the loop,
  /// when nobody else reads it. Known before the first step is made, since readers may be made before writers.
  void find_in_place() {
    for (const RegionPiece& piece : pieces_.pieces()) {
      for (std::size_t r = 0; r < piece.writes.size(); ++r) {
        const Value value = piece.writes[r];
        if (graph_.node(value.node).op == Op::parameter) continue;
        if (const int updated = pieces_.updated_parameter(piece, r); updated >= 0) {
          takes_over_.emplace(value, Value{graph_.parameters()[updated], 0});
        } else if (is_given_to_loop(piece, r)) {
          takes_over_.emplace(value, pieces_.memory_of(piece.reads[r]));
        }
      }
    }
  }

  bool is_given_to_loop(const RegionPiece& piece, std::size_t result) {
    const auto* id = std::get_if<NodeId>(&piece.work);
    if (id == nullptr || graph_.node(*id).op != Op::loop) return false;
    Value begins = pieces_.memory_of(piece.reads[result]);
    if (readers_[begins] != 1) return false;
    for (auto before = takes_over_.find(begins); before != takes_over_.end(); before = takes_over_.find(begins))
      begins = before->second;
    return graph_.node(begins.node).op != Op::parameter;
  }

  // ---- steps -----------------------------------------------------------------------------------------------------

  Result<ProgramStep> make_step(const RegionPiece& piece) {
    ProgramStep step;
    primary_.clear();
    for (const Value value : piece.reads) step.parameters.push_back(memory(value));
    for (std::size_t r = 0; r < piece.writes.size(); ++r) step.results.push_back(memory_of_result(piece, r));
    Status status;
    if (const auto* const* site = std::get_if<const graph::FragmentSite*>(&piece.work)) {
      status = fill_fragment((*site)->graph, fmt::format("level {}", (*site)->level), step);
    } else if (const auto* const* call = std::get_if<const graph::LibraryCall*>(&piece.work)) {
      status = piece.computed > 0 ? fill_joined(piece, (*call)->description, step) : fill_call(piece, **call, step);
    } else if (const auto* calls = std::get_if<MergedCalls>(&piece.work)) {
      status =
          fill_joined(piece, fmt::format("{}, and {} more in one", (*calls)[0]->description, calls->size() - 1), step);
    } else if (const auto* both = std::get_if<ProductAndRows>(&piece.work)) {
      status =
          fill_joined(piece, fmt::format("{}, and what its rows are combined for", both->product->description), step);
    } else if (const auto* sum = std::get_if<SummedCalls>(&piece.work)) {
      status = fill_joined(piece,
                           fmt::format("{}, the sum of {}{}", sum->calls[0]->description, sum->calls.size(),
                                       sum->rows == nullptr ? "" : ", and what its rows are combined for"),
                           step);
    } else {
      status = fill_other(std::get<NodeId>(piece.work), step);
    }
    if (!status) return status.error();
    return step;
  }

  Status fill_fragment(const Graph& graph, std::string name, ProgramStep& step) {
    step.name = std::move(name);
    Result<graph::CanonicalForm> form = graph::canonicalise(graph);
    if (!form) return form.error().within(step.name);
    ProgramStep given = std::move(step);
    step = {given.name, {}, {}, 0, {}};
    for (const int from : form->parameter_order) step.parameters.push_back(given.parameters[from]);
    for (const int from : form->result_order) step.results.push_back(given.results[from]);
    const auto [entry, added] = tables_.fragments.emplace(form->key, tables_.program.fragments.size());
    if (added) tables_.program.fragments.push_back({form->key, std::move(form->graph), 0, {}, {}});
    tables_.program.fragments[entry->second].occurrences += occurrences_;
    step.work = api::FragmentStep{entry->second};
    return {};
  }

  Status fill_call(const RegionPiece& piece, const graph::LibraryCall& call, ProgramStep& step) {
    STITCH_ASSIGN(Graph part, graph::subgraph(graph_, piece.reads, piece.writes));
    part = nameless(std::move(part));
    if (is_ours(tables_, graph_, part, true)) {
      part.constraints = graph_.constraints | tables_.options.constraints;
      return fill_fragment(part, call.description, step);
    }
    if (!call.further.empty())
      return make_error(ErrorKind::internal, "'{}' has several results, and no kernel of ours", call.description);
    for (const Value value : piece.reads) step.bytes += graph_.type(value).bytes();
    step.bytes += graph_.type(call.result).bytes();
    step.name = call.description;
    const Node& root = graph_.node(call.root);
    const std::string accumulation(to_string(graph::info(root.type().dtype).accumulator));
    const auto [entry, added] =
        tables_.calls.emplace(graph::encode(part, graph::Encoding::cbor), tables_.program.calls.size());
    if (added) {
      tables_.program.calls.push_back(
          {std::string(to_string(root.op)), accumulation, call.description, std::move(part)});
    }
    step.work = api::LibraryStep{entry->second};
    return {};
  }

  /// A piece that is more than a call, as one kernel of ours.
  Status fill_joined(const RegionPiece& piece, std::string name, ProgramStep& step) {
    if (piece.computed > 0) name += ", what it multiplies computed while it is loaded";
    STITCH_ASSIGN(Graph part, graph::subgraph(graph_, piece.reads, piece.writes));
    part = nameless(std::move(part));
    part.constraints = graph_.constraints | tables_.options.constraints;
    return fill_fragment(part, std::move(name), step);
  }

  Status fill_other(NodeId id, ProgramStep& step) {
    const Node& node = graph_.node(id);
    step.name = node.name.empty() ? std::string(to_string(node.op)) : node.name;
    if (node.op == Op::loop) return fill_loop(id, step);
    if (node.op == Op::conditional) return fill_branch(id, step);
    for (const int value : step.parameters) step.bytes += region_.values[value].type.bytes();
    for (const int value : step.results) step.bytes += region_.values[value].type.bytes();
    const auto* opaque = std::get_if<graph::OpaqueAttributes>(&node.attributes);
    step.work = opaque != nullptr ? api::ForeignStep{opaque->target, opaque->config}
                                  : api::ForeignStep{std::string(to_string(node.op)), {}};
    return {};
  }

  Result<int> build_inside(NodeId id, std::size_t index, std::int64_t times, bool carried) {
    const Node& node = graph_.node(id);
    const std::string name = fmt::format("{}/{}.{}", region_.name, node.name.empty() ? "loop" : node.name, index);
    return RegionBuilder(tables_, *node.regions[index], name, occurrences_ * times, carried).build();
  }
  [[nodiscard]] const ProgramRegion& built(int region) const { return tables_.program.regions[region]; }

  Status fill_loop(NodeId id, ProgramStep& step) {
    api::LoopStep loop;
    loop.trip_count = graph_.node(id).as<graph::LoopAttributes>().trip_count;
    STITCH_ASSIGN(loop.body, build_inside(id, 0, loop.trip_count < 0 ? 1 : loop.trip_count, true));
    std::int64_t arena = built(loop.body).arena_bytes;
    if (loop.trip_count < 0) {
      STITCH_ASSIGN(loop.condition, build_inside(id, 1, 1, false));
      arena = std::max(arena, built(loop.condition).arena_bytes);
    }
    for (std::size_t r = 0; r < step.results.size(); ++r) {
      const bool in_place = built(loop.body).results[r] == built(loop.body).parameters[r];
      const TensorType& type = region_.values[step.results[r]].type;
      loop.spares.push_back(in_place ? -1 : add_value({type, step.name + ", by turns", Storage::arena, 0}));
    }
    loop.scratch = add_scratch(arena);
    step.work = std::move(loop);
    return {};
  }

  Status fill_branch(NodeId id, ProgramStep& step) {
    api::BranchStep branch;
    std::int64_t arena = 0;
    for (std::size_t b = 0; b < graph_.node(id).regions.size(); ++b) {
      STITCH_ASSIGN(const int region, build_inside(id, b, 1, false));
      branch.regions.push_back(region);
      arena = std::max(arena, built(region).arena_bytes);
    }
    branch.scratch = add_scratch(arena);
    step.work = std::move(branch);
    return {};
  }

  // ---- order and results -----------------------------------------------------------------------------------------

  /// What a step needs besides its parameters and results.
  [[nodiscard]] std::int64_t scratch_bytes(const ProgramStep& step) const {
    std::int64_t bytes = 0;
    const auto add = [&](int value) {
      if (value >= 0) bytes += api::arena_bytes_of(region_.values[value].type.bytes());
    };
    if (const auto* loop = std::get_if<api::LoopStep>(&step.work)) {
      for (const int spare : loop->spares) add(spare);
      add(loop->scratch);
    }
    if (const auto* branch = std::get_if<api::BranchStep>(&step.work)) add(branch->scratch);
    return bytes;
  }

  /// Values are numbered for the order by what they are, not by where they lie: whoever reads what was updated in place
  /// comes after the update.
  int number_of(Value value) {
    const auto [entry, added] = numbers_.emplace(value, numbers_.size());
    return entry->second;
  }

  /// The memory of a result of the region, which is the caller's.
  int claim_result(std::size_t r) {
    const Value value = graph_.results()[r];
    if (carried_) {
      const int lies = memory(value);
      if (lies == region_.parameters[r]) return lies;
    }
    int found = -1;
    if (const auto copy = copies_.find(value); copy != copies_.end()) {
      found = copy->second;
      copies_.erase(copy);
    } else if (const int lies = memory(value); region_.values[lies].storage == Storage::arena) {
      found = lies;
    }
    if (found < 0) {
      found = add_value({graph_.type(value), graph_.node(value.node).name, Storage::result, 0});
      late_copies_.push_back({"copy",
                              {memory(value)},
                              {found},
                              2 * graph_.type(value).bytes(),
                              api::CopyStep{graph_.type(value).bytes()}});
    }
    region_.values[found].storage = Storage::result;
    region_.values[found].place = r;
    region_.values[found].type = graph_.type(value);
    return found;
  }

  void give_results_memory() {
    for (std::size_t r = 0; r < graph_.results().size(); ++r) region_.results.push_back(claim_result(r));
  }

  Status put_in_order(const std::vector<UnorderedStep>& unordered) {
    std::vector<std::int64_t> bytes(numbers_.size(), 0);
    for (const auto& [value, number] : numbers_) {
      const auto lies = memory_.find(value);
      if (lies == memory_.end()) continue;
      // Results' memory is lent until they are written, as if they took theirs only then.
      const Storage storage = region_.values[lies->second].storage;
      if (storage == Storage::parameter || (storage == Storage::result && results_ == ResultMemory::kept)) continue;
      bytes[number] = api::arena_bytes_of(graph_.type(value).bytes());  // of what a loop takes over, one of the two
    }
    std::vector<int> kept;
    for (const Value result : graph_.results()) {
      if (const auto number = numbers_.find(pieces_.memory_of(result)); number != numbers_.end())
        kept.push_back(number->second);
    }
    const std::vector<std::vector<std::size_t>> orders = step_orders(unordered, bytes, kept);
    if (orders.empty() && !unordered.empty())
      return make_error(ErrorKind::internal, "the pieces of '{}' wait for each other", region_.name);
    // The order decides what results can lend their memory to, too.
    std::vector<ProgramStep> best = late_copies_;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const std::vector<std::size_t>& order : orders) {
      region_.steps.clear();
      for (const std::size_t s : order) region_.steps.push_back(steps_[s]);
      std::ranges::copy(late_copies_, std::back_inserter(region_.steps));
      const std::int64_t bytes_needed = least_arena_bytes(region_, results_);
      if (bytes_needed >= least) continue;
      least = bytes_needed;
      best = std::move(region_.steps);
    }
    region_.steps = std::move(best);
    return {};
  }

  void find_peak() {
    std::map<std::vector<int>, int> level_of;  // by what their steps write
    std::map<std::vector<int>, NodeId> product_of;
    for (std::size_t p = 0; p < pieces_.pieces().size(); ++p) {
      const auto* const* site = std::get_if<const graph::FragmentSite*>(&pieces_.pieces()[p].work);
      if (site != nullptr && parts_of(graph_, **site).size() > 1) level_of.emplace(steps_[p].results, (*site)->level);
      const auto* const* call = std::get_if<const graph::LibraryCall*>(&pieces_.pieces()[p].work);
      if (call != nullptr && std::holds_alternative<api::LibraryStep>(steps_[p].work) &&
          has_batch(graph_.node((*call)->root)))
        product_of.emplace(steps_[p].results, (*call)->root);
    }
    for (const std::size_t step : readers_of_peak(region_)) {
      const auto found = product_of.find(region_.steps[step].results);
      if (found != product_of.end()) products_at_peak_.push_back(found->second);
    }
    for (const std::size_t step : steps_of_peak(region_)) {
      const auto found = level_of.find(region_.steps[step].results);
      if (found != level_of.end()) levels_at_peak_.push_back(found->second);
    }
  }

  Tables& tables_;
  const RegionPieces pieces_;
  const Graph& graph_;
  const Graph& before_;  ///< where its sums are made in one step
  const std::int64_t occurrences_;
  const bool carried_;
  const bool apart_;  ///< somebody asks for what is at the peak
  const ResultMemory results_;
  std::vector<int> levels_at_peak_;
  std::vector<NodeId> products_at_peak_;
  ProgramRegion region_;
  std::vector<ProgramStep> steps_;  ///< per piece
  std::vector<ProgramStep> late_copies_;
  std::map<Value, int> memory_;
  std::map<Value, Value> takes_over_;  ///< values that lie in the memory of another one
  std::map<Value, int> readers_;       ///< how many pieces and results of the region read what lies there
  std::set<Value> written_;
  std::vector<Value> primary_;        ///< what the piece at hand writes for others to read: all but copies
  std::multimap<Value, int> copies_;  ///< memory of what was written again
  std::map<Value, int> numbers_;
};

std::vector<api::ProgramPort> ports(const ProgramRegion& region, const std::vector<int>& values) {
  std::vector<api::ProgramPort> list;
  for (const int value : values) list.push_back({region.values[value].name, region.values[value].type, {}, {}});
  return list;
}

/// What a region needs at once, results included.
std::int64_t memory_needed_by(const ProgramRegion& region) {
  std::int64_t bytes = region.arena_bytes;
  for (const int value : region.results) bytes += region.values[value].type.bytes();
  return bytes;
}

/// A model's graph, and, where kernels of ours multiply, its sums over rows in two steps.
class OuterGraph {
 public:
  static Result<std::unique_ptr<OuterGraph>> create(Graph graph, bool has_products) {
    std::optional<GroupedSums> sums;
    if (has_products) {
      STITCH_ASSIGN(sums, with_grouped_sums(graph));
      if (sums->groups.empty()) sums.reset();
    }
    return std::unique_ptr<OuterGraph>(new OuterGraph(std::move(graph), std::move(sums)));
  }

  /// As it was.
  [[nodiscard]] const Graph& before() const { return before_; }
  /// What is cut.
  [[nodiscard]] const Graph& graph() const { return sums_ ? sums_->graph : before_; }
  [[nodiscard]] SumsBefore sums() const { return sums_ ? SumsBefore{&*sums_, &before_} : SumsBefore{}; }
  /// Of what is cut, a node as it was before.
  [[nodiscard]] NodeId origin(NodeId id) const { return sums_ ? sums_->origin[id] : id; }

 private:
  OuterGraph(Graph graph, std::optional<GroupedSums> sums) : before_(std::move(graph)), sums_(std::move(sums)) {}

  const Graph before_;
  const std::optional<GroupedSums> sums_;
};

/// Where a program needs more memory than operators that run one at a time, parts of fragments are put apart: a cut
/// packs what is on one level, such as the weights of all layers, of which each is wanted at another time. Each part is
/// one more launch, so that it must pay. In the last resort a library's product over a batch (attention's, with the
/// softmax before it) is made in halves.
class ProgramParting {
 public:
  ProgramParting(Tables& tables, const OuterGraph& graph)
      : tables_(tables), graph_(graph), eager_(tables.program.regions[0].eager_bytes) {}

  Status part() {
    STITCH_TRY(part_fragments());
    return needed() <= eager() ? Status() : halve_products();
  }

 private:
  /// Of a graph that computes the same as one whose operators need `eager` bytes.
  ProgramParting(Tables& tables, const OuterGraph& graph, std::int64_t eager)
      : tables_(tables), graph_(graph), eager_(eager) {}

  Status part_fragments() {
    if (needed() <= eager()) return {};
    STITCH_TRY(part_everywhere());
    return needed() <= eager() ? Status() : part_at_peaks();
  }

  [[nodiscard]] std::int64_t needed() const { return memory_needed_by(tables_.program.regions[0]); }
  [[nodiscard]] std::int64_t eager() const { return eager_; }
  /// A twentieth less than before, or no more than eager.
  [[nodiscard]] bool pays(std::int64_t bytes, std::int64_t before) const {
    constexpr double least_saving = 0.05;
    return bytes <= eager() || static_cast<double>(bytes) <= (1 - least_saving) * static_cast<double>(before);
  }

  struct Parted {
    api::Program program;
    std::vector<int> levels_at_peak;  ///< of fragments that could be parted, the last ones first
    std::vector<NodeId> products_at_peak;
  };
  Result<Parted> build(const PartsApart& apart) {
    Tables tables{tables_.options, {}, {}, {}, tables_.ours};
    RegionBuilder builder(tables, graph_.graph(), "", 1, false, apart, graph_.sums());
    if (const Result<int> outermost = builder.build(); !outermost) return outermost.error();
    tables_.ours = std::move(tables.ours);
    return Parted{std::move(tables.program), builder.levels_at_peak(), builder.products_at_peak()};
  }

  /// Large parts, of all fragments.
  Status part_everywhere() {
    constexpr std::int64_t shares = 32, least_part = std::int64_t{1} << 20;
    STITCH_ASSIGN(Parted parted, build({std::max(least_part, needed() / shares), {}}));
    const std::int64_t bytes = memory_needed_by(parted.program.regions[0]);
    if (bytes < needed() && pays(bytes, needed())) tables_.program = std::move(parted.program);
    return {};
  }

  /// Small parts, of single fragments that leave something where most is alive: each that helps, until there is enough.
  Status part_at_peaks() {
    constexpr int most_tries = 12;
    constexpr std::int64_t shares = 1024, least_part = std::int64_t{64} << 10;
    PartsApart apart{std::max(least_part, needed() / shares), std::set<int>()};
    STITCH_ASSIGN(Parted best, build(apart));
    std::int64_t least = memory_needed_by(best.program.regions[0]);
    std::set<int> tried;
    for (int t = 0; t < most_tries && least > eager(); ++t) {
      const auto next = std::ranges::find_if(best.levels_at_peak, [&](int level) { return !tried.contains(level); });
      if (next == best.levels_at_peak.end()) break;
      tried.insert(*next);
      PartsApart further = apart;
      further.levels->insert(*next);
      STITCH_ASSIGN(Parted parted, build(further));
      const std::int64_t bytes = memory_needed_by(parted.program.regions[0]);
      if (bytes >= least) continue;
      least = bytes;
      best = std::move(parted);
      apart = std::move(further);
    }
    if (least < needed() && pays(least, needed())) tables_.program = std::move(best.program);
    return {};
  }

  /// One of the products that read what is alive where most is, in halves. Two more calls and what joins them cost more
  /// than a part of a fragment, so that nothing less than what eager needs will do.
  Status halve_products() {
    constexpr std::size_t most_tries = 2;
    constexpr double most_above = 1.25;  // what one operand does not make up for, and looking takes its time
    if (static_cast<double>(needed()) > most_above * static_cast<double>(eager())) return {};
    // With fragments apart other products may be at the peak; these are those of the program that there would be.
    STITCH_ASSIGN(const Parted as_is, build({std::numeric_limits<std::int64_t>::max(), {}}));
    for (std::size_t t = 0; t < std::min(most_tries, as_is.products_at_peak.size()); ++t) {
      STITCH_ASSIGN(Graph by_halves, halve_batch(graph_.before(), graph_.origin(as_is.products_at_peak[t])));
      STITCH_ASSIGN(const auto halved, OuterGraph::create(std::move(by_halves), bool(tables_.options.own_product)));
      Tables tables{tables_.options, {}, {}, {}, tables_.ours};
      if (const Result<int> outermost =
              RegionBuilder(tables, halved->graph(), "", 1, false, {}, halved->sums()).build();
          !outermost)
        return outermost.error();
      // At the peaks first: where nothing else is short of memory, no fragment has to be in parts.
      ProgramParting parting(tables, *halved, eager());
      STITCH_TRY(parting.part_at_peaks());
      STITCH_TRY(parting.part_fragments());
      tables_.ours = std::move(tables.ours);
      if (memory_needed_by(tables.program.regions[0]) > eager()) continue;
      tables_.program = std::move(tables.program);
      tables_.program.regions[0].eager_bytes = eager();
      return {};
    }
    return {};
  }

  Tables& tables_;
  const OuterGraph& graph_;
  const std::int64_t eager_;
};

}  // namespace

Result<api::Program> build_program(const graph::Graph& graph, const ProgramOptions& options) {
  Tables tables{options, {}, {}, {}, {}};
  std::optional<Graph> tiled;
  if (options.own_product) tiled = graph::tile_columns_of_heads(graph, own_calls(tables, graph));
  STITCH_ASSIGN(const auto outer, OuterGraph::create(tiled ? *std::move(tiled) : graph, bool(options.own_product)));
  const Result<int> outermost = RegionBuilder(tables, outer->graph(), "", 1, false, {}, outer->sums()).build();
  if (!outermost) return outermost.error();
  STITCH_TRY(ProgramParting(tables, *outer).part());
  api::Program& program = tables.program;
  program.parameters = ports(program.regions[0], program.regions[0].parameters);
  program.results = ports(program.regions[0], program.regions[0].results);
  program.id = identity_of(program);
  if (const Status sound = check_program(program); !sound)
    return make_error(ErrorKind::internal, "the program is not sound: {}", sound.error().message);
  return std::move(program);
}

}  // namespace stitch::tuning
