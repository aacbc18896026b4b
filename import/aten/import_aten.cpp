// The document that the Python side makes of an FX graph, read and lowered node by node.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "graph/codec/codec.h"
#include "graph/verify.h"
#include "import/aten/rules.h"
#include "import/import.h"

namespace stitch::import {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "stitch-aten";
constexpr std::int64_t format_version = 1;

Error malformed(std::string_view place, std::string_view expected) {
  return make_error(ErrorKind::invalid_argument, "{}: expected {}", place, expected);
}

/// A field that must be there: a string, a list, an object.
Result<const json*> field(const json& object, const char* name, json::value_t type, std::string_view place) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end() || found->type() != type)
    return malformed(place, fmt::format("{} '{}'", json(type).type_name(), name));
  return &*found;
}

Result<std::string> text(const json& object, const char* name, std::string_view place) {
  STITCH_ASSIGN(const json* found, field(object, name, json::value_t::string, place));
  return found->get<std::string>();
}

Result<graph::TensorType> type_of(const json& text, std::string_view place) {
  if (!text.is_string()) return malformed(place, "a type such as \"f32[4,8]\"");
  Result<graph::TensorType> type = graph::parse_tensor_type(text.get_ref<const std::string&>());
  return type ? type : type.error().within(place);
}

class Reader {
 public:
  Reader(const json& document, const ImportOptions& options) : document_(document), options_(options) {}

  Result<Imported> run() {
    STITCH_TRY(read_inputs());
    STITCH_ASSIGN(const json* nodes, field(document_, "nodes", json::value_t::array, "document"));
    for (std::size_t i = 0; i < nodes->size(); ++i) {
      STITCH_TRY(read_node((*nodes)[i], i));
      if (builder_.graph().size() > options_.max_nodes)
        return make_error(ErrorKind::resource_exhausted, "more than {} nodes", options_.max_nodes);
    }
    return read_outputs();
  }

 private:
  Status remember(std::string name, aten::Values values, std::string_view place) {
    if (known_.contains(name)) return malformed(place, fmt::format("another name than '{}', which is taken", name));
    known_.emplace(std::move(name), std::move(values));
    return {};
  }

  Status read_inputs() {
    STITCH_ASSIGN(const json* inputs, field(document_, "inputs", json::value_t::array, "document"));
    for (std::size_t i = 0; i < inputs->size(); ++i) {
      const std::string place = fmt::format("inputs[{}]", i);
      STITCH_ASSIGN(const std::string name, text((*inputs)[i], "name", place));
      STITCH_ASSIGN(const json* type_text, field((*inputs)[i], "type", json::value_t::string, place));
      STITCH_ASSIGN(const graph::TensorType type, type_of(*type_text, place));
      STITCH_TRY(remember(name, {builder_.parameter(type.dtype, type.dims, name)}, place));
      imported_.parameters.push_back(name);
    }
    return {};
  }

  /// "node 3 'add' (aten.add.Tensor), model.py:12"
  static std::string place_of(const json& node, std::size_t index, std::string_view op) {
    const std::string where =
        node.contains("where") && node["where"].is_string() ? node["where"].get<std::string>() : "";
    const std::string name = node.contains("name") && node["name"].is_string() ? node["name"].get<std::string>() : "";
    return fmt::format("node {} '{}' ({}){}{}", index, name, op, where.empty() ? "" : ", ", where);
  }

  Status read_node(const json& node, std::size_t index) {
    const std::string place = fmt::format("nodes[{}]", index);
    STITCH_ASSIGN(const std::string name, text(node, "name", place));
    STITCH_ASSIGN(const std::string op, text(node, "op", place));
    STITCH_ASSIGN(const json* arguments, field(node, "args", json::value_t::object, place));
    STITCH_ASSIGN(const json* results, field(node, "results", json::value_t::array, place));
    std::vector<graph::TensorType> types;
    std::vector<bool> asked;
    for (const json& result : *results) {
      asked.push_back(!result.is_null());
      if (!asked.back()) {
        types.emplace_back();
        continue;
      }
      STITCH_ASSIGN(graph::TensorType type, type_of(result, fmt::format("{}.results", place)));
      types.push_back(std::move(type));
    }
    const std::string where = place_of(node, index, op);
    if (types.empty()) return malformed(place, "a result at least");
    const aten::Rule* rule = aten::find_rule(op);
    if (rule == nullptr) return Error{ErrorKind::unsupported, "no rule for this operator"}.within(where);
    builder_.at(name);
    aten::Call call(builder_, known_, *arguments, types);
    aten::Values values = rule->lower(call);
    STITCH_TRY(check(values, types, asked, where));
    return remember(name, std::move(values), place);
  }

  /// What the rule made is what PyTorch declares; a float that was computed wider is rounded. What PyTorch did not ask
  /// of an operator is nothing that an argument could name.
  Status check(aten::Values& values, const std::vector<graph::TensorType>& types, const std::vector<bool>& asked,
               const std::string& where) {
    for (std::size_t i = 0; i < values.size() && i < types.size(); ++i) {
      if (!asked[i]) values[i] = {-1, 0};
      if (!asked[i]) continue;
      const bool floats = graph::is_floating(builder_.dtype(values[i])) && graph::is_floating(types[i].dtype);
      if (floats && !builder_.failed()) values[i] = builder_.convert(values[i], types[i].dtype);
    }
    if (builder_.failed()) return builder_.finish({}).error().within(where);
    if (values.size() != types.size())
      return make_error(ErrorKind::invalid_argument, "{}: {} results are declared, there are {}", where, types.size(),
                        values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!asked[i] || builder_.type(values[i]) == types[i]) continue;
      return make_error(ErrorKind::invalid_argument, "{}: result {} is declared {}, its arguments give {}", where, i,
                        graph::to_string(types[i]), graph::to_string(builder_.type(values[i])));
    }
    return {};
  }

  Result<Imported> read_outputs() {
    STITCH_ASSIGN(const json* outputs, field(document_, "outputs", json::value_t::array, "document"));
    const json arguments = {{"outputs", *outputs}};
    aten::Call call(builder_, known_, arguments, {graph::TensorType{}});
    const aten::Values results = call.tensors("outputs");
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].node < 0 && !builder_.failed()) return malformed(fmt::format("outputs[{}]", i), "a value");
      imported_.results.push_back((*outputs)[i].value("value", std::string()));
    }
    STITCH_ASSIGN(imported_.graph, builder_.finish(results));
    imported_.graph.name = document_.value("name", std::string());
    STITCH_TRY(graph::verify(imported_.graph));
    imported_.format = "aten";
    return std::move(imported_);
  }

  const json& document_;
  const ImportOptions& options_;
  graph::Builder builder_;
  aten::Known known_;
  Imported imported_;
};

}  // namespace

Result<Imported> import_aten(std::string_view bytes, const ImportOptions& options) {
  STITCH_ASSIGN(const json document, graph::parse_document(bytes, graph::Encoding::json, options.max_bytes));
  STITCH_ASSIGN(const std::string format, text(document, "format", "document"));
  const json version = document.value("version", json());
  if (format != format_name || version != format_version) {
    return make_error(ErrorKind::version_mismatch, "document: expected format \"{}\" of version {}, found \"{}\", {}",
                      format_name, format_version, format, version.dump());
  }
  if (document.contains("name") && !document["name"].is_string()) return malformed("document", "string 'name'");
  return Reader(document, options).run();
}

bool aten_operator_known(std::string_view op) { return aten::find_rule(op) != nullptr; }

}  // namespace stitch::import
