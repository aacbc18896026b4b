#include "graph/tensor_type.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <charconv>

namespace stitch::graph {

bool multiply_extent(std::int64_t& count, std::int64_t extent) {
  const std::int64_t factor = std::max<std::int64_t>(extent, 1);
  if (factor > most_elements / count) return false;
  count *= factor;
  return true;
}

std::int64_t element_count(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
  }
  return strides;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.dims));
}

Result<TensorType> parse_tensor_type(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return make_error(ErrorKind::parse, "bad tensor type '{}': {}", text, why);
  };
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos || text.back() != ']') return bad("expected DTYPE[DIMS]");
  const std::optional<DType> dtype = dtype_from_name(text.substr(0, bracket));
  if (!dtype) return bad("unknown element type");
  TensorType type{*dtype, {}};
  std::string_view rest = text.substr(bracket + 1, text.size() - bracket - 2);
  while (!rest.empty()) {
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (error != std::errc{} || extent < 0) return bad("extents are non-negative integers");
    rest.remove_prefix(end - rest.data());
    type.dims.push_back(extent);
    if (rest.empty()) break;
    if (rest.front() != ',' || rest.size() == 1) return bad("extents are separated by commas");
    rest.remove_prefix(1);
  }
  return type;
}

}  // namespace stitch::graph
