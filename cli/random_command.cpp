#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/processors.h"
#include "cli/commands.h"
#include "cli/interruption.h"
#include "graph/print.h"
#include "lab/breadth/breadth_log.h"
#include "lab/breadth/random_plan.h"
#include "lab/breadth/shrinker.h"
#include "lab/products/product_check.h"

namespace stitch::cli {
namespace {

struct RandomOptions {
  std::int64_t count = 1000;
  std::int64_t from = 0;
  std::uint64_t seed = 1;
  int jobs = 0;
  int shrunk = 3;
  std::filesystem::path log;
  bool list = false;
  bool sources = false;
  bool json = false;
  bool quiet = false;
  bool products = false;
};

/// Cases that are run as one, at most: all of them for one device.
struct Piece {
  std::int64_t from, count;
};

std::vector<Piece> missing_pieces(const RandomOptions& options, const lab::BreadthLog& log) {
  std::vector<Piece> pieces;
  const std::int64_t end = options.from + options.count;
  for (std::int64_t at = options.from; at < end;) {
    const std::int64_t until = std::min(end, (at / lab::cases_per_device + 1) * lab::cases_per_device);
    if (!log.has(at)) pieces.push_back({at, until - at});
    at = until;
  }
  return pieces;
}

/// Runs what the log lacks. Error: that of the first thread that cannot write it.
Status run_pieces(const codegen::Nvrtc& nvrtc, const RandomOptions& options, const std::stop_token& stop,
                  lab::BreadthLog& log) {
  const std::vector<Piece> pieces = missing_pieces(options, log);
  const bool display = !options.quiet && isatty(STDERR_FILENO) != 0;
  const auto check = options.products ? lab::check_product_range : lab::check_range;
  std::atomic<std::size_t> next = 0, done = 0;
  std::mutex failing;
  Status failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < pieces.size() && !stop.stop_requested(); i = next++) {
      const Status written = log.add(pieces[i].from, check(nvrtc, options.seed, pieces[i].from, pieces[i].count));
      const std::lock_guard lock(failing);
      if (!written) {
        failure = written;
        return;
      }
      if (display) std::fprintf(stderr, "\r\033[K%zu of %zu pieces", ++done, pieces.size());
    }
  };
  const int wanted = options.jobs > 0 ? options.jobs : usable_processors();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < wanted; ++i) threads.emplace_back(work);
  }
  if (display) std::fprintf(stderr, "\r\033[K");
  return failure;
}

void print_counts(const char* title, const std::map<std::string, std::int64_t>& counts) {
  std::printf("%s\n", title);
  for (const auto& [name, count] : counts) std::printf("  %8lld %s\n", static_cast<long long>(count), name.c_str());
}

void print_report(const lab::BreadthReport& report, const RandomOptions& options) {
  for (const auto& [number, why] : report.failures)
    std::printf("wrong  %lld: %s\n", static_cast<long long>(number), why.c_str());
  if (!report.refusals.empty()) print_counts("refused:", report.refusals);
  if (options.list) {
    print_counts("kernels with:", report.features);
    print_counts("operators in kernels:", report.operators);
  }
  const double share =
      report.elements == 0 ? 0 : 100.0 * static_cast<double>(report.compared) / static_cast<double>(report.elements);
  std::printf(
      "seed %llu: %lld graphs, %lld kernels: %lld right, %lld refused, %zu wrong; %.1f %% of %lld elements were "
      "compared\n",
      static_cast<unsigned long long>(options.seed), static_cast<long long>(report.graphs),
      static_cast<long long>(report.kernels), static_cast<long long>(report.right),
      static_cast<long long>(report.refused), report.failures.size(), share, static_cast<long long>(report.elements));
}

/// The first failures, each as small as it gets.
void print_shrunk(const codegen::Nvrtc& nvrtc, const lab::BreadthReport& report, const RandomOptions& options,
                  const std::stop_token& stop) {
  const auto check = [&](std::span<const lab::BreadthCase> cases) { return lab::check_cases(nvrtc, cases); };
  int left = options.shrunk;
  for (const auto& [number, why] : report.failures) {
    if (left-- <= 0 || stop.stop_requested()) break;
    const lab::ShrunkCase found = lab::shrink(check, lab::breadth_case(options.seed, number), stop);
    std::printf("%lld, in %d steps, for %s, seed %llu: %s\n%s", static_cast<long long>(number), found.steps,
                found.smallest.device.name.c_str(), static_cast<unsigned long long>(found.smallest.seed),
                found.verdict.why.c_str(), graph::to_text(found.smallest.graph).c_str());
    if (!options.sources) continue;
    const lab::BreadthCase& drawn = found.smallest;
    const Result<lab::RandomPlan> plan = lab::random_plan(drawn.graph, drawn.device, drawn.seed, "kernel");
    if (!plan) continue;
    std::printf("%s", graph::to_text(plan->fragment).c_str());
    for (const codegen::GeneratedKernel& kernel : plan->kernels)
      std::printf("// %lld blocks of %d threads\n%s\n", static_cast<long long>(kernel.blocks), kernel.threads,
                  kernel.source.c_str());
  }
}

Result<ExitCode> run_random(const RandomOptions& options) {
  const Interruption interruption;
  STITCH_ASSIGN(const auto nvrtc, codegen::Nvrtc::load());
  STITCH_ASSIGN(const auto log,
                lab::BreadthLog::open(options.log, options.seed, options.products ? "products" : "graphs"));
  STITCH_TRY(run_pieces(*nvrtc, options, interruption.token(), *log));
  const lab::BreadthReport& report = log->total();
  if (options.json) {
    nlohmann::ordered_json document = {{"seed", options.seed}};
    document.update(to_document(report));
    std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    print_report(report, options);
    if (!options.products) print_shrunk(*nvrtc, report, options, interruption.token());
  }
  if (interruption.token().stop_requested()) return ExitCode::interrupted;
  return report.failures.empty() ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_random_conformance(CLI::App& conformance, ExitCode& code) {
  auto options = std::make_shared<RandomOptions>();
  CLI::App* command = conformance.add_subcommand(
      "random", "Run random graphs, partitions and schedules on the emulated device against the reference");
  command->add_option("--count", options->count, "graphs")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--from", options->from, "number of the first one")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "what all of them follow from")->capture_default_str();
  command->add_option("--jobs", options->jobs, "threads; 0: one per hardware thread")->capture_default_str();
  command->add_option("--log", options->log, "keep what was done in this file, and go on where it ends");
  command->add_option("--shrink", options->shrunk, "how many wrong graphs are made small and printed")
      ->capture_default_str();
  command->add_flag(
      "--products", options->products,
      "products of matrices, convolutions and attentions instead, each for sm_80, sm_89 and sm_90a: three "
      "numbers a product");
  command->add_flag("--list", options->list, "count operators, and what schedules have");
  command->add_flag("--sources", options->sources, "print the kernels of the graphs that were made small");
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_flag("--quiet", options->quiet, "no progress display");
  command->callback([options, &code] {
    const Result<ExitCode> result = run_random(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
