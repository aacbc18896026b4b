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
  if (!generated) return generated;
  std::vector<std::string>& compile_options = generated->compile_options;
  // Whether a product and a sum are contracted depends on what stands around them.
  if (graph.constraints.rounds_each()) compile_options.emplace_back("--fmad=false");
  if (graph.constraints.eager_precision) {
    for (const char* option : {"--prec-div=true", "--prec-sqrt=true", "-DSTITCH_EAGER_PRECISION=1"})
      compile_options.emplace_back(option);
  }
  return generated;
}

}  // namespace stitch::codegen
