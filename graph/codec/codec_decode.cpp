#include <limits>
#include <nlohmann/json.hpp>

#include "graph/codec/codec.h"
#include "graph/codec/codec_constant.h"
#include "graph/infer_checks.h"
#include "graph/verify.h"

namespace stitch::graph {
namespace {

using Json = nlohmann::json;

/// Where in the document a value is, for messages: "nodes[12].attributes.dims[0]". Built only when something is wrong.
struct Place {
  const Place* above = nullptr;
  std::string_view key;
  std::int64_t index = -1;

  [[nodiscard]] std::string text() const {
    std::string path = above == nullptr ? "" : above->text();
    if (index >= 0) return fmt::format("{}[{}]", path, index);
    if (key.empty()) return path;
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }
};

template <class... Args>
Error bad_at(const Place& place, fmt::format_string<Args...> format, Args&&... args) {
  const Error error = make_error(ErrorKind::invalid_argument, format, std::forward<Args>(args)...);
  const std::string path = place.text();
  return path.empty() ? error : error.within(path);
}

// ---- fields, by type

Status decode_field(const Json& value, const Place& place, std::int64_t& to) {
  const bool huge = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || huge) return bad_at(place, "expected an integer");
  to = value.get<std::int64_t>();
  return {};
}

Status decode_field(const Json& value, const Place& place, bool& to) {
  if (!value.is_boolean()) return bad_at(place, "expected true or false");
  to = value.get<bool>();
  return {};
}

Status decode_field(const Json& value, const Place& place, std::string& to) {
  if (!value.is_string()) return bad_at(place, "expected a string");
  to = text_of(value);
  return {};
}

template <class T>
Status decode_name(const Json& value, const Place& place, std::string_view what,
                   std::optional<T> (*find)(std::string_view), T& to) {
  if (!value.is_string()) return bad_at(place, "expected the name of {}", what);
  const std::optional<T> found = find(text_of(value));
  if (!found) return bad_at(place, "'{}' is not {}", text_of(value), what);
  to = *found;
  return {};
}

Status decode_field(const Json& value, const Place& place, DType& to) {
  return decode_name(value, place, "an element type", dtype_from_name, to);
}
Status decode_field(const Json& value, const Place& place, ReduceKind& to) {
  return decode_name(value, place, "a combiner", reduce_kind_from_name, to);
}
Status decode_field(const Json& value, const Place& place, Comparison& to) {
  return decode_name(value, place, "a comparison", comparison_from_name, to);
}

Status decode_field(const Json& value, const Place& place, TensorType& to) {
  if (!value.is_string()) return bad_at(place, "expected a type like \"f32[4,8]\"");
  Result<TensorType> type = parse_tensor_type(text_of(value));
  if (!type) return bad_at(place, "{}", type.error().message);
  to = std::move(*type);
  return {};
}

template <class T>
Status decode_field(const Json& value, const Place& place, std::vector<T>& to) {
  if (!value.is_array()) return bad_at(place, "expected an array");
  to.clear();
  for (std::size_t i = 0; i < value.size(); ++i) {
    T element{};
    STITCH_TRY(decode_field(value[i], Place{&place, {}, static_cast<std::int64_t>(i)}, element));
    to.push_back(std::move(element));
  }
  return {};
}

// ---- the document

class Decoder {
 public:
  explicit Decoder(const DecodeLimits& limits) : limits_(limits) {}

  Result<Graph> document(const Json& document) {
    const Place top;
    STITCH_TRY(check_object(document, top, {"constraints", "format", "name", "nodes", "results", "version"}));
    const auto format = document.find("format"), version = document.find("version");
    if (format == document.end() || *format != graph_format_name) {
      return make_error(ErrorKind::version_mismatch, "not a {} document", graph_format_name);
    }
    if (version == document.end() || *version != graph_format_version) {
      return make_error(ErrorKind::version_mismatch, "{} version {}, this is version {}", graph_format_name,
                        version == document.end() ? "missing" : version->dump(), graph_format_version);
    }
    STITCH_ASSIGN(Graph result, graph(document, top, 0));
    if (const auto found = document.find("constraints"); found != document.end())
      STITCH_TRY(constraints(*found, Place{&top, "constraints"}, result.constraints));
    STITCH_TRY(verify(result));
    return result;
  }

