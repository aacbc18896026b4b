#include "cli/contractions/problem_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/builder.h"
#include "kernel/contraction/scaled_contraction.h"
#include "lab/products/scaled_matmul.h"

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

Result<bool> flag_of(const json& product, const char* field) {
  const auto found = product.find(field);
  if (found == product.end()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return make_error(ErrorKind::invalid_argument, "'{}' is neither true nor false", field);
}

/// Attention of [batch, heads, …], scaled by 1/√depth, softmax in f32.
struct AttentionExtents {
  graph::DType dtype = graph::DType::f16;
  std::int64_t batch = 1, heads = 1, kv_heads = 1, rows = 0, keys = 0, depth = 0, width = 0;
  bool causal = false;

  [[nodiscard]] Result<graph::Graph> graph() const {
    graph::Builder b;
    const Value queries = b.parameter(dtype, {batch, heads, rows, depth}), all_keys = shared(b, depth),
                values = shared(b, width);
    const Value all = logits(b, queries, all_keys);
    const Value exponentials = exponential(b, all, b.reduce(graph::ReduceKind::max, all, {3}));
    const Value sum = b.reduce(graph::ReduceKind::sum, exponentials, {3});
    const Value inverse = b.binary(Op::divide, b.filled(graph::DType::f32, of_rows(), 1), sum);
    const Value weights = b.binary(Op::multiply, exponentials, repeated(b, inverse));
    return b.finish({b.dot(b.convert(weights, dtype), values, {{0, 1}, {0, 1}, {3}, {2}, dtype})});
  }

  /// Of keys and values, or else of queries, as FlashAttention has them (Dao et al. 2022, Algorithm 4): of each row the
  /// maximum, the reciprocal of the sum and what its gradient is relative to are given.
  [[nodiscard]] Result<graph::Graph> gradients(bool of_keys) const {
    graph::Builder b;
    const Value queries = b.parameter(dtype, {batch, heads, rows, depth}), all_keys = shared(b, depth),
                values = shared(b, width), gradient = b.parameter(dtype, {batch, heads, rows, width});
    const auto of_row = [&] { return b.parameter(graph::DType::f32, of_rows()); };
    const Value greatest = of_row(), inverse = of_row(), relative = of_row();
    const Value weights =
        b.binary(Op::multiply, exponential(b, logits(b, queries, all_keys), greatest), repeated(b, inverse));
    Value slopes = b.dot(gradient, values, {{0, 1}, {0, 1}, {3}, {3}, graph::DType::f32});
    slopes = b.binary(Op::multiply, weights, b.binary(Op::subtract, slopes, repeated(b, relative)));
    slopes = b.convert(b.binary(Op::multiply, slopes, b.filled(graph::DType::f32, of_scores(), scale())), dtype);
    if (!of_keys) return b.finish({b.dot(slopes, all_keys, {{0, 1}, {0, 1}, {3}, {2}, dtype})});
    return b.finish({b.dot(slopes, queries, {{0, 1}, {0, 1}, {2}, {2}, dtype}),
                     b.dot(b.convert(weights, dtype), gradient, {{0, 1}, {0, 1}, {2}, {2}, dtype})});
  }

 private:
  using Op = graph::Op;
  using Value = graph::Value;

  [[nodiscard]] graph::Dims of_scores() const { return {batch, heads, rows, keys}; }
  [[nodiscard]] graph::Dims of_rows() const { return {batch, heads, rows}; }
  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, depth))); }

  Value shared(graph::Builder& b, std::int64_t columns) const {
    const Value each = b.parameter(dtype, {batch, kv_heads, keys, columns});
    if (kv_heads == heads) return each;
    const graph::Dims repeated = {batch, kv_heads, heads / kv_heads, keys, columns};
    return b.reshape(b.broadcast(each, repeated, {0, 1, 3, 4}), {batch, heads, keys, columns});
  }
  Value repeated(graph::Builder& b, Value value) const { return b.broadcast(value, of_scores(), {0, 1, 2}); }

  Value logits(graph::Builder& b, Value queries, Value all_keys) const {
    Value made = b.dot(queries, all_keys, {{0, 1}, {0, 1}, {3}, {3}, graph::DType::f32});
    made = b.binary(Op::multiply, made, b.filled(graph::DType::f32, of_scores(), scale()));
    if (!causal) return made;
    const graph::Dims plane = {rows, keys};
    const Value last = b.binary(Op::add, b.iota(graph::DType::s32, plane, 0),
                                b.filled(graph::DType::s32, plane, static_cast<double>(keys - rows)));
    const Value seen = b.compare(graph::Comparison::ge, last, b.iota(graph::DType::s32, plane, 1));
    return b.select(b.broadcast(seen, of_scores(), {2, 3}), made,
                    b.filled(graph::DType::f32, of_scores(), -std::numeric_limits<double>::infinity()));
  }
  Value exponential(graph::Builder& b, Value all, Value greatest) const {
    return b.unary(Op::exp, b.binary(Op::subtract, all, repeated(b, greatest)));
  }
};

