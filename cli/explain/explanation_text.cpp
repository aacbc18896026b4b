#include <nlohmann/json.hpp>

#include "cli/explain/explanation.h"
#include "emulator/counters.h"
#include "graph/print.h"

namespace stitch::cli {
namespace {

void append_lines(std::string& text, std::string_view indent, std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    text += fmt::format("{}{}\n", indent, lines.substr(0, end));
    if (end == std::string_view::npos) break;
    lines.remove_prefix(end + 1);
  }
}

std::string text_of(const GroupExplanation& group) {
  std::string text = fmt::format("    phase {}: {} threads, {} tiles, {} sweep{}\n", group.phase, group.threads,
                                 group.tiles, group.sweeps, group.sweeps == 1 ? "" : "s");
  for (const std::string& axis : group.axes) text += fmt::format("      axis {}\n", axis);
  for (const std::string& held : group.held) text += fmt::format("      holds {}\n", held);
  if (!group.ahead.empty()) text += fmt::format("      makes {}\n", group.ahead);
  for (const std::string& retained : group.retained) text += fmt::format("      keeps {}\n", retained);
  for (const AnchorExplanation& anchor : group.anchors) {
    text += fmt::format("      {:<8}{}{}\n", anchor.scheme, anchor.what, anchor.how.empty() ? "" : ": " + anchor.how);
  }
  return text;
}

std::string text_of(const KernelExplanation& kernel) {
  const search::Score& score = kernel.score;
  std::string text = fmt::format("    predicted {:.2f} ± {:.2f} us ({}), bound by {}\n", score.us,
                                 kernel.uncertainty_us, kernel.kind, score.binding);
  for (const search::ScoreTerm& term : score.terms) {
    text += fmt::format("      {:<32}{:>10.3f} us{}\n", term.name, term.us, term.name == score.binding ? "  <-" : "");
  }
  return text;
}

std::string text_of(const tuning::KernelReport& report) {
  std::string text =
      fmt::format("    compiled: {} registers, {} bytes static shared memory, {} bytes spilled\n",
                  report.resources.registers, report.resources.shared_bytes, report.resources.spill_store_bytes);
  if (report.overtaken > 0) {
    text += fmt::format("    re-ranked: candidate {} of {}, {:.2f} us by {} registers, was {:.2f} us\n",
                        report.candidate + 1, report.candidates, report.estimated_us, report.resources.registers,
                        report.predicted_us);
  }
  if (report.equal_within_us > 0) {
    text += fmt::format("    equal within ± {:.2f} us to the best estimate; the simpler was chosen\n",
                        report.equal_within_us);
  }
  if (!report.verification) return text;
  const profiler::Verification& verification = *report.verification;
  text += fmt::format("    verified: {:.1f} % of the results compared, worst {:.2f} of the tolerance\n",
                      100 * verification.share, verification.worst);
  if (!verification.counters) return text;
  text += fmt::format("    counted in one run of {} of {} blocks:\n", verification.blocks_run, verification.blocks);
  append_lines(text, "      ", emulator::to_text(*verification.counters));
  return text;
}

std::string text_of(const KernelExplanation& kernel, std::size_t number, const graph::Graph& graph) {
  std::string text = fmt::format(
      "\n  kernel {}: {} ({})\n    {} blocks of {} threads{}, {} registers (estimate), {} bytes shared, {} bytes of "
      "device memory\n",
      number, kernel.description, kernel.name, kernel.blocks, kernel.threads,
      kernel.cluster > 1 ? fmt::format(" in clusters of {}", kernel.cluster) : std::string(), kernel.registers,
      kernel.shared_bytes, kernel.bytes);
  text += "    computes\n";
  for (const graph::NodeId node : kernel.nodes) text += fmt::format("      {}\n", graph::to_text(graph, node));
  for (std::size_t s = 0; s < kernel.syncs.size(); ++s) {
    text += fmt::format("    between phases {} and {}: {}\n", s, s + 1, kernel.syncs[s]);
  }
  if (kernel.slabs > 1) text += fmt::format("    {} slabs, one after the other\n", kernel.slabs);
  for (const GroupExplanation& group : kernel.groups) text += text_of(group);
  text += text_of(kernel);
  if (kernel.report) text += text_of(*kernel.report);
  return text;
}

nlohmann::ordered_json document_of(const GroupExplanation& group) {
  nlohmann::ordered_json anchors = nlohmann::ordered_json::array();
  for (const AnchorExplanation& anchor : group.anchors) {
    anchors.push_back({{"what", anchor.what}, {"scheme", anchor.scheme}, {"how", anchor.how}});
  }
  return {{"phase", group.phase},   {"threads", group.threads},   {"tiles", group.tiles},
          {"sweeps", group.sweeps}, {"axes", group.axes},         {"held", group.held},
          {"ahead", group.ahead},   {"retained", group.retained}, {"anchors", std::move(anchors)}};
}

nlohmann::ordered_json document_of(const emulator::Counters& counters) {
  nlohmann::ordered_json instructions;
  for (std::size_t c = 0; c < emulator::instruction_class_count; ++c) {
    const auto& count = counters.instructions[c];
    if (count.warps == 0) continue;
    instructions[std::string(emulator::to_string(static_cast<emulator::InstructionClass>(c)))] = count.warps;
  }
  const auto traffic = [](const emulator::GlobalTraffic& t) {
    return nlohmann::ordered_json{{"requests", t.requests},
                                  {"sectors", t.sectors},
                                  {"l2_sectors", t.l2_sectors},
                                  {"unique_sectors", t.unique_sectors}};
  };
  return {{"blocks", counters.blocks},
          {"warp_instructions", std::move(instructions)},
          {"global_loads", traffic(counters.global_loads)},
          {"global_stores", traffic(counters.global_stores)},
          {"global_atomics", counters.global_atomics},
          {"shared_wavefronts", counters.shared_wavefronts},
          {"shared_bank_conflicts", counters.shared_extra_wavefronts},
          {"local_lanes", counters.local_load_lanes + counters.local_store_lanes},
          {"block_barriers", counters.block_barriers},
          {"cluster_barriers", counters.cluster_barriers}};
}

nlohmann::ordered_json document_of(const KernelExplanation& kernel) {
  nlohmann::ordered_json json = {{"name", kernel.name},           {"description", kernel.description},
                                 {"nodes", kernel.nodes},         {"blocks", kernel.blocks},
                                 {"threads", kernel.threads},     {"cluster", kernel.cluster},
                                 {"registers", kernel.registers}, {"shared_bytes", kernel.shared_bytes},
                                 {"bytes", kernel.bytes},         {"syncs", kernel.syncs},
                                 {"slabs", kernel.slabs}};
  json["groups"] = nlohmann::ordered_json::array();
  for (const GroupExplanation& group : kernel.groups) json["groups"].push_back(document_of(group));
  nlohmann::ordered_json terms = nlohmann::ordered_json::array();
  for (const search::ScoreTerm& term : kernel.score.terms) terms.push_back({{"name", term.name}, {"us", term.us}});
  json["predicted"] = {{"us", kernel.score.us},
                       {"uncertainty_us", kernel.uncertainty_us},
                       {"kind", kernel.kind},
                       {"binding", kernel.score.binding},
                       {"terms", std::move(terms)}};
  if (!kernel.report) return json;
  json["source"] = kernel.report->source;
  json["compiled"] = {{"registers", kernel.report->resources.registers},
                      {"shared_bytes", kernel.report->resources.shared_bytes},
                      {"spill_bytes", kernel.report->resources.spill_store_bytes},
                      {"candidate", kernel.report->candidate},
                      {"overtaken", kernel.report->overtaken},
                      {"equal_within_us", kernel.report->equal_within_us},
                      {"estimated_us", kernel.report->estimated_us}};
  if (const auto& verification = kernel.report->verification; verification && verification->counters) {
    json["counted"] = document_of(*verification->counters);
    json["counted"]["of_blocks"] = verification->blocks;
  }
  return json;
}

}  // namespace

