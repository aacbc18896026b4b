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
                                search::ContractionSpaceOptions space, codegen::Compiler& compiler);

/// Compiles the `count` best predicted schedules of a product, as many at once as there are processors (the compiler is
/// safe to use from many threads), and prints one line of JSON: `seconds` by the clock for all of them, `spilling`
/// (how many of them spill registers), and of each of `kernels` what print_compiled_registers tells. Errors: the same.
Status print_compiled_best(Product& product, int count, const DeviceSpec& device, search::ContractionSpaceOptions space,
                           codegen::Compiler& compiler);

}  // namespace stitch::cli
