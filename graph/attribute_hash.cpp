#include "graph/attribute_hash.h"

#include <type_traits>
#include <variant>

namespace stitch::graph {
namespace {

/// How HashDetail::family sees one field.
enum class Abstraction : std::uint8_t { keep, drop, length, sign, is_one };

template <class A>
Abstraction abstraction([[maybe_unused]] std::string_view field) {
  using enum Abstraction;
  if constexpr (std::is_same_v<A, ConstantAttributes>) return field == "data" ? drop : keep;
  if constexpr (std::is_same_v<A, OpaqueAttributes>) return field == "config" ? drop : keep;
  if constexpr (std::is_same_v<A, LoopAttributes>) return drop;
  if constexpr (std::is_same_v<A, BroadcastAttributes>) return field == "dims" ? length : keep;
  if constexpr (std::is_same_v<A, ReshapeAttributes>) return length;
  if constexpr (std::is_same_v<A, SliceAttributes>) {
    return field == "starts" ? sign : field == "limits" ? length : keep;
  }
  if constexpr (std::is_same_v<A, PadAttributes>) return field == "interior" ? keep : sign;
  if constexpr (std::is_same_v<A, DynamicSliceAttributes>) return is_one;
  if constexpr (std::is_same_v<A, GatherAttributes>) return field == "slice_sizes" ? is_one : keep;
  return keep;
}

/// Visits the fields of one attribute struct A.
template <class A>
class FieldHasher {
 public:
  FieldHasher(Hasher& hasher, HashDetail detail) : hasher_(hasher), detail_(detail) {}

  template <class T>
  void operator()(std::string_view name, const T& value) {
    const Abstraction how = detail_ == HashDetail::exact ? Abstraction::keep : abstraction<A>(name);
    if (how == Abstraction::drop) return;
    hasher_.text(name);
    if constexpr (std::is_same_v<T, Dims>) {
      dims(value, how);
    } else {
      plain(value);
    }
  }

 private:
  void dims(const Dims& list, Abstraction how) {
    hasher_.integer(list.size());
    if (how == Abstraction::length) return;
    for (const std::int64_t entry : list) {
      std::int64_t seen = entry;
      if (how == Abstraction::sign) seen = (entry > 0) - (entry < 0);
      if (how == Abstraction::is_one) seen = entry == 1;
      hasher_.integer(static_cast<std::uint64_t>(seen));
    }
  }
  void plain(const TensorType& type) { hash_type(hasher_, type, detail_); }
  void plain(const std::vector<std::byte>& data) { hasher_.hash(hash_bytes(data)); }
  void plain(const std::string& text) { hasher_.text(text); }
  void plain(bool flag) { hasher_.integer(flag ? 1 : 0); }
  void plain(std::int64_t value) { hasher_.integer(static_cast<std::uint64_t>(value)); }
  void plain(DType dtype) { hasher_.text(to_string(dtype)); }
  void plain(ReduceKind kind) { hasher_.text(to_string(kind)); }
  void plain(Comparison comparison) { hasher_.text(to_string(comparison)); }
  void plain(const std::vector<bool>& flags) {
    hasher_.integer(flags.size());
    for (const bool flag : flags) plain(flag);
  }
  void plain(const std::vector<TensorType>& types) {
    hasher_.integer(types.size());
    for (const TensorType& type : types) plain(type);
  }

  Hasher& hasher_;
  HashDetail detail_;
};

}  // namespace

void hash_type(Hasher& hasher, const TensorType& type, HashDetail detail) {
  hasher.text(to_string(type.dtype)).integer(type.dims.size());
  if (detail == HashDetail::family) return;
  for (const std::int64_t extent : type.dims) hasher.integer(static_cast<std::uint64_t>(extent));
}

void hash_attributes(Hasher& hasher, const Attributes& attributes, HashDetail detail) {
  std::visit([&]<class A>(const A& held) { A::fields(held, FieldHasher<A>(hasher, detail)); }, attributes);
}

}  // namespace stitch::graph