 private:
  static Status check_object(const Json& value, const Place& place, std::initializer_list<std::string_view> known) {
    if (!value.is_object()) return bad_at(place, "expected an object");
    for (const auto& [key, entry] : value.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) return bad_at(place, "unknown field '{}'", key);
    }
    return {};
  }

  static Status constraints(const Json& list, const Place& place, Constraints& to) {
    if (!list.is_array()) return bad_at(place, "expected an array of constraints");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Place at{&place, {}, static_cast<std::int64_t>(i)};
      std::string word;
      STITCH_TRY(decode_field(list[i], at, word));
      const Result<Constraints> one = parse_constraints(word);
      if (!one || !one->any() || word.find(',') != std::string::npos) return bad_at(at, "'{}' is no constraint", word);
      to = to | *one;
    }
    return {};
  }

  static Result<const Json*> member(const Json& object, const Place& place, std::string_view key) {
    const auto found = object.find(key);
    if (found == object.end()) return bad_at(place, "field '{}' is missing", key);
    return &*found;
  }

  /// A number, or [number, result].
  static Result<Value> value(const Json& entry, const Place& place) {
    std::int64_t parts[2] = {0, 0};
    if (entry.is_array() && entry.size() == 2) {
      STITCH_TRY(decode_field(entry[0], place, parts[0]));
      STITCH_TRY(decode_field(entry[1], place, parts[1]));
    } else if (entry.is_number_integer()) {
      STITCH_TRY(decode_field(entry, place, parts[0]));
    } else {
      return bad_at(place, "expected a node's number or [number, result]");
    }
    for (const std::int64_t part : parts) {
      if (part < 0 || part > std::numeric_limits<std::int32_t>::max()) return bad_at(place, "{} is no index", part);
    }
    return Value{static_cast<NodeId>(parts[0]), static_cast<std::int32_t>(parts[1])};
  }

  static Result<std::vector<Value>> values(const Json& list, const Place& place) {
    if (!list.is_array()) return bad_at(place, "expected an array");
    std::vector<Value> result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      STITCH_ASSIGN(const Value one, value(list[i], Place{&place, {}, static_cast<std::int64_t>(i)}));
      result.push_back(one);
    }
    return result;
  }

  Status constant(const Json& object, const Place& place, ConstantAttributes& to) {
    STITCH_TRY(check_object(object, place, {"data", "type"}));
    STITCH_ASSIGN(const Json* type, member(object, place, "type"));
    STITCH_TRY(decode_field(*type, Place{&place, "type"}, to.type));
    if (const Status extents = check_extents("type", to.type.dims); !extents) {
      return bad_at(place, "{}", extents.error().message);
    }
    STITCH_ASSIGN(const Json* data, member(object, place, "data"));
    const bool splat = data->is_object() && data->contains("splat");
    constant_bytes_ += splat ? byte_size(to.type.dtype) : to.type.bytes();
    if (constant_bytes_ > limits_.constant_bytes) {
      return make_error(ErrorKind::resource_exhausted, "{}: constants of more than {} bytes", place.text(),
                        limits_.constant_bytes);
    }
    return decode_data(*data, Place{&place, "data"}.text(), to);
  }

  Status attributes(const Json& object, const Place& place, Attributes& to) {
    if (!object.is_object()) return bad_at(place, "expected an object");
    if (auto* data = std::get_if<ConstantAttributes>(&to)) return constant(object, place, *data);
    Status status;
    std::size_t known = 0;
    std::vector<std::string_view> names;
    std::visit(
        [&](auto& a) {
          using A = std::decay_t<decltype(a)>;
          if constexpr (!std::is_same_v<A, ConstantAttributes>) {
            A::fields(a, [&](std::string_view name, auto& field) {
              names.push_back(name);
              if (!status) return;
              const auto found = object.find(name);
              if (found == object.end()) {
                status = bad_at(place, "field '{}' is missing", name);
                return;
              }
              ++known;
              status = decode_field(*found, Place{&place, name}, field);
            });
          }
        },
        to);
    STITCH_TRY(status);
    if (known == object.size()) return {};
    for (const auto& [key, entry] : object.items()) {
      if (std::find(names.begin(), names.end(), key) == names.end()) return bad_at(place, "unknown field '{}'", key);
    }
    return {};
  }

  Result<std::vector<std::shared_ptr<const Graph>>> regions(const Json& list, const Place& place, int depth) {
    if (!list.is_array()) return bad_at(place, "expected an array");
    if (depth >= limits_.region_depth) {
      return make_error(ErrorKind::resource_exhausted, "{}: regions are nested more than {} deep", place.text(),
                        limits_.region_depth);
    }
    std::vector<std::shared_ptr<const Graph>> result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Place at{&place, {}, static_cast<std::int64_t>(i)};
      STITCH_TRY(check_object(list[i], at, {"name", "nodes", "results"}));
      STITCH_ASSIGN(Graph region, graph(list[i], at, depth + 1));
      result.push_back(std::make_shared<const Graph>(std::move(region)));
    }
    return result;
  }

  Status node(const Json& entry, const Place& place, int depth, Graph& graph) {
    STITCH_TRY(check_object(entry, place, {"attributes", "line", "name", "op", "operands", "regions"}));
    if (++nodes_ > limits_.nodes) {
      return make_error(ErrorKind::resource_exhausted, "more than {} nodes", limits_.nodes);
    }
    STITCH_ASSIGN(const Json* op_name, member(entry, place, "op"));
    Op op{};
    STITCH_TRY(decode_name(*op_name, Place{&place, "op"}, "an operator", op_from_name, op));
    std::vector<Value> operands;
    if (const auto found = entry.find("operands"); found != entry.end()) {
      STITCH_ASSIGN(operands, values(*found, Place{&place, "operands"}));
    }
    Attributes decoded = default_attributes(op);
    static const Json none = Json::object();
    const auto given = entry.find("attributes");
    STITCH_TRY(attributes(given == entry.end() ? none : *given, Place{&place, "attributes"}, decoded));
    std::string name;
    if (const auto found = entry.find("name"); found != entry.end()) {
      STITCH_TRY(decode_field(*found, Place{&place, "name"}, name));
    }
    std::int64_t line = 0;
    if (const auto found = entry.find("line"); found != entry.end()) {
      STITCH_TRY(decode_field(*found, Place{&place, "line"}, line));
      if (line < 0 || line > std::numeric_limits<std::int32_t>::max()) return bad_at(place, "line {}", line);
    }
    std::vector<std::shared_ptr<const Graph>> bodies;
    if (const auto found = entry.find("regions"); found != entry.end()) {
      STITCH_ASSIGN(bodies, regions(*found, Place{&place, "regions"}, depth));
    }
    const Result<Value> added = graph.add(op, std::move(operands), std::move(decoded), std::move(name),
                                          static_cast<std::int32_t>(line), std::move(bodies));
    if (!added) return added.error().within(place.text());
    return {};
  }

  Result<Graph> graph(const Json& document, const Place& place, int depth) {
    Graph result;
    if (const auto found = document.find("name"); found != document.end()) {
      STITCH_TRY(decode_field(*found, Place{&place, "name"}, result.name));
    }
    STITCH_ASSIGN(const Json* nodes, member(document, place, "nodes"));
    const Place nodes_place{&place, "nodes"};
    if (!nodes->is_array()) return bad_at(nodes_place, "expected an array");
    for (std::size_t i = 0; i < nodes->size(); ++i) {
      STITCH_TRY(node((*nodes)[i], Place{&nodes_place, {}, static_cast<std::int64_t>(i)}, depth, result));
    }
    STITCH_ASSIGN(const Json* list, member(document, place, "results"));
    const Place results_place{&place, "results"};
    STITCH_ASSIGN(std::vector<Value> results, values(*list, results_place));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Value value = results[i];
      if (value.node >= result.size() || value.result >= std::ssize(result.node(value.node).results)) {
        return bad_at(Place{&results_place, {}, static_cast<std::int64_t>(i)}, "value {}.{} does not exist", value.node,
                      value.result);
      }
    }
    result.set_results(std::move(results));
    return result;
  }

  const DecodeLimits& limits_;
  std::int64_t nodes_ = 0, constant_bytes_ = 0;
};

}  // namespace

Result<Graph> from_document(const Json& document, const DecodeLimits& limits) {
  return Decoder(limits).document(document);
}

Result<Graph> decode(std::string_view bytes, Encoding encoding, const DecodeLimits& limits) {
  STITCH_ASSIGN(const Json document, parse_document(bytes, encoding, limits.bytes));
  return from_document(document, limits);
}

}  // namespace stitch::graph
