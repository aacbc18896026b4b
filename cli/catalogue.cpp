#include "cli/catalogue.h"

#include "cli/remote.h"
#include "client/http/connection.h"
#include "db/sqlite_store.h"
#include "graph/codec/codec.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/plans/plan_record.h"
#include "tuning/plans/record_summary.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

/// Every page of a listing.
template <class Fetch>
Result<json> every_page(const Fetch& fetch) {
  json items = json::array();
  db::Page page{.limit = 1000};
  do {
    const auto listing = fetch(page);
    if (!listing) return listing.error();
    for (const auto& item : listing->items) items.push_back(tuning::summarise(item));
    page.after = listing->next;
  } while (page.after != 0);
  return items;
}

Error unknown_listing(std::string_view what) {
  return make_error(ErrorKind::invalid_argument, "'{}': plans, fragments, devices, models or jobs can be listed", what);
}

class DatabaseCatalogue final : public Catalogue {
 public:
  explicit DatabaseCatalogue(std::unique_ptr<db::Store> store) : store_(std::move(store)) {}

  Result<json> list(std::string_view what) override {
    if (what == "plans") return every_page([&](const db::Page& page) { return store_->list_plans({}, page); });
    if (what == "fragments") return every_page([&](const db::Page& page) { return store_->list_fragments(page); });
    if (what == "models") return every_page([&](const db::Page& page) { return store_->list_workloads(page); });
    if (what == "jobs") return every_page([&](const db::Page& page) { return store_->list_jobs({}, page); });
    json items = json::array();
    if (what == "cost-models") {
      STITCH_ASSIGN(const auto models, store_->list_models());
      for (const db::CostModelRecord& model : models) items.push_back(tuning::summarise(model));
      return items;
    }
    if (what != "devices") return unknown_listing(what);
    STITCH_ASSIGN(const auto devices, store_->list_devices());
    for (const db::Device& device : devices) items.push_back(tuning::summarise(device));
    return items;
  }

  Result<json> cost_model_report() override { return tuning::cost_model_report(*store_); }

  Result<api::Plan> plan(const Hash128& id) override {
    STITCH_ASSIGN(const db::PlanRecord record, store_->get_plan(id));
    return tuning::plan_from_record(record);
  }

  Result<graph::Graph> fragment(const Hash128& key) override {
    STITCH_ASSIGN(const db::FragmentRecord record, store_->get_fragment(key));
    return graph::decode(record.graph, graph::Encoding::cbor);
  }

  Result<std::string> source(const api::Plan& plan, std::size_t launch) override {
    STITCH_ASSIGN(const db::PlanRecord record, store_->get_plan(plan.id));
    STITCH_ASSIGN(const db::Kernel kernel, store_->get_kernel(record.steps.at(launch).kernel));
    STITCH_ASSIGN(db::Artifact artifact, store_->get_artifact(kernel.source));
    return std::move(artifact.bytes);
  }

 private:
  std::unique_ptr<db::Store> store_;
};

class ServerCatalogue final : public Catalogue {
 public:
  explicit ServerCatalogue(std::unique_ptr<client::Connection> connection) : connection_(std::move(connection)) {}

  Result<json> list(std::string_view what) override {
    if (what != "plans" && what != "fragments" && what != "devices" && what != "models" && what != "jobs" &&
        what != "cost-models") {
      return unknown_listing(what);
    }
    const std::string paging = what == "devices" || what == "cost-models" ? "" : "?limit=1000&after=";
    json items = json::array();
    std::int64_t after = 0;
    do {
      STITCH_ASSIGN(const json page,
                    get(fmt::format("/v1/{}{}{}", what, paging, paging.empty() ? "" : std::to_string(after))));
      for (const json& item : page.value("items", json::array())) items.push_back(item);
      after = page.value("next", std::int64_t{0});
    } while (after != 0);
    return items;
  }

  Result<json> cost_model_report() override { return get("/v1/cost-models/report"); }

  Result<api::Plan> plan(const Hash128& id) override {
    STITCH_ASSIGN(const json document, get("/v1/plans/" + id.hex()));
    api::Plan plan;
    STITCH_TRY(api::read_document(document, plan));
    return plan;
  }

  Result<graph::Graph> fragment(const Hash128& key) override {
    STITCH_ASSIGN(const json document, get("/v1/fragments/" + key.hex()));
    return graph::decode(document.value("graph", json()).dump(), graph::Encoding::json);
  }

  Result<std::string> source(const api::Plan&, std::size_t) override {
    return make_error(ErrorKind::unsupported, "a server does not tell the sources of kernels: use --db");
  }

 private:
  Result<json> get(std::string target) {
    STITCH_ASSIGN(const client::HttpAnswer answer, connection_->call({.target = target}));
    if (answer.status != 200) return api::decode_error(answer.body, graph::Encoding::json).within(target);
    json document = json::parse(answer.body, nullptr, false);
    if (!document.is_object()) return make_error(ErrorKind::parse, "{}: the answer is no JSON object", target);
    return document;
  }

  std::unique_ptr<client::Connection> connection_;
};

}  // namespace

Result<std::unique_ptr<Catalogue>> open_database_catalogue(const std::filesystem::path& database, const Clock& clock) {
  db::SqliteOptions options;
  options.path = database;
  options.read_only = true;
  options.create = false;
  STITCH_ASSIGN(auto store, db::open_sqlite_store(options, clock));
  return std::unique_ptr<Catalogue>(std::make_unique<DatabaseCatalogue>(std::move(store)));
}

Result<std::unique_ptr<Catalogue>> open_server_catalogue(std::string_view address) {
  STITCH_ASSIGN(const client::ServerAddress server, client::parse_address(full_address(address)));
  STITCH_ASSIGN(auto connection, client::Connection::open(server, client::HttpCall().timeout_seconds));
  return std::unique_ptr<Catalogue>(std::make_unique<ServerCatalogue>(std::move(connection)));
}

}  // namespace stitch::cli
