#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/processors.h"
#include "cli/commands.h"
#include "client/emulated_executor.h"
#include "import/onnx/backend_case.h"
#include "lab/conformance/conformance.h"
#include "lab/conformance/line_worker.h"

namespace stitch::cli {
namespace {

struct ConformanceOptions {
  CommonOptions common;
  std::vector<std::filesystem::path> folders;
  std::string filter;
  std::filesystem::path table;
  bool evaluator_only = false;
  bool worker = false;
  double timeout = 120;
  int jobs = 0;
};

/// Answers folders on standard input with rows on standard output, until the input ends.
Result<ExitCode> serve_cases(const ConformanceOptions& options) {
  std::unique_ptr<Session> session;
  std::unique_ptr<client::EmulatedExecutor> executor;
  std::unique_ptr<lab::GraphRunner> runner;
  const RealFileSystem files;
  if (!options.evaluator_only) {
    STITCH_ASSIGN(session, Session::open(options.common));
    executor = std::make_unique<client::EmulatedExecutor>(session->devices->verifier());
  }
  for (std::string folder; std::getline(std::cin, folder);) {
    // A runner per case: a case must not depend on what was loaded for the ones before it.
    if (session) runner = std::make_unique<lab::GraphRunner>(*session->tuner, *executor);
    std::cout << to_document(lab::run_case(files, folder, runner.get())).dump() << std::endl;
  }
  return ExitCode::success;
}

ProcessOptions worker_process(const ConformanceOptions& options) {
  ProcessOptions process;
  process.arguments = {"/proc/self/exe",      "conformance", "--worker", "--device",
                       options.common.device, "--threads",   "1"};
  if (!options.common.target.empty()) {
    process.arguments.insert(process.arguments.end(), {"--target", options.common.target});
  }
  if (!options.common.architecture.empty()) {
    process.arguments.insert(process.arguments.end(), {"--arch", options.common.architecture});
  }
  if (!options.common.cache.empty()) {
    process.arguments.insert(process.arguments.end(), {"--cache", options.common.cache.string()});
  }
  if (options.evaluator_only) process.arguments.emplace_back("--evaluator-only");
  return process;
}

/// The row of a case that took its worker along: what the model says about itself is still known.
lab::CaseRow crashed_row(const std::filesystem::path& folder, const Error& error, bool evaluator_only) {
  lab::CaseRow row;
  row.name = folder.filename().string();
  const RealFileSystem files;
  if (const auto model = import::onnx::load_backend_model(files, folder)) row.operators = model->operators;
  row.evaluator = evaluator_only ? lab::Verdict::crashed : lab::Verdict::absent;
  row.device = evaluator_only ? lab::Verdict::absent : lab::Verdict::crashed;
  row.why = error.message;
  return row;
}

Result<std::vector<std::filesystem::path>> list_cases(const ConformanceOptions& options) {
  std::vector<std::filesystem::path> cases;
  for (const std::filesystem::path& folder : options.folders) {
    std::vector<std::filesystem::path> found = import::onnx::list_backend_cases(folder);
    if (std::filesystem::exists(folder / "model.onnx")) found.push_back(folder);
    if (found.empty()) {
      return make_error(ErrorKind::not_found, "{}: no folder in it holds a model.onnx", folder.string());
    }
    for (std::filesystem::path& one : found) {
      if (one.filename().string().find(options.filter) != std::string::npos) cases.push_back(std::move(one));
    }
  }
  return cases;
}

std::vector<lab::CaseRow> run_all(const std::vector<std::filesystem::path>& cases, const ConformanceOptions& options) {
  RealProcessLauncher launcher;
  std::vector<lab::CaseRow> rows(cases.size());
  std::atomic<std::size_t> next = 0, done = 0;
  std::mutex printing;
  const bool display = !options.common.quiet && isatty(STDERR_FILENO) != 0;
  const auto work = [&] {
    lab::LineWorker worker(launcher, worker_process(options));
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      const Result<std::string> answer = worker.ask(cases[i].string(), options.timeout);
      Result<lab::CaseRow> row = answer ? lab::row_from_json(*answer) : answer.error();
      rows[i] = row ? std::move(*row) : crashed_row(cases[i], row.error(), options.evaluator_only);
      const std::size_t ready = ++done;
      if (!display) continue;
      const std::lock_guard lock(printing);
      std::fprintf(stderr, "\r\033[K%zu of %zu  %s", ready, cases.size(), rows[i].name.c_str());
      if (ready == cases.size()) std::fprintf(stderr, "\r\033[K");
    }
  };
  const int wanted = options.jobs > 0 ? options.jobs : usable_processors();
  std::vector<std::jthread> threads;
  for (int i = 0; i < wanted; ++i) threads.emplace_back(work);
  threads.clear();
  return rows;
}

void print_rows(const std::vector<lab::CaseRow>& rows) {
  for (const lab::CaseRow& row : rows) {
    if (row.verdict() == lab::Verdict::right) continue;
    std::printf("%-12s %s: %s\n", std::string(lab::to_string(row.verdict())).c_str(), row.name.c_str(),
                row.why.c_str());
  }
  const nlohmann::ordered_json summary = to_document(rows);
  for (const char* verdict : {"right", "unsupported", "wrong", "crashed"}) {
    std::printf("%-12s %lld\n", verdict, summary[verdict].get<long long>());
  }
}

Result<ExitCode> conformance(const ConformanceOptions& options) {
  if (options.worker) return serve_cases(options);
  STITCH_ASSIGN(const auto cases, list_cases(options));
  const std::vector<lab::CaseRow> rows = run_all(cases, options);
  if (!options.table.empty()) STITCH_TRY(RealFileSystem().publish(options.table, lab::conformance_page(rows)));
  if (options.common.json) {
    std::printf("%s\n", to_document(rows).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    print_rows(rows);
  }
  const bool sound = std::all_of(rows.begin(), rows.end(), [](const lab::CaseRow& row) {
    return row.verdict() == lab::Verdict::right || row.verdict() == lab::Verdict::unsupported;
  });
  return sound ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_conformance_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ConformanceOptions>();
  CLI::App* command = app.add_subcommand(
      "conformance", "Run ONNX backend cases on the reference evaluator and, through the whole path, on the device");
  command->add_option("folder", options->folders, "folders of cases, or cases");
  command->add_flag("--evaluator-only", options->evaluator_only, "only on the reference evaluator");
  command->add_option("--filter", options->filter, "only cases whose name contains this");
  command->add_option("--table", options->table, "write the results by operator to this Markdown file");
  command->add_option("--timeout", options->timeout, "seconds for one case")->capture_default_str();
  command->add_option("--jobs", options->jobs, "cases at once; 0: one per hardware thread")->capture_default_str();
  command->add_flag("--worker", options->worker, "answer folders on standard input with rows; for internal use")
      ->group("");
  add_common_options(*command, options->common);
  add_random_conformance(*command, code);
  add_differential_conformance(*command, code);
  command->callback([options, command, &code] {
    if (!command->get_subcommands().empty()) return;  // it has run
    if (!options->worker && options->folders.empty()) throw CLI::RequiredError("folder");
    const Result<ExitCode> result = conformance(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
