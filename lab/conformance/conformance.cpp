#include "lab/conformance/conformance.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "graph/simplify.h"
#include "import/onnx/backend_case.h"

namespace stitch::lab {
namespace {

using graph::ConstantAttributes;
using import::onnx::BackendCase;
using import::onnx::BackendData;

constexpr std::array<std::string_view, 5> verdict_names = {"right", "unsupported", "wrong", "crashed", "absent"};

Verdict verdict_of(import::onnx::CaseOutcome outcome) {
  switch (outcome) {
    case import::onnx::CaseOutcome::right: return Verdict::right;
    case import::onnx::CaseOutcome::unsupported: return Verdict::unsupported;
    case import::onnx::CaseOutcome::wrong: return Verdict::wrong;
  }
  return Verdict::wrong;
}

Status run_data(const BackendCase& the_case, const BackendData& data, GraphRunner& runner, RunSummary& summary) {
  STITCH_ASSIGN(import::Imported imported, import::onnx::import_backend_case(the_case, data));
  std::vector<ConstantAttributes> arguments;
  for (const std::string& name : imported.parameters) {
    const auto found = std::find(the_case.inputs.begin(), the_case.inputs.end(), name);
    if (found == the_case.inputs.end()) return make_error(ErrorKind::internal, "nobody supplies '{}'", name);
    arguments.push_back(data.inputs[found - the_case.inputs.begin()]);
  }
  STITCH_TRY(graph::simplify(imported.graph));
  STITCH_ASSIGN(const auto results, runner.run(imported.graph, std::move(arguments), summary));
  return import::onnx::compare_results(results, data.outputs);
}

}  // namespace

std::string_view to_string(Verdict verdict) { return verdict_names[static_cast<int>(verdict)]; }

Verdict CaseRow::verdict() const {
  for (const Verdict worst : {Verdict::crashed, Verdict::wrong, Verdict::unsupported}) {
    if (evaluator == worst || device == worst) return worst;
  }
  return Verdict::right;
}

nlohmann::ordered_json to_document(const CaseRow& row) {
  nlohmann::ordered_json json;
  json["case"] = row.name;
  json["operators"] = row.operators;
  json["evaluator"] = to_string(row.evaluator);
  if (row.device != Verdict::absent) json["device"] = to_string(row.device);
  json["fragments"] = row.fragments;
  json["kernels"] = row.kernels;
  json["on_evaluator"] = row.evaluated;
  if (!row.why.empty()) json["why"] = row.why;
  return json;
}

Result<CaseRow> row_from_json(std::string_view text) {
  const auto verdict = [](const std::string& name) {
    return static_cast<Verdict>(std::find(verdict_names.begin(), verdict_names.end(), name) - verdict_names.begin());
  };
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    CaseRow row;
    row.name = json.at("case").get<std::string>();
    row.operators = json.at("operators").get<std::vector<std::string>>();
    row.evaluator = verdict(json.at("evaluator").get<std::string>());
    row.device = verdict(json.value("device", std::string("absent")));
    row.fragments = json.at("fragments").get<std::int64_t>();
    row.kernels = json.at("kernels").get<std::int64_t>();
    row.evaluated = json.at("on_evaluator").get<std::vector<std::string>>();
    row.why = json.value("why", std::string());
    if (row.evaluator > Verdict::absent || row.device > Verdict::absent) {
      return make_error(ErrorKind::parse, "case row with an unknown verdict: {}", text);
    }
    return row;
  } catch (const nlohmann::json::exception& error) {
    return make_error(ErrorKind::parse, "case row: {}", error.what());
  }
}

CaseRow run_case(const FileSystem& files, const std::filesystem::path& folder, GraphRunner* runner) {
  const import::onnx::CaseReport reference = import::onnx::run_backend_case(files, folder);
  CaseRow row;
  row.name = reference.name;
  row.operators = reference.operators;
  row.evaluator = verdict_of(reference.outcome);
  row.why = reference.detail;
  if (runner == nullptr) return row;
  if (row.evaluator != Verdict::right) {
    row.device = row.evaluator;
    return row;
  }
  const Result<BackendCase> loaded = import::onnx::load_backend_case(files, folder);
  Status status = loaded ? Status() : loaded.error();
  RunSummary summary;
  for (std::size_t i = 0; status && i < loaded->data.size(); ++i) {
    status = run_data(*loaded, loaded->data[i], *runner, summary);
  }
  row.fragments = summary.fragments;
  row.kernels = summary.launches;
  row.evaluated = std::move(summary.evaluated);
  row.device = Verdict::right;
  if (!status) {
    row.device = status.error().kind == ErrorKind::unsupported ? Verdict::unsupported : Verdict::wrong;
    row.why = fmt::format("{}: {}", to_string(status.error().kind), status.error().message);
  }
  return row;
}

nlohmann::ordered_json to_document(const std::vector<CaseRow>& rows) {
  nlohmann::ordered_json json;
  for (const Verdict verdict : {Verdict::right, Verdict::unsupported, Verdict::wrong, Verdict::crashed}) {
    json[std::string(to_string(verdict))] =
        std::count_if(rows.begin(), rows.end(), [&](const CaseRow& row) { return row.verdict() == verdict; });
  }
  json["cases"] = nlohmann::ordered_json::array();
  for (const CaseRow& row : rows) json["cases"].push_back(to_document(row));
  return json;
}

}  // namespace stitch::lab
