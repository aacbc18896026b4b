#include <cstdio>

#include "cli/commands.h"
#include "lab/spaces/pipeline_model.h"
#include "lab/spaces/recording_search.h"
#include "lab/spaces/space_file.h"
#include "lab/spaces/space_search.h"

namespace stitch::cli {
namespace {

struct SearchOptions {
  std::filesystem::path space, transfer;
  std::string strategy = "model";
  bool blind = false;
  bool pipeline = false;
  bool json = false;
  lab::SpaceSearchOptions search;
};

template <class Report>
Result<ExitCode> print(const Result<Report>& report, const SearchOptions& options) {
  if (!report) return report.error().within(options.space.string());
  std::printf("%s\n", options.json ? lab::to_json(*report).c_str() : lab::to_table(*report).c_str());
  return ExitCode::success;
}

/// Schedules of our own kernels.
Result<ExitCode> search_schedules(const std::string& bytes, const FileSystem& files, const SearchOptions& options) {
  if (options.pipeline) {
    return make_error(ErrorKind::invalid_argument, "--pipeline is for spaces of parameters, {} is a recording",
                      options.space.string());
  }
  if (options.blind && !options.transfer.empty()) {
    return make_error(ErrorKind::invalid_argument,
                      "--blind and --transfer: a recording's neighbour corrects predictions, which --blind leaves out");
  }
  const auto recording = profiler::decode_recording(bytes);
  if (!recording) return recording.error().within(options.space.string());
  lab::BeforeSearch before;
  before.predictions = !options.blind;
  profiler::Recording neighbour;
  if (!options.transfer.empty()) {
    STITCH_ASSIGN(neighbour, profiler::read_recording(files, options.transfer));
    before.neighbour = &neighbour;
  }
  return print(lab::search_recording(*recording, before, options.search), options);
}

/// Parameters of other tuners' kernels.
Result<ExitCode> search_parameters(const std::string& bytes, const FileSystem& files, const SearchOptions& options) {
  if (options.blind) {
    return make_error(ErrorKind::invalid_argument, "--blind is for recordings, {} is a space of parameters",
                      options.space.string());
  }
  const auto recorded = lab::decode_recorded_space(bytes);
  if (!recorded) return recorded.error().within(options.space.string());
  std::optional<search::TransferPrior> prior;
  if (options.pipeline) {
    auto made = lab::pipeline_prior(*recorded);
    if (!made) return made.error().within(options.space.string());
    prior = *std::move(made);
  }
  if (!options.transfer.empty()) {
    STITCH_ASSIGN(const auto neighbour, lab::read_recorded_space(files, options.transfer));
    auto made = lab::prior_of(*recorded, neighbour);
    if (!made) return made.error().within(options.space.string());
    prior = *std::move(made);
  }
  return print(lab::search_space(*recorded, prior ? &*prior : nullptr, options.search), options);
}

Result<ExitCode> search(const SearchOptions& options) {
  const RealFileSystem files;
  STITCH_ASSIGN(const std::string bytes, files.read(options.space));
  return profiler::is_recording(bytes) ? search_schedules(bytes, files, options)
                                       : search_parameters(bytes, files, options);
}

}  // namespace

void add_search_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<SearchOptions>();
  CLI::App* command =
      app.add_subcommand("search", "Search recorded candidates, and say how close to their optimum one gets");
  command->add_option("space", options->space, "recording of `stitch record`, Kernel Tuner cache file or T4 results")
      ->required();
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
  command->add_flag("--blind", options->blind, "of a recording: search without what was predicted");
  command
      ->add_flag("--pipeline", options->pipeline,
                 "begin with what the analytical pipeline model says of a gemm's or a convolution's parameters")
      ->excludes("--transfer");
  command->add_flag("--stop", options->search.stop, "end a search when no optimistic bound is worth a trial any more");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    options->search.search.random = options->strategy == "random";
    const auto done = search(*options);
    code = done ? *done : report(done.error(), options->json);
  });
}

}  // namespace stitch::cli
