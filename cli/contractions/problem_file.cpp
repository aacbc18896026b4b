#include "cli/contractions/problem_file.h"

#include <nlohmann/json.hpp>

#include "graph/builder.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

Result<std::int64_t> extent_of(const json& product, const char* field, std::int64_t otherwise) {
  const auto found = product.find(field);
  if (found == product.end() && otherwise >= 0) return otherwise;
  if (found == product.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0)
    return make_error(ErrorKind::invalid_argument, "'{}' is no extent", field);
  return found->get<std::int64_t>();
}

/// A text, `otherwise` where there is none.
Result<std::string> text_of(const json& product, const char* field, std::string otherwise) {
  const auto found = product.find(field);
  if (found == product.end()) return otherwise;
  if (found->is_string()) return found->get<std::string>();
  return make_error(ErrorKind::invalid_argument, "'{}' is no text", field);
}

Result<graph::DType> dtype_of(const json& product, const char* field, std::string_view otherwise) {
  STITCH_ASSIGN(const std::string name, text_of(product, field, std::string(otherwise)));
  if (const auto dtype = graph::dtype_from_name(name)) return *dtype;
  return make_error(ErrorKind::invalid_argument, "'{}' is no dtype: '{}'", field, name);
}

Result<bool> turned(const json& product, const char* field) {
  STITCH_ASSIGN(const std::string text, text_of(product, field, "plain"));
  if (text == "plain" || text == "turned") return text == "turned";
  return make_error(ErrorKind::invalid_argument, "'{}' is neither plain nor turned", field);
}

Result<NamedProblem> problem_of(const json& product) {
  if (!product.is_object()) return make_error(ErrorKind::parse, "no object");
  STITCH_ASSIGN(const std::int64_t batch, extent_of(product, "batch", 1));
  STITCH_ASSIGN(const std::int64_t rows, extent_of(product, "m", -1));
  STITCH_ASSIGN(const std::int64_t columns, extent_of(product, "n", -1));
  STITCH_ASSIGN(const std::int64_t depth, extent_of(product, "k", -1));
  STITCH_ASSIGN(const graph::DType dtype, dtype_of(product, "dtype", ""));
  STITCH_ASSIGN(const graph::DType result, dtype_of(product, "result", to_string(dtype)));
  STITCH_ASSIGN(const bool left_turned, turned(product, "left"));
  STITCH_ASSIGN(const bool right_turned, turned(product, "right"));
  graph::Builder builder;
  const graph::Value left =
      builder.parameter(dtype, left_turned ? graph::Dims{batch, depth, rows} : graph::Dims{batch, rows, depth});
  const graph::Value right =
      builder.parameter(dtype, right_turned ? graph::Dims{batch, columns, depth} : graph::Dims{batch, depth, columns});
  graph::DotAttributes dot;
  dot.lhs_batch = dot.rhs_batch = {0};
  dot.lhs_contracting = {left_turned ? 1 : 2};
  dot.rhs_contracting = {right_turned ? 2 : 1};
  dot.result = result;
  STITCH_ASSIGN(graph::Graph graph, builder.finish({builder.dot(left, right, dot)}));
  STITCH_ASSIGN(kernel::ContractionProblem problem, kernel::derive_contraction(std::move(graph)));
  STITCH_ASSIGN(std::string name, text_of(product, "name", to_string(problem)));
  return NamedProblem{std::move(name), std::move(problem)};
}

}  // namespace

Result<std::vector<NamedProblem>> read_problems(FileSystem& files, const std::filesystem::path& path) {
  STITCH_ASSIGN(const std::string text, files.read(path));
  const json list = json::parse(text, nullptr, false);
  if (!list.is_array()) return make_error(ErrorKind::parse, "{}: no JSON array of products", path.string());
  std::vector<NamedProblem> problems;
  for (const json& product : list) {
    Result<NamedProblem> problem = problem_of(product);
    if (!problem) return problem.error().within(fmt::format("{}: product {}", path.string(), problems.size()));
    problems.push_back(*std::move(problem));
  }
  return problems;
}

}  // namespace stitch::cli
