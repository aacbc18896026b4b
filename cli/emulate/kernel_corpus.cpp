#include "cli/emulate/kernel_corpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/gzip.h"
#include "graph/codec/codec_constant.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t most_corpus_bytes = std::int64_t{1} << 30;

emulator::Dim3 dimensions_of(const json& sizes) {
  emulator::Dim3 dimensions;
  std::uint32_t* parts[] = {&dimensions.x, &dimensions.y, &dimensions.z};
  for (std::size_t i = 0; i < sizes.size() && i < 3; ++i) *parts[i] = sizes[i].get<std::uint32_t>();
  return dimensions;
}

Result<Expectation> expectation_from(const json& document) {
  Expectation expected;
  expected.argument = document.at("argument").get<std::string>();
  const auto type = document.at("type").get<std::string>();
  const auto dtype = graph::dtype_from_name(type);
  if (!dtype) return make_error(ErrorKind::invalid_argument, "'{}' is no element type", type);
  expected.dtype = *dtype;
  expected.stride = document.value("stride", 1);
  expected.relative = document.value("relative", 0.0);
  expected.absolute = document.value("absolute", 0.0);
  const auto bytes = graph::from_base64(document.at("values").get_ref<const std::string&>());
  if (!bytes) return make_error(ErrorKind::invalid_argument, "the values of '{}' are no base64", expected.argument);
  expected.values.resize(bytes->size());
  std::ranges::transform(*bytes, expected.values.begin(), [](char c) { return static_cast<std::byte>(c); });
  return expected;
}

Result<KernelCorpus::Entry> entry_from(const json& document, const json& modules, const FileSystem& files) {
  KernelCorpus::Entry entry;
  KernelCase& kernel = entry.kernel;
  kernel.name = document.at("name").get<std::string>();
  kernel.ptx = modules.at(document.at("module").get<std::string>()).get<std::string>();
  kernel.entry = document.value("entry", "");
  kernel.config.grid = dimensions_of(document.at("grid"));
  kernel.config.block = dimensions_of(document.at("block"));
  if (document.contains("cluster")) kernel.config.cluster = dimensions_of(document["cluster"]);
  kernel.config.dynamic_shared_bytes = document.value("shared", 0);
  for (const json& text : document.at("arguments")) {
    STITCH_ASSIGN(KernelArgument argument,
                  parse_argument(text.get_ref<const std::string&>(), kernel.arguments.size(), files));
    kernel.arguments.push_back(std::move(argument));
  }
  for (const json& expected : document.at("expect")) {
    STITCH_ASSIGN(Expectation expectation, expectation_from(expected));
    kernel.expectations.push_back(std::move(expectation));
  }
  entry.reference = document.value("reference", "");
  entry.findings = document.value("findings", std::vector<std::string>{});
  entry.why = document.value("why", "");
  return entry;
}

Result<KernelCorpus> corpus_from(const json& document, const FileSystem& files) {
  KernelCorpus corpus;
  corpus.maker = document.at("maker").get<std::string>();
  corpus.origin = document.at("origin").get<std::string>();
  corpus.licence = document.at("licence").get<std::string>();
  for (const json& kernel : document.at("kernels")) {
    Result<KernelCorpus::Entry> entry = entry_from(kernel, document.at("modules"), files);
    if (!entry) return entry.error().within(fmt::format("kernel {}", kernel.value("name", "?")));
    corpus.entries.push_back(std::move(*entry));
  }
  return corpus;
}

/// Detectors that went off, in the order of their names.
std::set<std::string> detectors_of(const emulator::LaunchReport& report) {
  std::set<std::string> names;
  for (const emulator::Finding& finding : report.findings) names.emplace(to_string(finding.detector));
  return names;
}

/// Why the kernel is not right; empty: it is.
std::string failure_of(const KernelCorpus::Entry& entry, const ExecutedKernel& executed) {
  for (const Comparison& one : executed.comparisons) {
    if (one.wrong == 0) continue;
    return fmt::format("wrong: {} of {} elements of '{}': {}", one.wrong, one.compared, one.argument, one.first_wrong);
  }
  if (executed.comparisons.empty()) return "nothing is expected of it";
  for (const emulator::Finding& finding : executed.report.findings) {
    const auto known = std::ranges::find(entry.findings, to_string(finding.detector));
    if (known == entry.findings.end()) return fmt::format("finding: {}", to_text(finding));
  }
  const std::set<std::string> seen = detectors_of(executed.report);
  for (const std::string& known : entry.findings) {
    if (!seen.contains(known)) return fmt::format("it no longer sets off {}, which it is known for", known);
  }
  return executed.report.completed ? "" : "it did not end";
}

