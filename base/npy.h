#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch {

/// An array as NumPy's .npy files hold it (format versions 1 to 3, NEP 1): row-major, little-endian.
struct NpyArray {
  std::string type;                 ///< NumPy's kind and bytes: "f4", "i8", "u1", "b1"; "V2" for types NumPy has not
  std::vector<std::int64_t> shape;  ///< empty: a single value
  std::string data;                 ///< product of shape × bytes of an element

  [[nodiscard]] std::int64_t count() const;

  bool operator==(const NpyArray&) const = default;
};

/// Errors: parse (no .npy file, cut off, a header that is none; the message says which), unsupported (column-major,
/// big-endian, object arrays and structures).
Result<NpyArray> parse_npy(std::string_view bytes);

/// The file of an array (version 1.0).
std::string encode_npy(const NpyArray& array);

}  // namespace stitch
