#include "cli/emulate_kernel.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "cli/emulate/kernel_case.h"
#include "cli/emulate/kernel_corpus.h"
#include "graph/literal.h"

namespace stitch::cli {
namespace {

emulator::Dim3 dim3_of(const std::vector<std::uint32_t>& sizes) {
  emulator::Dim3 dimensions;
  if (!sizes.empty()) dimensions.x = sizes[0];
  if (sizes.size() > 1) dimensions.y = sizes[1];
  if (sizes.size() > 2) dimensions.z = sizes[2];
  return dimensions;
}

/// NAME=FILE.npy of --write and --expect.
Result<std::pair<std::string, std::filesystem::path>> split_named_file(const std::string& text, const char* option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return make_error(ErrorKind::invalid_argument, "{} {}: expected NAME=FILE.npy", option, text);
  }
  return std::pair(text.substr(0, equals), std::filesystem::path(text.substr(equals + 1)));
}

Result<Expectation> read_expectation(const std::string& text, const EmulateKernelOptions& options,
                                     const FileSystem& files) {
  STITCH_ASSIGN(const auto named, split_named_file(text, "--expect"));
  STITCH_ASSIGN(const std::string bytes, files.read(named.second));
  const Result<NpyArray> array = parse_npy(bytes);
  if (!array) return array.error().within(named.second.string());
  Expectation expected;
  expected.argument = named.first;
  STITCH_ASSIGN(expected.dtype, dtype_of_npy(array->type));
  expected.relative = options.relative;
  expected.absolute = options.absolute;
  const auto* data = reinterpret_cast<const std::byte*>(array->data.data());
  expected.values.assign(data, data + array->data.size());
  return expected;
}

Result<KernelCase> read_case(const EmulateKernelOptions& options, const FileSystem& files) {
  KernelCase kernel;
  STITCH_ASSIGN(kernel.ptx, files.read(options.ptx));
  kernel.name = options.ptx.filename().string();
  kernel.entry = options.entry;
  kernel.config.grid = dim3_of(options.grid);
  kernel.config.block = dim3_of(options.block);
  kernel.config.cluster = dim3_of(options.cluster);
  kernel.config.dynamic_shared_bytes = options.shared_bytes;
  for (const std::string& text : options.arguments) {
    STITCH_ASSIGN(KernelArgument argument, parse_argument(text, kernel.arguments.size(), files));
    for (const KernelArgument& other : kernel.arguments) {
      if (other.name != argument.name) continue;
      return make_error(ErrorKind::invalid_argument, "two arguments are named '{}'", argument.name);
    }
    kernel.arguments.push_back(std::move(argument));
  }
  for (const std::string& text : options.expectations) {
    STITCH_ASSIGN(Expectation expected, read_expectation(text, options, files));
    kernel.expectations.push_back(std::move(expected));
  }
  return kernel;
}

Status write_results(const EmulateKernelOptions& options, const KernelCase& kernel, const ExecutedKernel& executed,
                     FileSystem& files) {
  for (const std::string& text : options.writes) {
    STITCH_ASSIGN(const auto named, split_named_file(text, "--write"));
    STITCH_ASSIGN(const std::vector<std::byte> bytes, executed.contents(named.first));
    const auto argument = std::ranges::find(kernel.arguments, named.first, &KernelArgument::name);
    NpyArray array;
    array.type = npy_type_of(argument->dtype);
    array.shape = argument->shape;
    array.data.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    STITCH_TRY(files.publish(named.second, encode_npy(array)));
  }
  return {};
}

nlohmann::ordered_json traffic_document(const emulator::GlobalTraffic& traffic) {
  return {{"requests", traffic.requests},
          {"sectors", traffic.sectors},
          {"unique_sectors", traffic.unique_sectors},
          {"l2_sectors", traffic.l2_sectors}};
}

nlohmann::ordered_json counters_document(const emulator::Counters& counters) {
  nlohmann::ordered_json instructions;
  for (std::size_t i = 0; i < emulator::instruction_class_count; ++i) {
    const auto kind = static_cast<emulator::InstructionClass>(i);
    const emulator::InstructionCount& count = counters.of(kind);
    if (count.warps != 0) instructions[std::string(to_string(kind))] = {{"warps", count.warps}, {"lanes", count.lanes}};
  }
  nlohmann::ordered_json document = {{"instructions", std::move(instructions)},
                                     {"global_loads", traffic_document(counters.global_loads)},
                                     {"global_stores", traffic_document(counters.global_stores)}};
  for (const emulator::NamedCounter& counter : emulator::named_counters()) {
    document[std::string(counter.name)] = counters.*counter.value;
  }
  return document;
}

void print_as_json(const ExecutedKernel& executed) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const emulator::Finding& finding : executed.report.findings) {
    findings.push_back({{"detector", to_string(finding.detector)},
                        {"message", finding.message},
                        {"ptx_line", finding.place.ptx_line},
                        {"source", finding.place.source_file},
                        {"source_line", finding.place.source_line},
                        {"count", finding.count},
                        {"text", to_text(finding)}});
  }
  nlohmann::ordered_json comparisons = nlohmann::ordered_json::array();
  for (const Comparison& one : executed.comparisons) {
    comparisons.push_back({{"argument", one.argument},
                           {"compared", one.compared},
                           {"wrong", one.wrong},
                           {"first_wrong", one.first_wrong}});
  }
  const nlohmann::ordered_json document = {{"right", executed.right()},
                                           {"completed", executed.report.completed},
                                           {"findings", std::move(findings)},
                                           {"comparisons", std::move(comparisons)},
                                           {"counters", counters_document(executed.report.counters)}};
  std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_as_text(const ExecutedKernel& executed) {
  for (const emulator::Finding& finding : executed.report.findings) std::puts(to_text(finding).c_str());
  if (!executed.report.completed) std::puts("the kernel did not end");
  for (const Comparison& one : executed.comparisons) {
    std::puts(one.wrong == 0 ? fmt::format("{}: {} elements as expected", one.argument, one.compared).c_str()
                             : fmt::format("{}: {} of {} elements wrong, {}", one.argument, one.wrong, one.compared,
                                           one.first_wrong)
                                   .c_str());
  }
  if (executed.report.clean()) std::puts("no findings");
  std::fputs(to_text(executed.report.counters).c_str(), stdout);
  std::fputs(to_text(executed.report.buffers).c_str(), stdout);
}

