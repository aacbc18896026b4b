#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/protocol.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"

namespace stitch::cli {

/// What a database or a server holds, to look at. Documents have the fields of the API (docs/api.md); those of a
/// database leave provenance out.
class Catalogue {
 public:
  virtual ~Catalogue() = default;

  /// All entries of a listing: "plans", "fragments", "devices", "models" (what users brought), "jobs",
  /// "cost-models" (what was trained).
  virtual Result<nlohmann::json> list(std::string_view what) = 0;
  /// The cost models with their accuracies, as tuning::cost_model_report gives them.
  virtual Result<nlohmann::json> cost_model_report() = 0;
  virtual Result<api::Plan> plan(const Hash128& id) = 0;
  virtual Result<graph::Graph> fragment(const Hash128& key) = 0;
  /// Source of a plan's launch. Error: unsupported (a server hands out machine code, not source).
  virtual Result<std::string> source(const api::Plan& plan, std::size_t launch) = 0;
};

/// Opens a database read-only; `clock` must outlive the catalogue.
Result<std::unique_ptr<Catalogue>> open_database_catalogue(const std::filesystem::path& database, const Clock& clock);
/// `address`: as connect() takes it.
Result<std::unique_ptr<Catalogue>> open_server_catalogue(std::string_view address);

}  // namespace stitch::cli
