#include "tuning/models/model_fragments.h"

#include <map>
#include <set>
#include <utility>

#include "graph/canonical.h"
#include "graph/simplify.h"

namespace stitch::tuning {

using graph::Op;

Result<ModelFragments> cut_model(import::Imported imported, const Tuner& tuner, const std::stop_token& stop) {
  return cut_model(
      std::move(imported), [&](const graph::Graph& loop) { return tuner.runs_in_one_kernel(loop, stop); }, stop);
}

Result<ModelFragments> cut_model(import::Imported imported, const std::function<bool(const graph::Graph&)>& whole_loop,
                                 const std::stop_token& stop) {
  ModelFragments model;
  model.operators = graph::operator_count(imported.graph);
  model.boundaries = std::move(imported.boundaries);
  STITCH_TRY(graph::simplify(imported.graph, {.stop = stop}));
  const graph::Constraints constraints = imported.graph.constraints;  // bodies of loops are under them as well
  std::map<Hash128, std::size_t> known;
  Status status;
  std::set<std::pair<const graph::Graph*, graph::NodeId>> whole;
  const auto enters = [&](const graph::Graph& graph, graph::NodeId id) { return !whole.contains({&graph, id}); };
  const auto visit = [&](const graph::RegionSite& site) {
    if (site.occurrences == 0 || !status) return;
    graph::CutOptions options;
    options.carried = site.is_loop_body;
    options.whole_loop = whole_loop;
    options.constraints = constraints;
    if (site.path.empty()) options.donations = imported.donations;
    const graph::CutGraph cut = graph::cut(site.graph, options);
    if (site.path.empty()) model.donations = cut.donations;
    for (const graph::NodeId id : cut.loops) whole.emplace(&site.graph, id);
    model.library_calls += site.occurrences * std::ssize(cut.calls);
    for (const graph::NodeId id : cut.others) {
      const Op op = site.graph.node(id).op;
      if (op == Op::loop || op == Op::conditional) continue;
      model.library_calls += site.occurrences;
      model.opaque += site.occurrences;
    }
    std::vector<std::size_t> entries;
    for (const graph::FragmentSite& fragment : cut.fragments) {
      if (stop.stop_requested()) {
        status = make_error(ErrorKind::cancelled, "stopped while the model was cut");
        return;
      }
      Result<graph::CanonicalForm> form = graph::canonicalise(fragment.graph);
      const std::string place =
          fmt::format("{}level {}", site.path.empty() ? "" : site.path.substr(1) + ", ", fragment.level);
      if (!form) {
        status = form.error().within(place);
        return;
      }
      const auto [entry, added] = known.emplace(form->key, model.entries.size());
      if (added) model.entries.push_back({form->key, form->family_key, std::move(form->graph), 0, place});
      model.entries[entry->second].occurrences += site.occurrences;
      entries.push_back(entry->second);
    }
    add_region(site, cut, entries, model.outline);
  };
  graph::for_each_region(imported.graph, visit, enters);
  if (!status) return status.error();
  // Once it fired, what was said of loops says nothing.
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while the model was cut");
  return model;
}

}  // namespace stitch::tuning