Result<NamedProblem> gradients_of(const json& object, const AttentionExtents& extents) {
  STITCH_ASSIGN(const std::string of, text_of(object, "gradient", ""));
  if (of != "queries" && of != "keys_and_values")
    return make_error(ErrorKind::invalid_argument, "'gradient' is neither queries nor keys_and_values");
  STITCH_ASSIGN(graph::Graph graph, extents.gradients(of == "keys_and_values"));
  STITCH_ASSIGN(kernel::ProductChain chain, kernel::derive_chain(std::move(graph)));
  STITCH_ASSIGN(std::string name, text_of(object, "name", to_string(chain)));
  return NamedProblem{std::move(name), std::move(chain)};
}

Result<NamedProblem> attention_of(const json& object) {
  AttentionExtents e;
  STITCH_ASSIGN(e.dtype, dtype_of(object, "dtype", ""));
  STITCH_ASSIGN(e.batch, extent_of(object, "batch", 1));
  STITCH_ASSIGN(e.heads, extent_of(object, "heads", 1));
  STITCH_ASSIGN(e.kv_heads, extent_of(object, "kv_heads", e.heads));
  STITCH_ASSIGN(e.rows, extent_of(object, "rows", -1));
  STITCH_ASSIGN(e.keys, extent_of(object, "keys", -1));
  STITCH_ASSIGN(e.depth, extent_of(object, "depth", -1));
  STITCH_ASSIGN(e.width, extent_of(object, "width", e.depth));
  STITCH_ASSIGN(e.causal, flag_of(object, "causal"));
  if (e.kv_heads == 0 || e.heads % e.kv_heads != 0)
    return make_error(ErrorKind::invalid_argument, "'kv_heads' does not divide 'heads'");
  if (object.contains("gradient")) return gradients_of(object, e);
  STITCH_ASSIGN(graph::Graph graph, e.graph());
  STITCH_ASSIGN(kernel::AttentionProblem problem, kernel::derive_attention(std::move(graph)));
  STITCH_ASSIGN(std::string name, text_of(object, "name", to_string(problem)));
  return NamedProblem{std::move(name), std::move(problem)};
}

/// One number for each of `rank` dimensions, or one for all of them.
Result<graph::Dims> extents_of(const json& object, const char* field, std::size_t rank, std::int64_t otherwise) {
  const auto found = object.find(field);
  if (found == object.end()) return graph::Dims(rank, otherwise);
  const auto whole = [](const json& each) { return each.is_number_integer() && each.get<std::int64_t>() >= 0; };
  if (whole(*found)) return graph::Dims(rank, found->get<std::int64_t>());
  const bool listed = found->is_array() && found->size() == rank && std::ranges::all_of(*found, whole);
  if (listed) return found->get<graph::Dims>();
  return make_error(ErrorKind::invalid_argument, "'{}' is no list of {} extents", field, rank);
}

/// A convolution of [images, extents…, features] with [window…, features, results], or of [images, features, extents…]
/// with [results, features, window…].
struct ConvolutionExtents {
  graph::DType dtype = graph::DType::f16;
  std::int64_t images = 1, features = 0, results = 0;
  graph::Dims extents, window;
  bool features_last = true;
  graph::ConvolutionAttributes attributes;  ///< but for where dimensions are

  [[nodiscard]] Result<graph::Graph> graph() const {
    graph::ConvolutionAttributes a = attributes;
    const auto rank = std::ssize(window);
    a.input_feature = a.output_feature = features_last ? rank + 1 : 1;
    a.kernel_input_feature = features_last ? rank : 1;
    a.kernel_output_feature = features_last ? rank + 1 : 0;
    for (std::int64_t s = 0; s < rank; ++s) {
      a.input_spatial.push_back(features_last ? s + 1 : s + 2);
      a.kernel_spatial.push_back(features_last ? s : s + 2);
    }
    a.output_spatial = a.input_spatial;
    graph::Dims input = extents, kernel = window;
    input.insert(features_last ? input.end() : input.begin(), features);
    input.insert(input.begin(), images);
    const std::int64_t of_group = features / a.feature_groups;
    if (features_last) {
      kernel.insert(kernel.end(), {of_group, results});
    } else {
      kernel.insert(kernel.begin(), {results, of_group});
    }
    graph::Builder b;
    const graph::Value image = b.parameter(dtype, input), filter = b.parameter(dtype, kernel);
    return b.finish({b.add(graph::Op::convolution, {image, filter}, a)});
  }
};