Result<ExitCode> emulate_corpora(const EmulateKernelOptions& options, FileSystem& files) {
  std::vector<KernelCorpus> corpora;
  std::vector<CorpusRow> rows;
  const auto tell = [&](const CorpusRow& row) {
    if (options.json) return;
    std::puts(fmt::format("{:<8} {} {}", row.failure.empty() ? "right" : "wrong", row.name, row.failure).c_str());
    std::fflush(stdout);
  };
  for (const std::filesystem::path& path : options.corpora) {
    STITCH_ASSIGN(KernelCorpus corpus, read_corpus(path, files));
    std::ranges::move(run_corpus(corpus, options.filter, tell), std::back_inserter(rows));
    corpora.push_back(std::move(corpus));
  }
  const auto right = std::ranges::count(rows, std::string(), &CorpusRow::failure);
  if (options.json) {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (const CorpusRow& row : rows) {
      kernels.push_back({{"kernel", row.name},
                         {"maker", row.maker},
                         {"right", row.failure.empty()},
                         {"why", row.failure},
                         {"findings", row.findings},
                         {"compared", row.compared},
                         {"instructions", row.counters.total().warps}});
    }
    const nlohmann::ordered_json document = {{"right", right}, {"of", rows.size()}, {"kernels", std::move(kernels)}};
    std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%lld of %zu right\n", static_cast<long long>(right), rows.size());
  }
  if (!options.table.empty()) STITCH_TRY(files.publish(options.table, corpus_page(corpora, rows)));
  return static_cast<std::size_t>(right) == rows.size() && !rows.empty() ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_emulate_kernel_options(CLI::App& command, EmulateKernelOptions& options) {
  command.add_option("ptx", options.ptx, "file of PTX");
  command.add_option("--entry", options.entry, "kernel; may be left out where the file has one");
  command.add_option("--grid", options.grid, "blocks, X[,Y[,Z]]")->delimiter(',')->expected(1, 3);
  command.add_option("--block", options.block, "threads, X[,Y[,Z]]")->delimiter(',')->expected(1, 3);
  command.add_option("--cluster", options.cluster, "blocks of a cluster, X[,Y[,Z]]")->delimiter(',')->expected(1, 3);
  command.add_option("--shared", options.shared_bytes, "bytes of dynamic shared memory");
  command
      .add_option("--arg", options.arguments,
                  "[NAME=]x.npy, out:f32[64], zero:f32[64], random:f32[64]:seed=1, i32=5, bytes=HEX, &NAME+BYTES, "
                  "null; once for each parameter, in order")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--write", options.writes, "NAME=FILE.npy: what the buffer holds afterwards")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--expect", options.expectations, "NAME=FILE.npy: what it must hold")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--tolerance", options.relative, "of --expect: relative to what is expected")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--absolute-tolerance", options.absolute, "of --expect, added to it")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--threads", options.threads, "host threads; 0: one per processor that may be used")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--most-instructions", options.instruction_budget, "warp instructions after which it is ended")
      ->capture_default_str();
  command.add_option("--corpus", options.corpora, "run the kernels of these files (tests/data/foreign)");
  command.add_option("--filter", options.filter, "of a corpus only kernels whose name contains this");
  command.add_option("--table", options.table, "write the corpora's results to this Markdown file");
  command.add_flag("--json", options.json, "print one JSON object");
}

bool names_kernel(const EmulateKernelOptions& options) { return !options.ptx.empty() || !options.corpora.empty(); }

Result<ExitCode> emulate_kernel(const EmulateKernelOptions& options) {
  RealFileSystem files;
  if (!options.corpora.empty()) return emulate_corpora(options, files);
  STITCH_ASSIGN(const KernelCase kernel, read_case(options, files));
  emulator::LaunchOptions launching;
  launching.host_threads = options.threads;
  launching.instruction_budget = options.instruction_budget;
  Result<ExecutedKernel> executed = execute(kernel, launching);
  if (!executed) return executed.error().within(kernel.name);
  STITCH_TRY(write_results(options, kernel, *executed, files));
  if (options.json) {
    print_as_json(*executed);
  } else {
    print_as_text(*executed);
  }
  return executed->right() ? ExitCode::success : ExitCode::failure;
}

}  // namespace stitch::cli
