#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "emulator/decode/instruction.h"
#include "emulator/decode/kernel_parameter.h"
#include "emulator/decode/tensor_core.h"
#include "emulator/dim3.h"

namespace stitch::emulator {

/// Where an instruction comes from.
struct Origin {
  std::uint32_t ptx_line = 0;
  std::uint32_t source_file = 0;  ///< key of Code::files; 0: unknown
  std::uint32_t source_line = 0;
};

/// A .global or .const variable, placed in simulated memory when a launch first needs it.
struct ModuleVariable {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<std::uint8_t> initial;
  struct Relocation {
    std::uint64_t at = 0;
    std::uint32_t variable = 0;
    std::int64_t addend = 0;
  };
  std::vector<Relocation> relocations;
};

/// A constant row that holds the address of a module variable.
struct AddressConstant {
  std::uint32_t offset = 0;  ///< into the constant rows
  std::uint32_t variable = 0;
  std::int64_t addend = 0;
};

/// A constant row that holds an address in shared memory: in a cluster each block has its own, with its rank in it.
struct SharedConstant {
  std::uint32_t offset = 0;  ///< into the constant rows
  std::uint32_t address = 0;
  Width width = Width::none;  ///< b32 or b64
};

/// A device function after decoding. Functions are not recursive, so that registers, locals and parameters of each have
/// one static place per thread; arguments and results of a call are the callee's own parameter variables.
struct DecodedFunction {
  std::string name;
  std::uint32_t entry = 0;        ///< instruction index
  Slot return_address = no_slot;  ///< b32 row: the instruction each lane goes back to
};

/// A register whose first read may come before any write, with the mask row of lanes that wrote it.
struct TrackedRegister {
  Slot written = no_slot;
  std::string name;
};
struct TrackedUse {
  std::vector<std::uint32_t> reads;  ///< indices of Code::tracked_registers
  std::vector<std::uint32_t> writes;
};

/// A kernel ready to run: what Program hands out.
struct Code {
  std::string ptx;
  Hash128 module;  ///< of the PTX text: names the module's variables in simulated memory
  std::string name;
  std::string target;
  int architecture = 0;  ///< 80, 90, …
  std::vector<KernelParameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;    ///< without the unused first kilobyte
  std::uint32_t dynamic_shared_offset = 0;  ///< from shared_base
  std::uint32_t local_bytes = 0;            ///< per thread, frames of functions included
  std::uint32_t register_bytes = 0;         ///< per warp
  Dim3 required_block{0, 0, 0};
  Dim3 maximum_block{0, 0, 0};
  Dim3 required_cluster{0, 0, 0};

  std::vector<Instruction> instructions;
  std::vector<Origin> origins;  ///< by instruction
  std::vector<std::string> files;
  std::uint32_t entry = 0;

  std::vector<std::byte> constants;  ///< constant rows, 64-byte aligned offsets
  std::vector<AddressConstant> address_constants;
  std::vector<SharedConstant> shared_constants;
  std::vector<ModuleVariable> variables;

  std::vector<Slot> lists;
  std::vector<MemoryAccess> accesses;
  std::vector<AtomicAccess> atomics;
  std::vector<MbarrierAccess> mbarriers;
  std::vector<BulkAccess> bulks;
  std::vector<MatrixForm> matrices;
  std::vector<TensorCoreForm> tensor_cores;  ///< empty: no tensor memory is used
  std::vector<std::vector<std::uint32_t>> branch_tables;
  std::vector<DecodedFunction> functions;
  std::vector<TrackedRegister> tracked_registers;
  std::vector<TrackedUse> tracked_uses;  ///< by instruction; empty when no register is tracked

  std::uint8_t shared_granule = 4;   ///< narrowest access to shared memory, 1, 2 or 4 bytes: the race checker's unit
  bool synchronises_blocks = false;  ///< has something that can acquire what another block released
};

}  // namespace stitch::emulator
