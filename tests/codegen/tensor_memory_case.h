#pragma once

#include <ostream>
#include <string>

#include "kernel/contraction/contraction_rules.h"
#include "tests/codegen/matmul_case.h"

// Products by tcgen05, whose sums are in tensor memory, on a B200.
namespace stitch::codegen::test {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;

inline const DeviceSpec& b200() {
  static const DeviceSpec device = *find_device("b200");
  return device;
}

/// Tiles of 128 rows or a multiple of them, of which a warp has 32.
struct InTensorMemory {
  std::string name;
  Matmul matmul;
  int block_rows = 128, block_columns = 64, block_depth = 64, warp_columns = 64, stages = 3;
  int cluster = 1, resident = 1, warp_rows = 32;
  bool paired = false;
};
inline void PrintTo(const InTensorMemory& each, std::ostream* out) { *out << each.name; }

inline ContractionSchedule schedule_of(const ContractionProblem& problem, const InTensorMemory& each) {
  ContractionSchedule s;
  s.instruction = kernel::tensor_memory_instruction_for(problem, b200()).value();
  s.block_rows = each.block_rows;
  s.block_columns = each.block_columns;
  s.block_depth = each.block_depth;
  s.warp_rows = each.warp_rows;
  s.warp_columns = each.warp_columns;
  s.thread_rows = s.thread_columns = 0;
  s.stages = each.stages;
  s.group = 2;
  s.tensor_copies = true;
  s.cluster = each.cluster;
  s.resident = each.resident;
  s.paired = each.paired;
  fit_accesses(problem, s);
  return s;
}

inline KernelCase case_of(const InTensorMemory& each) {
  const ContractionProblem problem = problem_of(each.matmul);
  return test::case_of(problem, schedule_of(problem, each), b200());
}

}  // namespace stitch::codegen::test
