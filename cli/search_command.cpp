#include <cstdio>

#include "cli/commands.h"
#include "cli/space_search.h"

namespace stitch::cli {
namespace {

struct SearchOptions {
  std::filesystem::path space, transfer;
  std::string strategy = "model";
  bool json = false;
  SpaceSearchOptions search;
};

Result<ExitCode> search(const SearchOptions& options) {
  const RealFileSystem files;
  STITCH_ASSIGN(const profiler::RecordedSpace recorded, profiler::read_recorded_space(files, options.space));
  std::optional<profiler::RecordedSpace> neighbour;
  if (!options.transfer.empty()) {
    STITCH_ASSIGN(neighbour, profiler::read_recorded_space(files, options.transfer));
  }
  const auto report = search_space(recorded, neighbour ? &*neighbour : nullptr, options.search);
  if (!report) return report.error().within(options.space.string());
  std::printf("%s\n", options.json ? to_json(*report).c_str() : to_table(*report).c_str());
  return ExitCode::success;
}

}  // namespace

void add_search_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<SearchOptions>();
  CLI::App* command =
      app.add_subcommand("search", "Search a recorded space of candidates, and say how close to its optimum one gets");
  command->add_option("space", options->space, "Kernel Tuner cache file or T4 results; may be gzipped")->required();
  command->add_option("--budget", options->search.budget, "trials; by default a fortieth of the space, at least 20")
      ->check(CLI::PositiveNumber);
  command->add_option("--seeds", options->search.seeds, "searches, with seeds from 0")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--transfer", options->transfer,
                      "the same kernel measured elsewhere: another GPU, another shape");
  command->add_option("--strategy", options->strategy, "model, or random for comparison")
      ->check(CLI::IsMember({"model", "random"}))
      ->capture_default_str();
  command->add_option("--batch", options->search.search.batch, "trials proposed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_flag("--stop", options->search.stop, "end a search when no optimistic bound is worth a trial any more");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    options->search.search.random = options->strategy == "random";
    const auto done = search(*options);
    code = done ? *done : report(done.error(), options->json);
  });
}

}  // namespace stitch::cli
