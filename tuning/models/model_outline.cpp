#include "tuning/models/model_outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::Value;
using Part = ModelOutline::Part;

/// Adds the parts of one region, then what flows between them.
class RegionOutline {
 public:
  RegionOutline(const graph::RegionSite& site, ModelOutline& outline)
      : graph_(site.graph), outline_(outline), region_(static_cast<int>(outline.regions.size())) {
    outline.regions.push_back(site.path);
  }

  void add(const graph::CutGraph& cut, const std::vector<std::size_t>& entries) {
    for (std::size_t f = 0; f < cut.fragments.size(); ++f) {
      const graph::FragmentSite& fragment = cut.fragments[f];
      add_site(part_of(Part::Kind::fragment, entries[f], ""), fragment.arguments, fragment.results);
    }
    for (const graph::LibraryCall& call : cut.calls) {
      std::vector<Value> writes = call.results();
      writes.push_back({call.root, 0});
      for (const NodeId id : call.epilogue) writes.push_back({id, 0});
      add_site(part_of(Part::Kind::call, 0, call.description), call.operands, writes);
    }
    for (const NodeId id : cut.others) {
      const graph::Node& node = graph_.node(id);
      std::vector<Value> writes;
      for (int r = 0; r < std::ssize(node.results); ++r) writes.push_back({id, r});
      add_site(part_of(Part::Kind::other, 0, text_of(node)), node.operands, writes);
    }
    for (std::size_t s = 0; s < sites_.size(); ++s) add_flows(s);
    for (const auto& [ends, flow] : flows_) outline_.flows.push_back(flow);
  }

 private:
  /// One place where a part stands.
  struct Site {
    int part = 0;
    std::vector<Value> reads;
    int depth = 0;  ///< 0: not known yet
  };

  static std::string text_of(const graph::Node& node) {
    if (node.op == Op::opaque) return node.as<graph::OpaqueAttributes>().target;
    std::string text(graph::to_string(node.op));
    if (node.op == Op::loop) {
      const std::int64_t turns = node.as<graph::LoopAttributes>().trip_count;
      text += turns < 0 ? " of unknown length" : fmt::format(" of {} turns", turns);
    }
    return text;
  }

  /// The part of that kind, which stands at one more place.
  int part_of(Part::Kind kind, std::size_t entry, const std::string& text) {
    const auto [found, is_new] = known_.try_emplace({kind, entry, text}, static_cast<int>(outline_.parts.size()));
    if (is_new) outline_.parts.push_back({kind, region_, entry, text, 0});
    ++outline_.parts[found->second].sites;
    return found->second;
  }

  void add_site(int part, const std::vector<Value>& reads, const std::vector<Value>& writes) {
    for (const Value value : writes) writer_.emplace(value, static_cast<int>(sites_.size()));
    sites_.push_back({part, reads});
  }

  /// Who writes a value: looks through the views that each reader makes for itself. -1: nobody, it comes from outside.
  [[nodiscard]] int writer_of(Value value) const {
    while (true) {
      if (const auto found = writer_.find(value); found != writer_.end()) return found->second;
      const graph::Node& node = graph_.node(value.node);
      const bool is_view = graph::info(node.op).category == graph::OpCategory::layout || node.op == Op::convert;
      if (!is_view || node.operands.empty()) return -1;
      value = node.operands[0];
    }
  }

  /// Number of sites on the longest way to the site's results, itself included.
  int depth_of(std::size_t number) {
    Site& site = sites_[number];
    if (site.depth > 0) return site.depth;
    site.depth = 1;  // a call that reads a part of what it computes does not wait for itself
    int before = 0;
    for (const Value value : site.reads) {
      if (const int writer = writer_of(value); writer >= 0) before = std::max(before, depth_of(writer));
    }
    site.depth = before + 1;
    return site.depth;
  }

  void add_flows(std::size_t reader) {
    const Site& site = sites_[reader];
    const int latest = depth_of(reader) - 1;
    for (const Value value : site.reads) {
      const int writer = writer_of(value);
      if (writer < 0) continue;
      const std::pair<int, int> ends = {sites_[writer].part, site.part};
      const graph::TensorType& type = graph_.type(value);
      const auto [found, is_new] = flows_.try_emplace(ends, ModelOutline::Flow{ends.first, ends.second, type});
      ModelOutline::Flow& flow = found->second;
      ++flow.values;
      flow.is_uniform = flow.is_uniform && flow.type == type;
      flow.is_latest = flow.is_latest || depth_of(writer) == latest;
    }
  }

  const Graph& graph_;
  ModelOutline& outline_;
  const int region_;
  std::map<std::tuple<Part::Kind, std::size_t, std::string>, int> known_;
  std::vector<Site> sites_;
  std::map<Value, int> writer_;  ///< the site that leaves a value in memory
  std::map<std::pair<int, int>, ModelOutline::Flow> flows_;
};

}  // namespace

void add_region(const graph::RegionSite& site, const graph::CutGraph& cut, const std::vector<std::size_t>& entries,
                ModelOutline& outline) {
  RegionOutline(site, outline).add(cut, entries);
}

}  // namespace stitch::tuning
