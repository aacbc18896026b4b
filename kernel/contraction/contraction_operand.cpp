#include "kernel/contraction/contraction_operand.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

/// Whether each run of so many elements has one place in the windows.
bool windows_agree(const ContractionOperand& operand, std::int64_t elements, Contiguity along) {
  return std::ranges::all_of(operand.windows, [&](const WindowDimension& window) {
    const WindowDimension::Position& position = along == Contiguity::free ? window.free : window.contracted;
    return window.stride % elements == 0 && (position.extent == 1 || position.divisor % elements == 0);
  });
}

/// Whether the same expression, but for strides, finds an element along both; the outermost extent is in none.
bool alike(const ContractionDigits& a, const ContractionDigits& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (i > 0 && a[i].extent != b[i].extent) return false;
    if ((a[i].stride == 0) != (b[i].stride == 0)) return false;
  }
  return true;
}

}  // namespace

bool runs(const ContractionDigits& digits) { return !digits.empty() && digits.back().stride == 1; }

bool multiples(const ContractionDigits& digits, std::int64_t elements, bool contiguous) {
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool run = contiguous && i + 1 == digits.size();
    if ((run ? digits[i].extent : digits[i].stride) % elements != 0) return false;
  }
  return true;
}

Contiguity contiguity(const ContractionOperand& operand) {
  if (runs(operand.contracted)) return Contiguity::contracted;
  return runs(operand.free) ? Contiguity::free : Contiguity::none;
}

int widest_access(const ContractionOperand& operand) {
  const int size = graph::byte_size(operand.dtype);
  const Contiguity along = contiguity(operand);
  if (along == Contiguity::none) return size;
  int bytes = widest_bytes;
  for (; bytes > size; bytes /= 2) {
    const std::int64_t elements = bytes / size;
    if (operand.offset % elements == 0 && multiples(operand.batch, elements, false) &&
        multiples(operand.free, elements, along == Contiguity::free) &&
        multiples(operand.contracted, elements, along == Contiguity::contracted) &&
        windows_agree(operand, elements, along))
      break;
  }
  return bytes;
}

bool read_alike(const ContractionOperand& a, const ContractionOperand& b) {
  return a.dtype == b.dtype && contiguity(a) == contiguity(b) && alike(a.batch, b.batch) && alike(a.free, b.free) &&
         alike(a.contracted, b.contracted);
}

}  // namespace stitch::kernel
