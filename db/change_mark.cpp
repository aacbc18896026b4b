#include "db/change_mark.h"

#include <atomic>

namespace stitch::db {

Result<ChangeMark> ChangeMark::of(sqlite::Connection& connection) {
  // Whoever reads has the index in its memory from then on.
  STITCH_ASSIGN(const std::int64_t tables, connection.integer("SELECT count(*) FROM sqlite_schema"));
  static_cast<void>(tables);
  STITCH_ASSIGN(const volatile std::uint32_t* const header, connection.log_index());
  return ChangeMark(header);
}

std::optional<StoreVersion> ChangeMark::read() const {
  // The header is there twice. It is written from the second copy to the first, and read the other way round: copies
  // that are equal were written whole.
  StoreVersion first, second;
  constexpr std::size_t words = std::tuple_size_v<decltype(first.words)>;
  for (std::size_t i = 0; i < words; ++i) first.words[i] = header_[i];
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 0; i < words; ++i) second.words[i] = header_[words + i];
  if (first != second || first.words[0] == 0) return std::nullopt;
  return first;
}

}  // namespace stitch::db
