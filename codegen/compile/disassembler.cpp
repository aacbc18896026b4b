#include "codegen/compile/disassembler.h"

#include "base/file.h"
#include "codegen/compile/confined_process.h"

namespace stitch::codegen {
namespace {

/// Of a process that lists machine code: many times what the largest of ours takes.
constexpr std::int64_t most_memory = std::int64_t{4} << 30;

}  // namespace

Result<std::string> disassemble(std::string_view cubin, ProcessLauncher& launcher, const DisassemblerOptions& options) {
  STITCH_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make("sass"));
  const std::filesystem::path file = folder / "kernel.cubin";
  RealFileSystem files;
  STITCH_TRY(files.publish(file, cubin));

  const std::string program = options.nvdisasm.empty() ? "nvdisasm" : options.nvdisasm.string();
  ConfinedProgram listing{{program, "-c", file.string()}, {folder.path()}, most_memory};
  if (options.encodings) listing.arguments.insert(listing.arguments.begin() + 2, "-hex");
  const auto process = confined_process(listing);
  if (!process) {
    return make_error(ErrorKind::unavailable, "no SASS listing: {}; nvdisasm comes with the CUDA toolkit",
                      process.error().message);
  }
  auto output = run_process(launcher, *process, "", deadline_in(options.timeout_seconds));
  if (!output) return output.error();
  if (!output->status.success()) {
    return make_error(ErrorKind::invalid_argument, "{} refuses {} bytes of cubin ({}): {}", program, cubin.size(),
                      output->status.describe(), output->standard_error);
  }
  return std::move(output->standard_output);
}

}  // namespace stitch::codegen
