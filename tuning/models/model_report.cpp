#include "tuning/models/model_report.h"

#include <fmt/format.h>

#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"

namespace stitch::tuning {

using graph::fields::Of;

// Reports of older versions lack what is `defaulted` here: they lie in databases.

void visit_fields(auto& archive, Of<StageSeconds> auto& seconds) {
  archive("import", seconds.import)("plan", seconds.plan)("codegen", seconds.codegen)("verify", seconds.verify);
  archive.defaulted("measure", seconds.measure).defaulted("search", seconds.search);
}

void visit_fields(auto& archive, Of<ModelReport::Search> auto& search) {
  archive("trials", search.trials)("failed", search.failed)("kernels", search.kernels)("settled", search.settled);
  archive("improved", search.improved)("saved_us", search.saved_us);
}

void visit_fields(auto& archive, Of<ModelReport::Boundary> auto& boundary) {
  archive("operator", boundary.op)("count", boundary.count);
}

void visit_fields(auto& archive, Of<ModelReport::Donation> auto& donation) {
  archive("parameter", donation.parameter)("result", donation.result)("in_place", donation.in_place);
  archive("why", donation.why);
}

void visit_fields(auto& archive, Of<ModelReport> auto& report) {
  archive("model", report.model).defaulted("constraints", report.constraints);
  archive("operators", report.operators)("fragments", report.fragments);
  archive("distinct_fragments", report.distinct_fragments)("kernels", report.kernels)("launches", report.launches);
  archive("library_calls", report.library_calls)("bytes", report.bytes);
  archive("launches_unfused", report.launches_unfused)("bytes_unfused", report.bytes_unfused);
  archive("predicted_us", report.predicted_us).defaulted("uncertainty_us", report.uncertainty_us);
  archive("predicted_unfused_us", report.predicted_unfused_us);
  archive("seconds", report.seconds).defaulted("search", report.search)("boundaries", report.boundaries);
  archive.defaulted("donations", report.donations);
  archive.group("verified",
                [&](auto& verified) { verified("kernels", report.verified_kernels)("wrong", report.wrong_kernels); });
  archive.defaulted("failed_candidates", report.failed_candidates);
  archive.defaulted("spilling_kernels", report.spilling_kernels);
  archive.defaulted("wrong_candidates", report.wrong_candidates);
  archive.defaulted("fault_fragments", report.fault_fragments)("failures", report.failures);
}

std::string to_json(const ModelReport& report) {
  return graph::fields::BasicWriter<nlohmann::ordered_json>::document_of(report, {}).dump();
}

Result<ModelReport> model_report_from_json(std::string_view text) {
  const auto document = graph::parse_document(text, graph::Encoding::json);
  if (!document) return document.error().within("model report");
  ModelReport report;
  const Status read = graph::fields::read_document(*document, report);
  if (!read) return read.error().within("model report");
  return report;
}

std::string to_table(const ModelReport& report) {
  std::string text;
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28}{}\n", name, value);
  };
  const auto ratio = [](double ours, double theirs) {
    return theirs > 0 ? fmt::format("{:.2f}", ours / theirs) : std::string("-");
  };
  text += fmt::format("{}\n", report.model);
  if (!report.constraints.empty()) row("under", report.constraints);
  row("operators", fmt::format("{}", report.operators));
  row("fragments", fmt::format("{} ({} distinct)", report.fragments, report.distinct_fragments));
  row("kernels", fmt::format("{} distinct", report.kernels));
  row("launches",
      fmt::format("{} (unfused {}, ratio {})", report.launches, report.launches_unfused,
                  ratio(static_cast<double>(report.launches), static_cast<double>(report.launches_unfused))));
  row("library calls", fmt::format("{}", report.library_calls));
  row("device memory",
      fmt::format("{:.1f} MB (unfused {:.1f} MB, ratio {})", static_cast<double>(report.bytes) / 1e6,
                  static_cast<double>(report.bytes_unfused) / 1e6,
                  ratio(static_cast<double>(report.bytes), static_cast<double>(report.bytes_unfused))));
  row("predicted", fmt::format("{:.1f} ± {:.1f} us (unfused {:.1f} us)", report.predicted_us, report.uncertainty_us,
                               report.predicted_unfused_us));
  row("verified kernels", fmt::format("{} right, {} wrong", report.verified_kernels, report.wrong_kernels));
  const StageSeconds& spent = report.seconds;
  row("seconds", fmt::format("import {:.2f}, plan {:.2f}, codegen {:.2f}, verify {:.2f}", spent.import, spent.plan,
                             spent.codegen, spent.verify) +
                     (spent.measure > 0 ? fmt::format(", measure {:.2f}", spent.measure) : ""));
  if (const ModelReport::Search& search = report.search; search.trials > 0) {
    row("search", fmt::format("{} trials ({} failed) of {} kernels in {:.1f} s, {} settled", search.trials,
                              search.failed, search.kernels, spent.search, search.settled));
    row("faster by search", fmt::format("{} kernels, {:.1f} us", search.improved, search.saved_us));
  }
  for (const ModelReport::Donation& donation : report.donations) {
    row("donated", fmt::format("{} to {}: {}{}", donation.parameter, donation.result,
                               donation.in_place ? "in place, " : "copied, ", donation.why));
  }
  for (const auto& [op, times] : report.boundaries) row("boundary", fmt::format("{} x{}", op, times));
  if (!report.failed_candidates.empty()) {
    std::string all;
    for (const auto& [outcome, times] : report.failed_candidates)
      all += fmt::format("{}{} {}", all.empty() ? "" : ", ", times, outcome);
    row("failed candidates", all);
  }
  for (const std::string& spilling : report.spilling_kernels) row("spills in a loop", spilling);
  for (const std::string& wrong : report.wrong_candidates) row("wrong candidate", wrong);
  for (const std::string& failure : report.failures) row("no plan", failure);
  if (!report.fault_fragments.empty()) {
    row("our fault", fmt::format("kernels of {} fragment{} were wrong; {}", report.fault_fragments.size(),
                                 report.fault_fragments.size() == 1 ? "" : "s",
                                 report.failures.empty() ? "right ones were made instead" : "see above"));
  }
  return text;
}

}  // namespace stitch::tuning
