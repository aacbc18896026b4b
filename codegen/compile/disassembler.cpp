#include "codegen/compile/disassembler.h"

#include "base/file.h"

namespace stitch::codegen {

Result<std::string> disassemble(std::string_view cubin, ProcessLauncher& launcher, const DisassemblerOptions& options) {
  STITCH_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make("sass"));
  const std::filesystem::path file = folder / "kernel.cubin";
  RealFileSystem files;
  STITCH_TRY(files.publish(file, cubin));

  const std::string program = options.nvdisasm.empty() ? "nvdisasm" : options.nvdisasm.string();
  ProcessOptions process;
  process.arguments = {program, "-c", file.string()};
  if (options.encodings) process.arguments.insert(process.arguments.begin() + 2, "-hex");
  auto output = run_process(launcher, process, "", deadline_in(options.timeout_seconds));
  if (!output && output.error().kind == ErrorKind::not_found) {
    return make_error(ErrorKind::unavailable, "no SASS listing: {}; nvdisasm comes with the CUDA toolkit",
                      output.error().message);
  }
  if (!output) return output.error();
  if (!output->status.success()) {
    return make_error(ErrorKind::invalid_argument, "{} refuses {} bytes of cubin ({}): {}", program, cubin.size(),
                      output->status.describe(), output->standard_error);
  }
  return std::move(output->standard_output);
}

}  // namespace stitch::codegen