Result<NamedProblem> convolution_of(const json& object) {
  const auto window = object.find("window");
  if (window == object.end() || !window->is_array() || window->size() > 3)
    return make_error(ErrorKind::invalid_argument, "'window' is no list of at most 3 extents");
  const std::size_t rank = window->size();
  ConvolutionExtents e;
  graph::ConvolutionAttributes& a = e.attributes;
  STITCH_ASSIGN(e.dtype, dtype_of(object, "dtype", ""));
  STITCH_ASSIGN(a.result, dtype_of(object, "result", to_string(e.dtype)));
  STITCH_ASSIGN(e.images, extent_of(object, "images", 1));
  STITCH_ASSIGN(e.features, extent_of(object, "features", -1));
  STITCH_ASSIGN(e.results, extent_of(object, "results", -1));
  STITCH_ASSIGN(a.feature_groups, extent_of(object, "groups", 1));
  STITCH_ASSIGN(e.extents, extents_of(object, "extents", rank, 1));
  STITCH_ASSIGN(e.window, extents_of(object, "window", rank, 1));
  STITCH_ASSIGN(a.strides, extents_of(object, "strides", rank, 1));
  STITCH_ASSIGN(a.low, extents_of(object, "padding", rank, 0));
  a.high = a.low;
  STITCH_ASSIGN(a.kernel_dilation, extents_of(object, "dilation", rank, 1));
  STITCH_ASSIGN(a.input_dilation, extents_of(object, "holes", rank, 1));
  STITCH_ASSIGN(const std::string order, text_of(object, "features_are", "last"));
  if (order != "first" && order != "last")
    return make_error(ErrorKind::invalid_argument, "'features_are' is neither first nor last");
  e.features_last = order == "last";
  if (a.feature_groups == 0 || e.features % a.feature_groups != 0)
    return make_error(ErrorKind::invalid_argument, "'groups' does not divide 'features'");
  STITCH_ASSIGN(graph::Graph graph, e.graph());
  STITCH_ASSIGN(kernel::ContractionProblem problem, kernel::derive_contraction(std::move(graph)));
  STITCH_ASSIGN(std::string name, text_of(object, "name", to_string(problem)));
  return NamedProblem{std::move(name), std::move(problem)};
}

/// How products of f32 are made: as f32 unless a constraint's name stands there.
Result<graph::Constraints> arithmetic_of(const json& product) {
  STITCH_ASSIGN(const std::string name, text_of(product, "arithmetic", "f32"));
  graph::Constraints constraints;
  if (name == "tf32") constraints.tf32 = true;
  if (name == "tf32x3") constraints.tf32x3 = true;
  if (name == "bf16x3") constraints.bf16x3 = true;
  if (name == "f32" || constraints.any()) return constraints;
  return make_error(ErrorKind::invalid_argument, "'arithmetic' is none of f32, tf32, tf32x3 and bf16x3");
}

/// Of narrow operands with scales for each `scaled_by` of depth: of the left one for each row, of the right one for as
/// many columns.
Result<NamedProblem> scaled_of(const json& product) {
  lab::ScaledMatmul m;
  STITCH_ASSIGN(m.batch, extent_of(product, "batch", 1));
  STITCH_ASSIGN(m.rows, extent_of(product, "m", -1));
  STITCH_ASSIGN(m.columns, extent_of(product, "n", -1));
  STITCH_ASSIGN(m.depth, extent_of(product, "k", -1));
  STITCH_ASSIGN(m.left, dtype_of(product, "dtype", ""));
  STITCH_ASSIGN(m.result, dtype_of(product, "result", "f32"));
  STITCH_ASSIGN(m.part, extent_of(product, "scaled_by", -1));
  STITCH_ASSIGN(const bool left_turned, turned(product, "left"));
  STITCH_ASSIGN(const bool right_turned, turned(product, "right"));
  if (m.part == 0) return make_error(ErrorKind::invalid_argument, "'scaled_by' is 0");
  if (left_turned) return make_error(ErrorKind::invalid_argument, "'left' of a scaled product is plain");
  m.right = m.left;
  m.column_block = m.part;
  m.right_turned = !right_turned;
  graph::Builder builder;
  STITCH_ASSIGN(graph::Graph graph, builder.finish(results_of(builder, m)));
  STITCH_ASSIGN(kernel::ContractionProblem problem, kernel::derive_scaled(std::move(graph)));
  STITCH_ASSIGN(std::string name, text_of(product, "name", to_string(problem)));
  return NamedProblem{std::move(name), std::move(problem)};
}

Result<NamedProblem> problem_of(const json& product) {
  if (!product.is_object()) return make_error(ErrorKind::parse, "no object");
  if (product.contains("scaled_by")) return scaled_of(product);
  if (product.contains("keys")) return attention_of(product);
  if (product.contains("window")) return convolution_of(product);
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
  STITCH_ASSIGN(graph.constraints, arithmetic_of(product));
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
