#pragma once

#include <cstdint>
#include <optional>

#include "base/hash.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/contraction/contraction_operand.h"

// Keys and values that lie in pages of a cache which sequences share, found by a table (Kwon et al. 2023,
// PagedAttention, §4.1):
//
//     keys = reshape(gather(cache[pages, page, heads, depth], table[batch, places])) : [batch, places · page, heads, …]
//
// The kernel asks for elements where the table says that they are: what is gathered is never in memory.

namespace stitch::kernel {

struct PagedOperand {
  int table = -1;             ///< parameter that says which page is where, of any integer type
  std::int64_t pages = 0;     ///< of the cache; numbers beyond them are clamped, as a gather's are
  std::int64_t page = 0;      ///< elements of one
  std::int64_t gathered = 0;  ///< elements of all that the table has
  std::int64_t cache_elements() const { return pages * page; }

  bool operator==(const PagedOperand&) const = default;
};

/// The gather whose result an operand of a dot reads, through layouts: of whole pages of a parameter by a table that is
/// a parameter, both reshaped at most. Nothing: of any other.
std::optional<graph::NodeId> gather_before(const graph::Graph& graph, graph::Value operand);
/// Whether a gather is one of whole pages, the table's dimensions first.
bool gathers_pages(const graph::Graph& graph, graph::NodeId gather);
/// The number of the parameter that it gathers of.
int paged_parameter_of(const graph::Graph& graph, graph::NodeId gather);

/// How a kernel finds the elements of `operand`, which lies as the gather's result does. Error: unsupported (pages of
/// which a copy might have parts of two).
Result<PagedOperand> paged_operand(const graph::Graph& graph, graph::NodeId gather, const ContractionOperand& operand);

void hash_pages(Hasher& hasher, const PagedOperand& paged);

}  // namespace stitch::kernel
