#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/processors.h"
#include "cli/commands.h"
#include "lab/differential/differential.h"

namespace stitch::cli {
namespace {

struct DifferentialOptions {
  std::vector<std::filesystem::path> files;
  std::string filter;
  int jobs = 0;
  bool json = false;
};

nlohmann::ordered_json counts_of(const std::vector<lab::DifferentialRow>& rows) {
  nlohmann::ordered_json counts = {{"equal", 0}, {"within", 0}, {"wrong", 0}, {"unsupported", 0}};
  for (const lab::DifferentialRow& row : rows) {
    nlohmann::ordered_json& count = counts[std::string(to_string(row.outcome))];
    count = count.get<std::int64_t>() + 1;
  }
  return counts;
}

void print_differences(const std::vector<lab::DifferentialRow>& rows, const nlohmann::ordered_json& counts) {
  for (const lab::DifferentialRow& row : rows) {
    if (row.why.empty()) continue;
    std::puts(fmt::format("{:<12} {} ({}): {}", to_string(row.outcome), row.name, row.graph, row.why).c_str());
  }
  for (const auto& [outcome, count] : counts.items()) {
    std::printf("%-12s %lld\n", outcome.c_str(), count.get<long long>());
  }
}

Result<ExitCode> differential(const DifferentialOptions& options) {
  const RealFileSystem files;
  const int threads = options.jobs > 0 ? options.jobs : usable_processors();
  std::vector<lab::DifferentialRow> rows;
  for (const std::filesystem::path& path : options.files) {
    STITCH_ASSIGN(const lab::DifferentialFile file, lab::read_differential_file(path, files));
    std::ranges::move(lab::run_differential_cases(file, options.filter, threads), std::back_inserter(rows));
  }
  nlohmann::ordered_json document = counts_of(rows);
  const bool sound = document["wrong"] == 0;
  if (options.json) {
    document["cases"] = nlohmann::ordered_json::array();
    for (const lab::DifferentialRow& row : rows) document["cases"].push_back(to_document(row));
    std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    print_differences(rows, document);
  }
  return sound ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_differential_conformance(CLI::App& conformance, ExitCode& code) {
  auto options = std::make_shared<DifferentialOptions>();
  CLI::App* command = conformance.add_subcommand(
      "differential", "Compare the reference evaluator with results that other implementations gave");
  command->add_option("file", options->files, "cases, as bench/differential writes them")->required();
  command->add_option("--filter", options->filter, "only cases whose name contains this");
  command->add_option("--jobs", options->jobs, "threads; 0: one per hardware thread")->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    const Result<ExitCode> result = differential(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
