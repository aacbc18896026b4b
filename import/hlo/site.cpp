#include "import/hlo/site.h"

#include "import/hlo/scanner.h"

namespace stitch::import::hlo {
namespace {

using graph::TensorType;

Status add_leaves(const Shape& shape, std::vector<TensorType>& leaves) {
  switch (shape.kind) {
    case Shape::Kind::other: return {};
    case Shape::Kind::tuple:
      for (const Shape& element : shape.elements) STITCH_TRY(add_leaves(element, leaves));
      return {};
    case Shape::Kind::array: break;
  }
  if (!shape.dtype) {
    return make_error(ErrorKind::unsupported, "element type {} is not supported", shape.element);
  }
  if (shape.dynamic) return make_error(ErrorKind::unsupported, "dynamic extents are not supported");
  leaves.push_back({*shape.dtype, shape.dims});
  return {};
}

}  // namespace

std::string place_of(const Instruction& instruction) {
  return fmt::format("{} '{}'", instruction.opcode, instruction.name);
}

Result<std::vector<TensorType>> leaf_types(const Shape& shape) {
  std::vector<TensorType> leaves;
  STITCH_TRY(add_leaves(shape, leaves));
  return leaves;
}

std::size_t leaf_count(const Shape& shape) {
  if (shape.kind == Shape::Kind::other) return 0;
  if (shape.kind == Shape::Kind::array) return 1;
  std::size_t count = 0;
  for (const Shape& element : shape.elements) count += leaf_count(element);
  return count;
}

Error Site::error(std::string_view message) const {
  return parse_error(instruction.at, fmt::format("{}: {}", place_of(instruction), message));
}

}  // namespace stitch::import::hlo
