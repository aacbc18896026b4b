#include "lab/differential/differential.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "graph/reference/evaluate.h"
#include "graph/simplify.h"
#include "import/import.h"

namespace stitch::lab {
namespace {

constexpr std::string_view outcome_names[] = {"equal", "within", "wrong", "unsupported"};

/// As import::onnx::import_backend_case has it.
constexpr std::int64_t most_known_elements = 64;

Result<import::Imported> import_case(const DifferentialCase& one) {
  import::ImportOptions options;
  for (std::size_t i = 0; i < one.names.size(); ++i) {
    if (one.inputs[i].type.elements() > most_known_elements) continue;
    options.known_inputs.emplace_back(one.names[i], one.inputs[i]);
  }
  return import::import_bytes(one.model, "", options);
}

/// The inputs in the order of the graph's parameters.
Result<std::vector<graph::Tensor>> arguments_of(const DifferentialCase& one, const import::Imported& imported) {
  std::vector<graph::Tensor> arguments;
  if (one.names.empty()) {
    for (const graph::ConstantAttributes& input : one.inputs) arguments.push_back(graph::tensor_from(input));
    return arguments;
  }
  for (const std::string& name : imported.parameters) {
    const auto found = std::ranges::find(one.names, name);
    if (found == one.names.end()) return make_error(ErrorKind::not_found, "nobody supplies parameter '{}'", name);
    arguments.push_back(graph::tensor_from(one.inputs[found - one.names.begin()]));
  }
  return arguments;
}

Result<ResultComparison> compare_graph(const graph::Graph& graph, const std::vector<graph::Tensor>& arguments,
                                       const std::vector<graph::ConstantAttributes>& outputs, bool flushes) {
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = flushes;
  STITCH_ASSIGN(const std::vector<graph::Tensor> results, graph::evaluate(graph, arguments, options));
  if (results.size() != outputs.size()) {
    return make_error(ErrorKind::correctness, "{} results, expected {}", results.size(), outputs.size());
  }
  return compare_with_reference(results, outputs);
}

Status run_into(const DifferentialCase& one, bool flushes, DifferentialRow& row) {
  row.graph = "imported";
  STITCH_ASSIGN(import::Imported imported, import_case(one));
  if (!imported.boundaries.empty()) {
    const import::Boundary& first = imported.boundaries.front();
    return make_error(ErrorKind::unsupported, "{}: {}", first.op, first.reason);
  }
  STITCH_ASSIGN(const std::vector<graph::Tensor> arguments, arguments_of(one, imported));
  STITCH_ASSIGN(row.comparison, compare_graph(imported.graph, arguments, one.outputs, flushes));
  if (!one.simplify || row.comparison.wrong() != 0) return {};
  row.graph = "simplified";
  STITCH_TRY(graph::simplify(imported.graph));
  STITCH_ASSIGN(row.comparison, compare_graph(imported.graph, arguments, one.outputs, flushes));
  return {};
}

}  // namespace

std::string_view to_string(DifferentialOutcome outcome) { return outcome_names[static_cast<int>(outcome)]; }

DifferentialRow run_differential_case(const DifferentialCase& one, bool flushes) {
  DifferentialRow row;
  row.name = one.name;
  row.subject = one.subject;
  if (const Status status = run_into(one, flushes, row); !status) {
    const Error& error = status.error();
    if (error.kind == ErrorKind::unsupported) row.outcome = DifferentialOutcome::unsupported;
    row.why = fmt::format("{}: {}", to_string(error.kind), error.message);
    return row;
  }
  const ResultComparison& compared = row.comparison;
  row.why = compared.first_wrong;
  if (compared.wrong() == 0) {
    row.outcome = compared.equal == compared.elements ? DifferentialOutcome::equal : DifferentialOutcome::within;
  }
  return row;
}

std::vector<DifferentialRow> run_differential_cases(const DifferentialFile& file, std::string_view filter,
                                                    int threads) {
  std::vector<const DifferentialCase*> cases;
  for (const DifferentialCase& one : file.cases) {
    if (one.name.find(filter) != std::string::npos) cases.push_back(&one);
  }
  std::vector<DifferentialRow> rows(cases.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      rows[i] = run_differential_case(*cases[i], file.flushes_subnormals);
    }
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work);
  workers.clear();
  return rows;
}

nlohmann::ordered_json to_document(const DifferentialRow& row) {
  const ResultComparison& compared = row.comparison;
  nlohmann::ordered_json json = {
      {"case", row.name},          {"subject", row.subject},          {"outcome", to_string(row.outcome)},
      {"graph", row.graph},        {"elements", compared.elements},   {"equal", compared.equal},
      {"within", compared.within}, {"unchecked", compared.unchecked}, {"most_relative", compared.most_relative}};
  if (compared.wrong() != 0) {
    json["wrong"] = {{"nan", compared.nan},
                     {"infinite", compared.infinite},
                     {"zero_sign", compared.zero_sign},
                     {"number", compared.number}};
    json["most_ulps"] = compared.most_ulps;
  }
  if (!row.why.empty()) json["why"] = row.why;
  return json;
}

}  // namespace stitch::lab