CorpusRow run_entry(const KernelCorpus& corpus, const KernelCorpus::Entry& entry) {
  CorpusRow row;
  row.maker = corpus.maker;
  row.name = entry.kernel.name;
  row.reference = entry.reference;
  row.why = entry.why;
  const Result<ExecutedKernel> executed = execute(entry.kernel);
  if (!executed) {
    row.failure = executed.error().message;
    return row;
  }
  row.failure = failure_of(entry, *executed);
  row.counters = executed->report.counters;
  row.findings = fmt::format("{}", fmt::join(detectors_of(executed->report), ", "));
  for (const Comparison& one : executed->comparisons) row.compared += one.compared;
  return row;
}

}  // namespace

Result<KernelCorpus> read_corpus(const std::filesystem::path& path, const FileSystem& files) {
  STITCH_ASSIGN(std::string text, files.read(path));
  if (is_gzip(text)) {
    Result<std::string> unpacked = gunzip(text, most_corpus_bytes);
    if (!unpacked) return unpacked.error().within(path.string());
    text = std::move(*unpacked);
  }
  try {
    Result<KernelCorpus> corpus = corpus_from(json::parse(text), files);
    if (!corpus) return corpus.error().within(path.string());
    return corpus;
  } catch (const json::exception& error) {
    return make_error(ErrorKind::parse, "{} is no corpus of kernels: {}", path.string(), error.what());
  }
}

std::vector<CorpusRow> run_corpus(const KernelCorpus& corpus, const std::string& filter,
                                  const std::function<void(const CorpusRow&)>& progress) {
  std::vector<CorpusRow> rows;
  for (const KernelCorpus::Entry& entry : corpus.entries) {
    if (entry.kernel.name.find(filter) == std::string::npos) continue;
    rows.push_back(run_entry(corpus, entry));
    progress(rows.back());
  }
  return rows;
}

std::string corpus_page(const std::vector<KernelCorpus>& corpora, const std::vector<CorpusRow>& rows) {
  const auto right = std::ranges::count(rows, std::string(), &CorpusRow::failure);
  std::string page = fmt::format(
      "# Kernels of other makers\n\n{} kernels that tools of others compiled, as PTX, run on the emulated device "
      "([emulator.md](emulator.md)); {} are right. Written by\n\n    stitch emulate --corpus "
      "tests/data/foreign/*.json.gz "
      "--table docs/foreign-kernels.md\n\nwhich `ctest -R ForeignKernels` repeats. "
      "[tests/data/foreign](../tests/data/foreign/README.md) says where they come from, how their inputs are made and "
      "how "
      "results are compared. Instructions are warp instructions of the whole launch; findings are those that a kernel "
      "is known for, with the reason below.\n\n| maker | kernels | origin | licence |\n|---|---|---|---|\n",
      rows.size(), right);
  for (const KernelCorpus& corpus : corpora) {
    page += fmt::format("| {} | {} | {} | {} |\n", corpus.maker,
                        std::ranges::count(rows, corpus.maker, &CorpusRow::maker), corpus.origin, corpus.licence);
  }
  page +=
      "\n| kernel | maker | instructions | compared | against | result | findings |\n|---|---|---|---|---|---|---|\n";
  std::map<std::string, std::vector<std::string>> reasons;
  for (const CorpusRow& row : rows) {
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", row.name, row.maker, row.counters.total().warps,
                        row.compared, row.reference, row.failure.empty() ? "right" : row.failure,
                        row.findings.empty() ? "–" : row.findings);
    if (!row.why.empty()) reasons[row.why].push_back(row.name);
  }
  if (!reasons.empty()) page += "\n## Known findings\n";
  for (const auto& [why, names] : reasons) page += fmt::format("* {}: {}\n", fmt::join(names, ", "), why);
  return page;
}

}  // namespace stitch::cli
