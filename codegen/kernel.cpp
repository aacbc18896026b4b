#include "codegen/kernel.h"

#include "codegen/phased_emitter.h"
#include "codegen/recurrent_emitter.h"
#include "kernel/program/residence.h"

namespace stitch::codegen {

Result<GeneratedKernel> generate(const graph::Graph& graph, const kernel::KernelProgram& program,
                                 const GenerateOptions& options) {
  Result<GeneratedKernel> generated = kernel::Residence(program).takes_turns()
                                          ? generate_recurrent(program, options)
                                          : generate_phased(graph, program, options);
  // Whether a product and a sum are contracted depends on what stands around them.
  if (generated && graph.constraints.batch_invariant) generated->compile_options.emplace_back("--fmad=false");
  return generated;
}

}  // namespace stitch::codegen
