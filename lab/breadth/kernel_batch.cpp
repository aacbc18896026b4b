#include "lab/breadth/kernel_batch.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "codegen/device_headers.h"

namespace stitch::lab {
namespace {

/// Takes the lines that include device headers out of a kernel's text, and adds those that are new to `headers`.
std::string without_includes(std::string text, std::string& headers) {
  constexpr std::string_view include = "#include \"stitch/";
  for (std::size_t at = text.find(include); at != std::string::npos; at = text.find(include, at)) {
    const std::size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at, end - at);
    if (headers.find(line) == std::string::npos) headers += line;
    text.erase(at, end - at);
  }
  return text;
}

constexpr std::string_view dynamic_shared = "extern __shared__ __align__(";

/// Of a kernel's dynamic shared memory, bytes.
int shared_alignment(std::string_view text) {
  const std::size_t at = text.find(dynamic_shared);
  return at == std::string_view::npos ? 0 : std::atoi(text.data() + at + dynamic_shared.size());
}

/// All kernels of a module have their dynamic shared memory by one name, which is aligned as one of them says.
std::string with_alignment(std::string text, int bytes) {
  const std::size_t at = text.find(dynamic_shared);
  if (at == std::string::npos) return text;
  const std::size_t number = at + dynamic_shared.size();
  return text.replace(number, text.find(')', number) - number, std::to_string(bytes));
}

/// The kernels as one source, each in a namespace of its own. The headers are included once, before all.
std::string joined(const std::vector<const codegen::GeneratedKernel*>& kernels) {
  std::string headers, source;
  int alignment = 0;
  for (const codegen::GeneratedKernel* kernel : kernels)
    alignment = std::max(alignment, shared_alignment(kernel->source));
  for (const codegen::GeneratedKernel* kernel : kernels) {
    const std::string text = with_alignment(without_includes(kernel->source, headers), alignment);
    source += fmt::format("namespace of_{} {{\n{}\n}}\n", kernel->name, text);
  }
  return headers + source;
}

Result<std::string> compile_source(const codegen::Nvrtc& nvrtc, std::string source, const std::string& architecture) {
  codegen::NvrtcInput input;
  input.source = std::move(source);
  input.name = "breadth.cu";
  for (const codegen::DeviceHeader& header : codegen::device_headers())
    input.headers.push_back({header.name.data(), header.contents.data()});
  // A virtual architecture: PTX alone is made.
  const std::string virtual_architecture = "compute" + architecture.substr(architecture.find('_'));
  input.options = {"-arch=" + virtual_architecture, "--std=c++20", "-default-device", "-no-source-include"};
  STITCH_ASSIGN(codegen::NvrtcOutput output, nvrtc.compile(input));
  if (!output.compiled) return make_error(ErrorKind::compile, "{}", output.log);
  return std::move(output.ptx);
}

/// Behind the line with the brace that ends what begins at `from`; inline assembly has braces of its own.
std::size_t end_of_body(const std::string& ptx, std::size_t from) {
  int depth = 0;
  for (std::size_t at = ptx.find_first_of("{}", from); at != std::string::npos; at = ptx.find_first_of("{}", at + 1)) {
    depth += ptx[at] == '{' ? 1 : -1;
    if (depth > 0) continue;
    const std::size_t line = ptx.find('\n', at);
    return line == std::string::npos ? ptx.size() : line + 1;
  }
  return ptx.size();
}

}  // namespace

std::string ptx_of_entry(const std::string& ptx, const std::string& entry) {
  constexpr std::string_view begin = ".visible .entry ";
  std::string text;
  std::size_t at = 0;
  while (true) {
    const std::size_t start = ptx.find(begin, at);
    if (start == std::string::npos) break;
    const std::size_t next = end_of_body(ptx, start);
    text.append(ptx, at, start - at);
    if (std::string_view(ptx).substr(start + begin.size()).starts_with(entry + "("))
      text.append(ptx, start, next - start);
    at = next;
  }
  return text.append(ptx, at);
}

std::vector<Result<profiler::KernelImage>> compile_batch(const codegen::Nvrtc& nvrtc,
                                                         const std::vector<const codegen::GeneratedKernel*>& kernels,
                                                         const std::string& architecture) {
  std::vector<Result<profiler::KernelImage>> images;
  if (kernels.empty()) return images;
  const Result<std::string> ptx = compile_source(nvrtc, joined(kernels), architecture);
  for (const codegen::GeneratedKernel* kernel : kernels) {
    if (ptx) {
      images.emplace_back(profiler::KernelImage{kernel->name, ptx_of_entry(*ptx, kernel->name), {}, architecture});
    } else if (kernels.size() == 1) {
      images.emplace_back(ptx.error());
    } else {
      images.push_back(std::move(compile_batch(nvrtc, {kernel}, architecture).front()));
    }
  }
  return images;
}

}  // namespace stitch::lab
