#include "cli/model_report.h"

#include <nlohmann/json.hpp>

namespace stitch::cli {

Result<tuning::ModelReport> model_report_from_json(std::string_view text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    tuning::ModelReport report;
    json.at("model").get_to(report.model);
    json.at("operators").get_to(report.operators);
    json.at("fragments").get_to(report.fragments);
    json.at("distinct_fragments").get_to(report.distinct_fragments);
    json.at("kernels").get_to(report.kernels);
    json.at("launches").get_to(report.launches);
    json.at("library_calls").get_to(report.library_calls);
    json.at("bytes").get_to(report.bytes);
    json.at("launches_unfused").get_to(report.launches_unfused);
    json.at("bytes_unfused").get_to(report.bytes_unfused);
    json.at("predicted_us").get_to(report.predicted_us);
    json.at("predicted_unfused_us").get_to(report.predicted_unfused_us);
    const nlohmann::json& seconds = json.at("seconds");
    seconds.at("import").get_to(report.seconds.import);
    seconds.at("plan").get_to(report.seconds.plan);
    seconds.at("codegen").get_to(report.seconds.codegen);
    seconds.at("verify").get_to(report.seconds.verify);
    report.seconds.measure = seconds.value("measure", 0.0);
    report.seconds.search = seconds.value("search", 0.0);
    if (const auto search = json.find("search"); search != json.end()) {
      search->at("trials").get_to(report.search.trials);
      search->at("failed").get_to(report.search.failed);
      search->at("kernels").get_to(report.search.kernels);
      search->at("settled").get_to(report.search.settled);
      search->at("improved").get_to(report.search.improved);
      search->at("saved_us").get_to(report.search.saved_us);
    }
    for (const nlohmann::json& boundary : json.at("boundaries")) {
      report.boundaries.emplace_back(boundary.at("operator"), boundary.at("count"));
    }
    json.at("verified").at("kernels").get_to(report.verified_kernels);
    json.at("verified").at("wrong").get_to(report.wrong_kernels);
    if (const auto failed = json.find("failed_candidates"); failed != json.end()) {
      for (const auto& [outcome, times] : failed->items())
        report.failed_candidates.emplace(outcome, times.get<std::int64_t>());
      json.at("wrong_candidates").get_to(report.wrong_candidates);
    }
    json.at("failures").get_to(report.failures);
    return report;
  } catch (const nlohmann::json::exception& error) {
    return make_error(ErrorKind::parse, "model report: {}", error.what());
  }
}

}  // namespace stitch::cli