std::string to_text(const FragmentExplanation& fragment) {
  std::string text = fmt::format("fragment {} ({}), runs {} time{}\n", fragment.key.hex(), fragment.name,
                                 fragment.occurrences, fragment.occurrences == 1 ? "" : "s");
  if (!fragment.failure.empty()) text += fmt::format("  problem: {}\n", fragment.failure);
  text += fmt::format("  {} kernel{}, predicted {:.2f} ± {:.2f} us; every operator by itself: {} kernels, {:.2f} us\n",
                      fragment.kernels.size(), fragment.kernels.size() == 1 ? "" : "s", fragment.predicted_us,
                      fragment.uncertainty_us, fragment.unfused_kernels, fragment.unfused_us);
  if (fragment.dependent_launches > 0) {
    text += fmt::format("  {} launched to begin before the kernel before {} has ended, which takes off {:.2f} us{}\n",
                        fragment.dependent_launches, fragment.dependent_launches == 1 ? "it" : "them",
                        fragment.dependent_saving_us, fragment.dependent_launches == 1 ? "" : " each");
  }
  if (fragment.unwaited_saving_us > 0)
    text += fmt::format("  what is loaded before it has ended takes off {:.2f} us more\n", fragment.unwaited_saving_us);
  if (fragment.unconstrained_us) {
    text += fmt::format("  under {}: {:.2f} us; without: {:.2f} us, {:.2f} times as long\n",
                        to_string(fragment.graph.constraints), fragment.predicted_us, *fragment.unconstrained_us,
                        fragment.predicted_us / *fragment.unconstrained_us);
  }
  for (const BoundaryExplanation& boundary : fragment.boundaries) {
    text += fmt::format("  between kernels {} and {} ({}): {}\n", boundary.from, boundary.to,
                        boundary.bytes > 0 ? fmt::format("{} bytes", boundary.bytes) : std::string("independent"),
                        boundary.why);
  }
  if (fragment.boundaries_left_out > 0) {
    text += fmt::format("  {} further pairs of kernels were not examined\n", fragment.boundaries_left_out);
  }
  for (std::size_t k = 0; k < fragment.kernels.size(); ++k) text += text_of(fragment.kernels[k], k, fragment.graph);
  return text;
}

