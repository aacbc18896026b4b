#include "codegen/kernel.h"

#include "codegen/phased_emitter.h"
#include "codegen/recurrent_emitter.h"
#include "kernel/program/residence.h"

namespace stitch::codegen {

Result<GeneratedKernel> generate(const graph::Graph& graph, const kernel::KernelProgram& program,
                                 const GenerateOptions& options) {
  if (kernel::Residence(program).takes_turns()) return generate_recurrent(program, options);
  return generate_phased(graph, program, options);
}

}  // namespace stitch::codegen
