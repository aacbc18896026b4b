#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "db/sqlite.h"
#include "db/store_types.h"

namespace stitch::db::tables {

/// Reads one page of a listing. `select` ends in a condition and selects first `row_column`, by which the listing is
/// ordered and paged; `read(statement)` makes an item of the current row. `arguments` are those of `select`.
template <class T, class Read, class... Arguments>
Result<Listing<T>> list_page(sqlite::Connection& connection, std::string_view select, std::string_view row_column,
                             const Page& page, const Read& read, const Arguments&... arguments) {
  if (page.limit < 1 || page.limit > 1000)
    return make_error(ErrorKind::invalid_argument, "page limit {} is not between 1 and 1000", page.limit);
  const bool down = page.newest_first;
  const std::int64_t after = down && page.after == 0 ? std::numeric_limits<std::int64_t>::max() : page.after;
  const std::string sql = fmt::format("{} AND {} {} ? ORDER BY {} {} LIMIT ?", select, row_column, down ? "<" : ">",
                                      row_column, down ? "DESC" : "ASC");
  STITCH_ASSIGN(sqlite::Statement rows, connection.query(sql, arguments..., after, page.limit + 1));
  Listing<T> listing;
  std::int64_t last = 0;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return listing;
    if (std::ssize(listing.items) == page.limit) {
      listing.next = last;
      return listing;
    }
    last = rows.integer(0);
    STITCH_ASSIGN(T item, read(rows));
    listing.items.push_back(std::move(item));
  }
}

}  // namespace stitch::db::tables
