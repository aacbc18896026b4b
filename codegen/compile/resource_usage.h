#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch::codegen {

/// What ptxas says that a kernel uses. Bytes unless said otherwise; local-memory figures are per thread.
struct ResourceUsage {
  int registers = 0;               ///< per thread
  int barriers = 0;                ///< named barriers of a block
  int shared_bytes = 0;            ///< static shared memory of a block, with what the architecture reserves left out
  int stack_bytes = 0;             ///< the entry's own stack frame
  int cumulative_stack_bytes = 0;  ///< with everything it calls; equals stack_bytes where nothing is called
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int constant_bytes = 0;  ///< all banks: kernel parameters and literals
  int global_bytes = 0;    ///< __device__ variables of the module

  [[nodiscard]] bool spills() const { return spill_store_bytes != 0 || spill_load_bytes != 0; }
  /// "32 registers, 4096 bytes shared, 16 bytes stack, 8/8 bytes spilled (stores/loads)".
  [[nodiscard]] std::string describe() const;
  bool operator==(const ResourceUsage&) const = default;
};

/// The figures of one __global__ function.
struct EntryUsage {
  std::string entry;
  ResourceUsage usage;
  bool operator==(const EntryUsage&) const = default;
};

/// Reads `ptxas -v` output, entries in the order in which ptxas reports them. Lines of other kinds are skipped; an
/// entry without its figures is an error (parse) that names it.
Result<std::vector<EntryUsage>> parse_ptxas_log(std::string_view log);

/// Adds to each entry what the log of newer toolkits leaves out and the cubin's section table knows: constant bytes.
/// Errors: parse, when `cubin` is not the ELF file of these entries.
Status complete_from_cubin(std::string_view cubin, std::vector<EntryUsage>& entries);

/// Each figure's maximum over `entries`: what a launch of any of them may need.
ResourceUsage maximum_usage(const std::vector<EntryUsage>& entries);

}  // namespace stitch::codegen
