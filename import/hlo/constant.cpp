#include "import/hlo/constant.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "graph/literal.h"
#include "import/hlo/scanner.h"

namespace stitch::import::hlo {
namespace {

using graph::DType;

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size();
}

/// Of the integers of a type, on one side of 0.
std::uint64_t largest_magnitude(DType dtype, bool negative) {
  if (dtype == DType::pred) return negative ? 0 : 1;
  if (negative && !graph::is_signed_integer(dtype)) return 0;
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * graph::byte_size(dtype));
  return graph::is_signed_integer(dtype) ? all / 2 + (negative ? 1 : 0) : all;
}

/// Appends one element's bytes; false when the text is no value of the type.
bool append_integer(DType dtype, bool negative, std::string_view word, std::vector<std::byte>& data) {
  std::uint64_t magnitude = 0;
  if (dtype == DType::pred && (word == "true" || word == "false")) {
    magnitude = word == "true" ? 1 : 0;
  } else if (!read_number(word, magnitude)) {
    return false;
  }
  if (magnitude > largest_magnitude(dtype, negative)) return false;
  const std::uint64_t bits = negative ? ~magnitude + 1 : magnitude;
  const std::size_t at = data.size();
  data.resize(at + graph::byte_size(dtype));
  graph::store_integer(dtype, bits, &data[at]);
  return true;
}

bool append_float(DType dtype, bool negative, std::string_view word, std::vector<std::byte>& data) {
  double value = 0;
  if (word == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (float single = 0; dtype == DType::f32 && read_number(word, single)) {
    value = single;  // rounded once, from the decimal digits
  } else if (!read_number(word, value)) {
    return false;
  }
  const std::size_t at = data.size();
  data.resize(at + graph::byte_size(dtype));
  graph::store_element(dtype, negative ? -value : value, &data[at]);
  return true;
}

}  // namespace

bool is_elided(const Instruction& constant) { return constant.payload.find("...") != std::string_view::npos; }

Result<graph::ConstantAttributes> parse_constant(const Instruction& constant) {
  const Shape& shape = constant.shape;
  graph::ConstantAttributes result{{*shape.dtype, shape.dims}, {}};
  const std::size_t wanted = result.type.bytes();
  Scanner scanner(constant.payload, constant.payload_at);
  while (!scanner.at_end()) {
    // The order of the elements is all that matters: braces and commas only group them.
    if (scanner.take("{") || scanner.take("}") || scanner.take(",")) continue;
    const Position at = scanner.position();
    if (result.data.size() >= wanted) return parse_error(at, "the literal has too many elements");
    scanner.take("+");
    const bool negative = scanner.take("-");
    std::string_view word = scanner.word();
    // from_chars reads "1e+06" only as a whole, and '+' is no part of a word.
    if (!word.empty() && (word.back() == 'e' || word.back() == 'E') && scanner.here() == '+') {
      scanner.take("+");
      const std::string_view exponent = scanner.word();
      word = {word.data(), static_cast<std::size_t>(exponent.data() + exponent.size() - word.data())};
    }
    if (word == "nan" && scanner.here() == '(') STITCH_TRY(scanner.skip_balanced());  // its payload
    const bool read = graph::is_floating(*shape.dtype) ? append_float(*shape.dtype, negative, word, result.data)
                                                       : append_integer(*shape.dtype, negative, word, result.data);
    if (!read)
      return parse_error(at, fmt::format("'{}{}' is no value of {}", negative ? "-" : "", word, shape.element));
  }
  if (result.data.size() != wanted) {
    return scanner.error(fmt::format("the literal has {} bytes, its shape {}", result.data.size(), wanted));
  }
  return result;
}

}  // namespace stitch::import::hlo
