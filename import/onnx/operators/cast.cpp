// Conversions between element types.
#include <onnx/onnx_pb.h>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

Result<Values> cast_to(Call& c, DType target) {
  STITCH_ASSIGN(const std::int64_t saturate, c.node.integer("saturate", 1));
  Value x = c.in(0);
  const DType source = c.dtype(x);
  const bool to_f8 = target == DType::f8e4m3 || target == DType::f8e5m2;
  if (to_f8 && saturate != 0 && source != target && source != DType::pred) {
    if (!graph::is_floating(source) || graph::byte_size(source) == 1) x = c.b.convert(x, DType::f32);
    const double largest = target == DType::f8e4m3 ? 448.0 : 57344.0;
    x = min(c.b, max(c.b, x, -largest), largest);
  }
  return Values{c.b.convert(x, target)};
}

}  // namespace

Result<Values> cast(Call& c) {
  std::int64_t code = 0;
  if (const pb::AttributeProto* to = c.node.find("to"); to != nullptr && to->has_s()) {
    // Opset 1 named the type in a string.
    pb::TensorProto::DataType parsed = pb::TensorProto::UNDEFINED;
    pb::TensorProto::DataType_Parse(to->s(), &parsed);
    code = parsed;
  } else {
    STITCH_ASSIGN(code, c.node.integer("to", 0));
  }
  const std::optional<DType> target = dtype_of(code);
  if (!target) return Call::unsupported("conversion to {}", type_name(code));
  return cast_to(c, *target);
}

Result<Values> cast_like(Call& c) { return cast_to(c, c.dtype(c.in(1))); }

Result<Values> bit_cast(Call& c) {
  STITCH_ASSIGN(const std::int64_t code, c.node.integer("to", 0));
  const std::optional<DType> target = dtype_of(code);
  if (!target) return Call::unsupported("bit conversion to {}", type_name(code));
  return Values{c.b.bitcast(c.in(0), *target)};
}

}  // namespace stitch::import::onnx
