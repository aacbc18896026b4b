#include "cli/lock/lock_check.h"

#include <fmt/ranges.h>

#include <map>

#include "client/why.h"
#include "tuning/plans/plan_record.h"

namespace stitch::cli {
namespace {

class Database final : public PlanHolder {
 public:
  explicit Database(const db::Store& store) : store_(store) {}

  Result<Served> served(const Hash128& fragment, const api::PlanTarget& target) override {
    STITCH_ASSIGN(const auto found, store_.served_plan({fragment, tuning::to_record(target)}));
    return Served{true, found ? std::optional(found->id) : std::nullopt};
  }
  Result<api::Plan> plan(const Hash128& id) override {
    STITCH_ASSIGN(const db::PlanRecord record, store_.get_plan(id));
    return tuning::plan_from_record(record);
  }
  Status check_artifact(const Sha256& hash) override {
    STITCH_TRY(store_.get_artifact(hash));
    return {};
  }

 private:
  const db::Store& store_;
};

class Server final : public PlanHolder {
 public:
  explicit Server(client::Client& server) : server_(server) {}

  Result<Served> served(const Hash128& fragment, const api::PlanTarget& target) override {
    const Result<graph::Graph> graph = server_.fragment(fragment);
    if (!graph && graph.error().kind == ErrorKind::not_found) return Served{true, {}};
    if (!graph) return graph.error();
    STITCH_ASSIGN(const client::StoredPlan found, client::why(server_, *graph));
    if (found.target != target) return Served{false, {}};
    return Served{true, found.plan};
  }
  Result<api::Plan> plan(const Hash128& id) override { return server_.plan(id); }
  Status check_artifact(const Sha256& hash) override {
    STITCH_TRY(server_.artifact(hash));
    return {};
  }

 private:
  client::Client& server_;
};

bool is_of_its_contents(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::corrupt;
}

std::string text_of(const std::optional<Hash128>& plan) {
  return plan ? fmt::format("plan {}", plan->hex()) : std::string("no plan");
}

std::string text_of(const std::vector<Sha256>& code) {
  std::vector<std::string> names;
  for (const Sha256& hash : code) names.push_back(hash.hex());
  return fmt::to_string(fmt::join(names, " "));
}

/// Looks at one program after the other.
class Checker {
 public:
  explicit Checker(PlanHolder& holder) : holder_(holder) {}

  Status check(const api::LockedProgram& program) {
    ++report_.programs;
    for (const api::LockedFragment& fragment : program.fragments) {
      ++report_.fragments;
      STITCH_TRY(check_served(fragment, program.target));
      if (!fragment.plan) continue;
      STITCH_TRY(check_plan(fragment));
      for (const Sha256& hash : fragment.code) STITCH_TRY(check_artifact(fragment, hash));
    }
    return {};
  }
  [[nodiscard]] LockReport report() && { return std::move(report_); }

 private:
  void fault(const api::LockedFragment& fragment, std::string text) {
    report_.faults.push_back({fragment.line, fmt::format("fragment {}: {}", fragment.key.hex(), text)});
  }

  Status check_served(const api::LockedFragment& fragment, const api::PlanTarget& target) {
    STITCH_ASSIGN(const PlanHolder::Served served, holder_.served(fragment.key, target));
    if (!served.is_known) {
      report_.unknown_target =
          fmt::format("{} {} {} {}", target.device, target.architecture, target.toolkit, target.version);
    } else if (served.plan != fragment.plan) {
      fault(fragment, fmt::format("{} is locked, {} is served", text_of(fragment.plan), text_of(served.plan)));
    }
    return {};
  }

  Status check_plan(const api::LockedFragment& fragment) {
    const Result<api::Plan> plan = holder_.plan(*fragment.plan);
    if (!plan && !is_of_its_contents(plan.error())) return plan.error();
    if (!plan) {
      const bool missing = plan.error().kind == ErrorKind::not_found;
      fault(fragment, fmt::format("{} {}", text_of(fragment.plan),
                                  missing ? "is missing" : "is damaged: " + plan.error().message));
    } else if (plan->fragment != fragment.key) {
      fault(fragment, fmt::format("{} is one of fragment {}", text_of(fragment.plan), plan->fragment.hex()));
    } else if (const std::vector<Sha256> code = api::code_of(*plan); code != fragment.code) {
      fault(fragment, fmt::format("{} has code {}, the lock has {}", text_of(fragment.plan), text_of(code),
                                  text_of(fragment.code)));
    }
    return {};
  }

  /// Each once.
  Status check_artifact(const api::LockedFragment& fragment, const Sha256& hash) {
    auto known = artifacts_.find(hash);
    if (known == artifacts_.end()) {
      const Status there = holder_.check_artifact(hash);
      if (!there && !is_of_its_contents(there.error())) return there;
      const std::string_view what = there.ok()                                   ? ""
                                    : there.error().kind == ErrorKind::not_found ? "is missing"
                                                                                 : "is damaged";
      known = artifacts_.emplace(hash, what).first;
      ++report_.artifacts;
    }
    if (!known->second.empty())
      fault(fragment, fmt::format("artifact {} of {} {}", hash.hex(), text_of(fragment.plan), known->second));
    return {};
  }

  PlanHolder& holder_;
  LockReport report_;
  std::map<Sha256, std::string_view> artifacts_;  ///< what is wrong with them
};

}  // namespace

std::unique_ptr<PlanHolder> holder_of(const db::Store& store) { return std::make_unique<Database>(store); }
std::unique_ptr<PlanHolder> holder_of(client::Client& server) { return std::make_unique<Server>(server); }

Result<LockReport> check_plans(const std::vector<api::LockedProgram>& locked, PlanHolder& holder) {
  Checker checker(holder);
  for (const api::LockedProgram& program : locked) STITCH_TRY(checker.check(program));
  return std::move(checker).report();
}

}  // namespace stitch::cli
