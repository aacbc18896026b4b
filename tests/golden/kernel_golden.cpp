#include "tests/golden/kernel_golden.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "cli/explain/explanation.h"
#include "codegen/compile/nvrtc.h"
#include "emulator/counters.h"
#include "import/import.h"
#include "profiler/device/emulated_device.h"
#include "tuning/models/model_tuning.h"
#include "tuning/plans/tuner.h"

namespace stitch::golden {
namespace {

constexpr std::string_view toolkit_line = "toolkit ";

/// Bounds what a folder's test costs; large grids are run on a sample of their blocks.
profiler::VerifyOptions verify_options() {
  profiler::VerifyOptions options;
  options.work_budget = std::int64_t{1} << 21;
  options.total_budget = std::int64_t{1} << 24;
  return options;
}

std::string launch_text(const api::KernelLaunch& launch) {
  std::string text = fmt::format("{} blocks of {} threads", launch.blocks, launch.threads);
  if (launch.cluster > 1) text += fmt::format(" in clusters of {}", launch.cluster);
  if (launch.shared_bytes > 0) text += fmt::format(", {} bytes of dynamic shared memory", launch.shared_bytes);
  if (launch.cooperative) text += ", cooperative";
  return text;
}

std::string counts_text(const tuning::KernelReport& report) {
  const profiler::Verification& verification = *report.verification;
  std::string text =
      fmt::format("  {} registers, {} bytes of static shared memory, {} bytes spilled\n", report.resources.registers,
                  report.resources.shared_bytes, report.resources.spill_store_bytes);
  text += fmt::format("  {} of {} blocks run, {:.2f} % of the results compared\n", verification.blocks_run,
                      verification.blocks, 100 * verification.share);
  std::string_view lines;
  const std::string counters = verification.counters ? emulator::to_text(*verification.counters) : std::string();
  for (lines = counters; !lines.empty();) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1);
    text += fmt::format("  {}\n", lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  return text;
}

/// The three texts, fragment by fragment, kernel by kernel.
struct Listing {
  std::string source, explanation, counts;
  std::map<std::string, std::string> known;  ///< source → where it stands

  void add(std::size_t fragment, const tuning::TunedFragment& tuned) {
    for (std::size_t k = 0; k < tuned.kernels.size(); ++k) {
      const tuning::KernelReport& report = tuned.kernels[k];
      const std::string place = fmt::format("fragment {}, kernel {}", fragment, k);
      source += fmt::format("{}// {}: {}\n", source.empty() ? "" : "\n", place, launch_text(tuned.plan.launches[k]));
      const auto [first, added] = known.emplace(report.source, place);
      if (!added) {
        source += fmt::format("// the source of {}\n", first->second);
        continue;
      }
      source += "\n" + report.source;
      counts += fmt::format("\n{}\n{}", place, counts_text(report));
    }
  }
};

Status check_candidates(const tuning::TunedFragment& tuned) {
  for (const db::Candidate& candidate : tuned.trials.candidates) {
    if (candidate.outcome == db::Outcome::correct) continue;
    return make_error(ErrorKind::correctness, "{} is not right: {}", candidate.schedule, candidate.detail);
  }
  return {};
}

}  // namespace

Result<std::filesystem::path> graph_file(const std::filesystem::path& folder) {
  for (const char* name : {"graph.hlo.txt", "graph.json"}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return make_error(ErrorKind::not_found, "{}: neither graph.hlo.txt nor graph.json", folder.string());
}

Result<Golden> make_golden(const std::filesystem::path& graph, int threads) {
  STITCH_ASSIGN(auto imported, import::import_file(graph));
  // One thread of the emulator: what a block counts while it waits for others depends on how they interleave.
  profiler::EmulatedDevice device({.host_threads = 1});
  RealFileSystem files;
  const SystemClock clock;
  tuning::TunerOptions options;
  options.target = "h100";
  options.verify = verify_options();
  options.threads = threads;
  STITCH_ASSIGN(const auto tuner, tuning::Tuner::create(std::move(options), device, nullptr, files, clock));
  STITCH_ASSIGN(const tuning::ModelFragments model, tuning::cut_model(std::move(imported), *tuner));
  if (model.library_calls > 0 || !model.boundaries.empty()) {
    return make_error(ErrorKind::unsupported, "{}: a part of it is no kernel of ours", graph.string());
  }
  STITCH_ASSIGN(const auto nvrtc, codegen::Nvrtc::load());
  Listing listing;
  for (std::size_t f = 0; f < model.entries.size(); ++f) {
    const tuning::ModelFragments::Entry& entry = model.entries[f];
    const cli::FragmentExplanation explanation = cli::explain_fragment(entry, *tuner, false);
    if (!explanation.failure.empty()) return make_error(ErrorKind::constraint, "{}", explanation.failure);
    listing.explanation += (listing.explanation.empty() ? "" : "\n") + cli::to_text(explanation);
    STITCH_ASSIGN(const tuning::TunedFragment tuned, tuner->tune({.fragment = entry.graph, .name = entry.name}));
    STITCH_TRY(check_candidates(tuned));
    listing.add(f, tuned);
  }
  Golden golden;
  golden.toolkit = nvrtc->toolkit();
  golden.files = {{"kernel.cu", std::move(listing.source)},
                  {"explanation.txt", std::move(listing.explanation)},
                  {"counts.txt", fmt::format("{}{}\n{}", toolkit_line, golden.toolkit, listing.counts)}};
  return golden;
}

std::string toolkit_of(const std::string& counts) {
  if (!counts.starts_with(toolkit_line)) return {};
  return counts.substr(toolkit_line.size(), counts.find('\n') - toolkit_line.size());
}

std::string first_difference(const std::string& recorded, const std::string& made) {
  std::string_view old_text = recorded, new_text = made;
  for (int line = 1; !old_text.empty() || !new_text.empty(); ++line) {
    const auto next = [](std::string_view& text) {
      const std::string_view first = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), first.size() + 1));
      return first;
    };
    const bool old_ended = old_text.empty(), new_ended = new_text.empty();
    const std::string_view was = next(old_text), is = next(new_text);
    if (was == is && old_ended == new_ended) continue;
    return fmt::format("line {}\n  recorded: {}\n  made:     {}", line, old_ended ? "(end)" : was,
                       new_ended ? "(end)" : is);
  }
  return "no line differs";
}

}  // namespace stitch::golden
