#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/tensor_type.h"
#include "import/hlo/syntax.h"

/// The forms that attribute values take. Errors are ErrorKind::parse with line and column.
namespace stitch::import::hlo {

/// The attribute, or nothing.
const Attribute* find_attribute(const Instruction& instruction, std::string_view key);
/// The value's text; `fallback` when the attribute is absent.
std::string_view text_attribute(const Instruction& instruction, std::string_view key, std::string_view fallback = {});
/// The attribute, or an error that says which is missing.
Result<const Attribute*> require_attribute(const Instruction& instruction, std::string_view key);

/// "{0,1}"; empty when the attribute is absent.
Result<graph::Dims> list_attribute(const Instruction& instruction, std::string_view key);
/// "3"; `fallback` when the attribute is absent.
Result<std::int64_t> integer_attribute(const Instruction& instruction, std::string_view key, std::int64_t fallback);
Result<std::int64_t> integer_attribute(const Instruction& instruction, std::string_view key);
/// "true" or "false"; false when the attribute is absent.
Result<bool> flag_attribute(const Instruction& instruction, std::string_view key);
/// "name", "%name" or "{name, %name}".
Result<std::vector<std::string_view>> names_attribute(const Attribute& attribute);
/// A string's contents, quotes removed and escapes left; text without quotes as it is.
std::string_view unquoted(std::string_view value);

/// slice={[start:limit:stride], …}; a stride of 1 may be left out.
struct SliceText {
  graph::Dims starts, limits, strides;
};
Result<SliceText> slice_attribute(const Instruction& instruction);

/// padding=low_high_interiorxlow_high…; interior may be left out.
struct PaddingText {
  graph::Dims low, high, interior;
};
Result<PaddingText> padding_attribute(const Instruction& instruction);

/// window={size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}; what is left out has its
/// neutral value for `rank` dimensions. An absent window has rank 0 extents of size 1.
struct WindowText {
  graph::Dims sizes, strides, low, high, base_dilation, window_dilation;
  std::vector<bool> reversal;
};
Result<WindowText> window_attribute(const Instruction& instruction, std::size_t rank);

/// dim_labels=b01f_01io->b01f: which dimension is batch (input feature of the kernel), feature (output feature), and
/// the spatial ones in order.
struct DimLabels {
  struct Side {
    std::int64_t batch = -1, feature = -1;  ///< kernel: input feature, output feature
    graph::Dims spatial;
  };
  Side input, kernel, output;
};
Result<DimLabels> dim_labels_attribute(const Instruction& instruction);

}  // namespace stitch::import::hlo
