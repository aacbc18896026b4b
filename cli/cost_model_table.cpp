#include "cli/cost_model_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace stitch::cli {
namespace {

using nlohmann::json;

constexpr const char* head =
    "device     scorer                 family    kernels  cand.  spearman  kendall  recall 1/5/10     regret 1/5/10 %"
    "          worst %  trials\n";

double at(const json& quality, const char* table, const char* depth) { return quality.at(table).at(depth); }

}  // namespace

void CostModelTable::add(std::string_view device, std::string_view scorer, std::string_view family,
                         const json& quality) {
  const auto percent = [](double share) { return 100 * share; };
  rows_ += fmt::format(
      "{:<10} {:<22} {:<8}  {:>7} {:>6}  {:>8.3f} {:>8.3f}  {:.2f} {:.2f} {:.2f}  {:>8.2f} {:>8.2f} {:>8.2f}  {:>8.2f} "
      "{:>7.1f}\n",
      device, scorer, family, quality.at("groups").get<std::int64_t>(), quality.at("candidates").get<std::int64_t>(),
      quality.at("spearman").get<double>(), quality.at("kendall").get<double>(), at(quality, "recall", "1"),
      at(quality, "recall", "5"), at(quality, "recall", "10"), percent(at(quality, "regret", "1")),
      percent(at(quality, "regret", "5")), percent(at(quality, "regret", "10")),
      percent(quality.at("worst_regret").get<double>()), quality.at("trials_to_99").get<double>());
}

void CostModelTable::add_accuracy(std::string_view device, std::string_view scorer, const json& accuracy) {
  if (!accuracy.is_object() || !accuracy.contains("model")) {
    rows_ += fmt::format("{:<10} {:<22} too few kernels to hold any out: accuracy is not known\n", device, scorer);
    return;
  }
  add(device, scorer, "all", accuracy.at("model"));
  add(device, "  analytical, same", "all", accuracy.at("analytical"));
  for (const json& family : accuracy.at("families")) {
    const std::string name = family.at("family").get<std::string>().substr(0, 8);
    add(device, scorer, name, family.at("model"));
    add(device, "  analytical, same", name, family.at("analytical"));
  }
}

std::string CostModelTable::text() const {
  return rows_.empty() ? "no cost model, and nothing measured that one could be judged by\n" : head + rows_;
}

}  // namespace stitch::cli
