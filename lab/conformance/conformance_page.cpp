#include <algorithm>
#include <map>
#include <set>

#include "lab/conformance/conformance.h"

namespace stitch::lab {
namespace {

/// What a case is about: its operator, or the last one of several; for an `_expanded` case (the operator written out
/// as its function's body) the operator of the case that it expands.
std::map<std::string, std::string> subjects(const std::vector<CaseRow>& rows) {
  std::map<std::string, std::string> by_name;
  for (const CaseRow& row : rows) by_name[row.name] = row.operators.empty() ? "?" : row.operators.back();
  for (auto& [name, subject] : by_name) {
    for (const std::string_view suffix : {"_expanded", "_expanded_ver18"}) {
      if (!name.ends_with(suffix)) continue;
      const auto base = by_name.find(name.substr(0, name.size() - suffix.size()));
      if (base != by_name.end()) subject = base->second;
    }
  }
  return by_name;
}

struct OperatorRow {
  std::map<Verdict, int> evaluator, device;
  int on_device = 0;  ///< right, and with at least one kernel
  std::int64_t kernels = 0;
  std::set<std::string> reasons;
};

std::string cell(std::int64_t count) { return count == 0 ? std::string() : std::to_string(count); }

/// A reason without its case's own numbers would be another text for every case; the first 100 characters do.
std::string shortened_reason(const std::string& why) {
  constexpr std::size_t length = 100;
  std::string text = why.size() <= length ? why : why.substr(0, length) + "…";
  for (char& c : text) {
    if (c == '|' || c == '\n') c = ' ';
  }
  return text;
}

constexpr std::string_view introduction =
    "# ONNX conformance\n\n"
    "Written by `stitch conformance FOLDER… --table docs/onnx-conformance.md` over ONNX 1.12's node suite (Debian's "
    "libonnx-testdata, `/usr/share/libonnx-testdata/data/node`) and the cases of newer operator sets in "
    "`tests/data/onnx/node`. Why an operator is unsupported: [onnx-operators.md](onnx-operators.md).\n\n"
    "*Evaluator*: the graph as imported gives the expected results on the reference evaluator. *Device*: the graph "
    "is simplified, cut and tuned, every fragment (those in bodies of loops and branches included) runs by its "
    "verified plan on the emulated device, dots and convolutions run on the reference evaluator in the place of a "
    "library, and the results are as expected. *With kernels*: of those, the cases with at least one kernel of ours "
    "(the rest are a single library call).\n\n"
    "{} cases. Evaluator: {} right, {} unsupported, {} wrong, {} crashed. Device: {} right ({} with kernels), {} "
    "unsupported, {} wrong, {} crashed.\n\n"
    "| operator | cases | evaluator right | device right | with kernels | kernels launched | unsupported | wrong | "
    "crashed | what is wrong |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n";

/// The cases counted: by operator, and all of them.
struct Tally {
  std::map<std::string, OperatorRow> table;
  std::map<Verdict, int> evaluator, device;
  int with_kernels = 0;  ///< right on the device, with at least one kernel of ours
};

Tally tally_of(const std::vector<CaseRow>& rows) {
  const auto subject = subjects(rows);
  Tally tally;
  for (const CaseRow& row : rows) {
    OperatorRow& line = tally.table[subject.at(row.name)];
    ++line.evaluator[row.evaluator];
    ++line.device[row.device];
    ++tally.evaluator[row.evaluator];
    ++tally.device[row.device];
    const bool counted = row.device == Verdict::right && row.kernels > 0;
    line.on_device += counted ? 1 : 0;
    tally.with_kernels += counted ? 1 : 0;
    line.kernels += row.kernels;
    if (row.verdict() == Verdict::wrong || row.verdict() == Verdict::crashed) {
      line.reasons.insert(fmt::format("{}: {}", row.name, shortened_reason(row.why)));
    }
  }
  return tally;
}

}  // namespace

std::string conformance_page(const std::vector<CaseRow>& rows) {
  Tally tally = tally_of(rows);
  std::string text =
      fmt::format(introduction, rows.size(), tally.evaluator[Verdict::right], tally.evaluator[Verdict::unsupported],
                  tally.evaluator[Verdict::wrong], tally.evaluator[Verdict::crashed], tally.device[Verdict::right],
                  tally.with_kernels, tally.device[Verdict::unsupported], tally.device[Verdict::wrong],
                  tally.device[Verdict::crashed]);
  for (auto& [op, line] : tally.table) {
    int cases = 0;
    for (const auto& [verdict, count] : line.evaluator) cases += count;
    std::string reasons;
    for (const std::string& reason : line.reasons) reasons += (reasons.empty() ? "" : "; ") + reason;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", op, cases,
                        cell(line.evaluator[Verdict::right]), cell(line.device[Verdict::right]), cell(line.on_device),
                        cell(line.kernels), cell(line.device[Verdict::unsupported]), cell(line.device[Verdict::wrong]),
                        cell(line.device[Verdict::crashed]), reasons);
  }
  return text;
}

}  // namespace stitch::lab
