#include "import/aten/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/literal.h"

namespace stitch::import::aten {

using nlohmann::json;

const json* Call::find(std::string_view name) const {
  const auto found = arguments_.find(name);
  return found == arguments_.end() || found->is_null() ? nullptr : &*found;
}

void Call::wrong(std::string_view name, std::string_view expected) {
  const json* given = find(name);
  std::string text = given == nullptr ? "nothing" : given->dump();
  if (text.size() > 60) text = text.substr(0, 60) + "…";
  b.fail(make_error(ErrorKind::invalid_argument, "argument '{}': expected {}, found {}", name, expected, text));
}

Values Call::unsupported(std::string reason) {
  b.fail({ErrorKind::unsupported, std::move(reason)});
  return {};
}

bool Call::is_tensor(std::string_view name) const {
  const json* given = find(name);
  return given != nullptr && given->is_object() && given->contains("value");
}

bool Call::is_integer(std::string_view name) const {
  const json* given = find(name);
  return given != nullptr && given->is_number_integer();
}

Value Call::value_of(const json& reference, std::string_view name) {
  if (!reference.is_object() || !reference.contains("value") || !reference["value"].is_string()) {
    wrong(name, "a tensor");
    return {};
  }
  const auto found = known_.find(reference["value"].get_ref<const std::string&>());
  const json index = reference.value("result", json(0));
  const std::int64_t result = index.is_number_integer() ? index.get<std::int64_t>() : -1;
  if (found == known_.end() || result < 0 || result >= std::ssize(found->second)) {
    wrong(name, "a value of an earlier node");
    return {};
  }
  if (found->second[result].node < 0) wrong(name, "a result that its node was asked for");
  return found->second[result];
}

Value Call::tensor(std::string_view name) {
  const json* given = find(name);
  if (given != nullptr) return value_of(*given, name);
  wrong(name, "a tensor");
  return {};
}

Values Call::tensors(std::string_view name) {
  const json* given = find(name);
  Values values;
  if (given == nullptr || !given->is_array()) {
    wrong(name, "a list of tensors");
    return values;
  }
  for (const json& entry : *given) values.push_back(entry.is_null() ? Value{} : value_of(entry, name));
  return values;
}

/// Numbers that JSON cannot write are {"float": "inf"}.
std::optional<double> Call::number_of(const json& value) const {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_object() || !value.contains("float")) return std::nullopt;
  if (value["float"] == "inf") return std::numeric_limits<double>::infinity();
  if (value["float"] == "-inf") return -std::numeric_limits<double>::infinity();
  if (value["float"] == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

Value Call::scalar(const json& number, std::string_view name, DType dtype) {
  const std::optional<double> value = number_of(number);
  if (!value) {
    wrong(name, "a tensor or a number");
    return {};
  }
  // As a double, a 64-bit integer would be rounded.
  if (number.is_number_integer() && graph::is_integer(dtype))
    return b.constant(graph::dense_integers({dtype, {}}, std::array{number.get<std::int64_t>()}));
  return b.scalar(dtype, *value);
}

Value Call::operand(std::string_view name, DType dtype) {
  const json* given = find(name);
  if (given == nullptr) {
    wrong(name, "a tensor or a number");
    return {};
  }
  return is_tensor(name) ? b.convert(value_of(*given, name), dtype) : scalar(*given, name, dtype);
}

DType Call::wide_dtype() const {
  const DType dtype = result().dtype;
  return graph::is_floating(dtype) && graph::byte_size(dtype) < 4 ? DType::f32 : dtype;
}

DType Call::arithmetic_dtype(std::initializer_list<std::string_view> names) const {
  const bool has_number = std::ranges::any_of(names, [&](auto name) { return has(name) && !is_tensor(name); });
  return has_number ? wide_dtype() : result().dtype;
}

double Call::number(std::string_view name, double otherwise) {
  const json* given = find(name);
  if (given == nullptr) return otherwise;
  if (const std::optional<double> value = number_of(*given)) return *value;
  wrong(name, "a number");
  return otherwise;
}

namespace {

/// Beyond every extent: what is computed with it does not overflow. (A slice to the end ends at 2^63 - 1 in PyTorch.)
std::int64_t bounded(const json& integer) {
  constexpr std::int64_t most = std::int64_t{1} << 48;
  if (integer.is_number_unsigned() && integer.get<std::uint64_t>() > most) return most;
  return std::clamp(integer.get<std::int64_t>(), -most, most);
}

}  // namespace

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) {
  const json* given = find(name);
  if (given == nullptr) return otherwise;
  if (given->is_number_integer()) return bounded(*given);
  wrong(name, "an integer");
  return otherwise;
}

bool Call::flag(std::string_view name, bool otherwise) {
  const json* given = find(name);
  if (given == nullptr) return otherwise;
  if (given->is_boolean()) return given->get<bool>();
  wrong(name, "true or false");
  return otherwise;
}

std::string Call::text(std::string_view name) {
  const json* given = find(name);
  if (given == nullptr) return {};
  if (given->is_string()) return given->get<std::string>();
  wrong(name, "a word");
  return {};
}

Dims Call::integers(std::string_view name) {
  const json* given = find(name);
  if (given == nullptr) return {};
  if (given->is_number_integer()) return {bounded(*given)};
  Dims list;
  if (given->is_array()) {
    for (const json& entry : *given) {
      if (entry.is_number_integer()) list.push_back(bounded(entry));
    }
    if (list.size() == given->size()) return list;
  }
  wrong(name, "a list of integers");
  return {};
}

std::optional<DType> Call::dtype(std::string_view name) {
  const json* given = find(name);
  if (given == nullptr) return std::nullopt;
  std::optional<DType> dtype;
  if (given->is_object() && given->contains("dtype") && (*given)["dtype"].is_string())
    dtype = graph::dtype_from_name((*given)["dtype"].get_ref<const std::string&>());
  if (!dtype) wrong(name, "an element type");
  return dtype;
}

std::int64_t Call::dimension(std::string_view name, std::int64_t rank, std::int64_t otherwise) {
  const std::int64_t given = integer(name, otherwise);
  const std::int64_t all = std::max<std::int64_t>(rank, 1);  // a scalar counts as one dimension
  if (given >= -all && given < all) return given < 0 ? given + all : given;
  wrong(name, fmt::format("a dimension of a tensor of rank {}", rank));
  return 0;
}

Dims Call::dimensions(std::string_view name, std::int64_t rank) {
  Dims list = integers(name);
  if (list.empty()) {
    list.resize(rank);
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  const std::int64_t all = std::max<std::int64_t>(rank, 1);
  for (std::int64_t& entry : list) {
    if (entry < -all || entry >= all) {
      wrong(name, fmt::format("dimensions of a tensor of rank {}", rank));
      return {};
    }
    if (entry < 0) entry += all;
  }
  if (rank == 0) return {};
  std::ranges::sort(list);
  return list;
}

namespace {

/// PyTorch's lattice of element types.
DType promote(DType x, DType y) {
  if (x == y || y == DType::pred) return x;
  if (x == DType::pred) return y;
  if (graph::is_floating(x) != graph::is_floating(y)) return graph::is_floating(x) ? x : y;
  const int x_bytes = graph::byte_size(x), y_bytes = graph::byte_size(y);
  if (graph::is_floating(x)) return x_bytes == y_bytes ? DType::f32 : x_bytes > y_bytes ? x : y;
  if (graph::is_signed_integer(x) == graph::is_signed_integer(y)) return x_bytes > y_bytes ? x : y;
  const DType with_sign = graph::is_signed_integer(x) ? x : y;
  const int unsigned_bytes = graph::is_signed_integer(x) ? y_bytes : x_bytes;
  if (graph::byte_size(with_sign) > unsigned_bytes) return with_sign;
  return unsigned_bytes == 1 ? DType::s16 : unsigned_bytes == 2 ? DType::s32 : DType::s64;
}

/// What a stronger kind of arguments and a weaker one make together.
std::optional<DType> joined(std::optional<DType> strong, std::optional<DType> weak) {
  if (!strong || !weak) return strong ? strong : weak;
  if (graph::is_floating(*strong)) return strong;
  if (*strong == DType::pred || graph::is_floating(*weak)) return promote(*strong, *weak);
  return strong;
}

}  // namespace

DType Call::promoted(std::initializer_list<std::string_view> names) {
  std::array<std::optional<DType>, 3> kinds;  // tensors, 0-dimensional ones, numbers
  for (const std::string_view name : names) {
    const json* given = find(name);
    if (given == nullptr) continue;
    DType dtype = given->is_boolean() ? DType::pred : given->is_number_integer() ? DType::s64 : DType::f32;
    std::size_t kind = 2;
    if (is_tensor(name)) {
      const Value value = value_of(*given, name);
      dtype = b.dtype(value);
      kind = b.dims(value).empty() ? 1 : 0;
    }
    kinds[kind] = kinds[kind] ? promote(*kinds[kind], dtype) : dtype;
  }
  return joined(joined(kinds[0], kinds[1]), kinds[2]).value_or(DType::f32);
}

}  // namespace stitch::import::aten
