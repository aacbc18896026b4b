#include "tuning/plans/fault_report.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "graph/codec/codec.h"

namespace stitch::tuning {

using OrderedJson = nlohmann::ordered_json;

bool is_fault(db::Outcome outcome) {
  return outcome == db::Outcome::correctness || outcome == db::Outcome::runtime || outcome == db::Outcome::timeout;
}

Result<std::vector<db::Candidate>> faults_of(const db::Store& store, const Hash128& fragment) {
  std::vector<db::Candidate> faults;
  for (const db::Outcome outcome : {db::Outcome::correctness, db::Outcome::runtime, db::Outcome::timeout}) {
    STITCH_ASSIGN(auto listed, store.list_candidates({.fragment = fragment, .outcome = outcome}, {.limit = 64}));
    std::ranges::move(listed.items, std::back_inserter(faults));
  }
  return faults;
}

Result<std::string> fault_document(const db::FragmentRecord& fragment, std::span<const db::Candidate> candidates,
                                   bool served) {
  STITCH_ASSIGN(const graph::Graph graph, graph::decode(fragment.graph, graph::Encoding::cbor));
  OrderedJson document = {{"format", "stitch-fault"}, {"version", 1}, {"stitch", tool_version}};
  OrderedJson faults = OrderedJson::array();
  for (const db::Candidate& candidate : candidates) {
    if (!is_fault(candidate.outcome)) continue;
    if (faults.empty()) {
      document["target"] = candidate.key.target.device;
      document["architecture"] = candidate.key.target.architecture;
      document["toolkit"] = candidate.key.target.toolkit;
    }
    const OrderedJson schedule = OrderedJson::parse(candidate.schedule, nullptr, false);
    faults.push_back({{"schedule", schedule.is_discarded() ? OrderedJson(candidate.schedule) : schedule},
                      {"outcome", db::to_string(candidate.outcome)},
                      {"seed", candidate.seed},
                      {"detail", candidate.detail}});
  }
  document["fragment"] = fragment.key.hex();
  document["name"] = fragment.name;
  document["served"] = served ? "another plan" : "none";
  document["candidates"] = std::move(faults);
  document["graph"] = OrderedJson(graph::to_document(graph, graph::Encoding::json));
  return document.dump(1) + "\n";
}

}  // namespace stitch::tuning
