#include "codegen/disassembler.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/file.h"

namespace stitch::codegen {
namespace {

/// A folder of our own that goes with its contents. nvdisasm wants a file that it can seek in.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code code;
    const auto parent = std::filesystem::temp_directory_path(code);
    if (code) return make_error(ErrorKind::io, "no folder for temporary files: {}", code.message());
    std::string name = (parent / "stitch-sass-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return make_error(ErrorKind::io, "cannot make {}: {}", name, std::strerror(errno));
    }
    return TemporaryFolder(name);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace

Result<std::string> disassemble(std::string_view cubin, ProcessLauncher& launcher, const DisassemblerOptions& options) {
  STITCH_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
  const std::filesystem::path file = folder.path() / "kernel.cubin";
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