nlohmann::ordered_json to_document(const FragmentExplanation& fragment) {
  nlohmann::ordered_json json = {{"fragment", fragment.key.hex()},
                                 {"name", fragment.name},
                                 {"occurrences", fragment.occurrences},
                                 {"predicted_us", fragment.predicted_us},
                                 {"dependent_launches", fragment.dependent_launches},
                                 {"dependent_saving_us", fragment.dependent_saving_us},
                                 {"unwaited_saving_us", fragment.unwaited_saving_us},
                                 {"uncertainty_us", fragment.uncertainty_us},
                                 {"unfused_us", fragment.unfused_us},
                                 {"unfused_kernels", fragment.unfused_kernels}};
  if (const graph::Constraints& asked = fragment.graph.constraints; asked.any()) {
    json["constraints"] = to_string(asked);
    if (fragment.unconstrained_us) json["unconstrained_us"] = *fragment.unconstrained_us;
  }
  if (!fragment.failure.empty()) json["failure"] = fragment.failure;
  json["kernels"] = nlohmann::ordered_json::array();
  for (const KernelExplanation& kernel : fragment.kernels) json["kernels"].push_back(document_of(kernel));
  json["boundaries"] = nlohmann::ordered_json::array();
  for (const BoundaryExplanation& boundary : fragment.boundaries) {
    nlohmann::ordered_json entry = {
        {"from", boundary.from}, {"to", boundary.to}, {"bytes", boundary.bytes}, {"why", boundary.why}};
    if (boundary.merged_us) entry["merged_us"] = *boundary.merged_us, entry["gain_us"] = boundary.gain_us;
    json["boundaries"].push_back(std::move(entry));
  }
  json["boundaries_left_out"] = fragment.boundaries_left_out;
  return json;
}

}  // namespace stitch::cli
