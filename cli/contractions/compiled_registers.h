#pragma once

#include "base/device_spec.h"
#include "base/result.h"
#include "cli/contractions/product.h"
#include "codegen/compile/compiler.h"

namespace stitch::cli {

/// Compiles `count` schedules of a product to machine code, and prints a line of JSON for each: registers and spills as
/// the compiler has them beside what legality took them for (`estimated`, of a thread). They are spread over the whole
/// ranking evenly by the logarithm of their place, of which the first is 0. Errors: constraint (no schedule is legal),
/// and those of compilation.
Status print_compiled_registers(Product& product, int count, const DeviceSpec& device,
                                search::ContractionSpaceOptions space, codegen::NvrtcCompiler& compiler);

}  // namespace stitch::cli
