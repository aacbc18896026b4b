// Random numbers: their generator is the framework's own, so they stay boundaries; what is known is the result's type.
#include "import/onnx/families.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {
namespace {

constexpr std::string_view reason = "its random numbers cannot be reproduced";

Result<DType> stated_dtype(Call& c, DType fallback) {
  STITCH_ASSIGN(const std::int64_t code, c.node.integer("dtype", 0));
  if (code == 0) return fallback;
  const std::optional<DType> dtype = dtype_of(code);
  if (!dtype) return Call::wrong("attribute 'dtype' is {}", type_name(code));
  return *dtype;
}

}  // namespace

Result<Values> random_of_shape(Call& c) {
  STITCH_ASSIGN(const Dims dims, c.node.integers("shape", {}));
  STITCH_ASSIGN(const DType dtype, stated_dtype(c, DType::f32));
  return c.opaque({{dtype, dims}}, reason);
}

Result<Values> random_like(Call& c) {
  STITCH_ASSIGN(const DType dtype, stated_dtype(c, c.dtype(c.in(0))));
  return c.opaque({{dtype, c.dims(c.in(0))}}, reason);
}

Result<Values> multinomial(Call& c) {
  STITCH_TRY(c.need_rank(0, 2, 2));
  STITCH_ASSIGN(const std::int64_t samples, c.node.integer("sample_size", 1));
  STITCH_ASSIGN(const DType dtype, stated_dtype(c, DType::s32));
  return c.opaque({{dtype, {c.dims(c.in(0))[0], samples}}}, reason);
}

}  // namespace stitch::import::onnx
