#include "emulator/decode/program.h"

#include <algorithm>
#include <charconv>

#include "emulator/decode/assembler.h"
#include "emulator/decode/code.h"
#include "emulator/decode/decoder.h"
#include "emulator/ptx/ptx_parser.h"

namespace stitch::emulator {
namespace {

/// What the launch path needs to know about the kernel as a whole.
void summarise(Code& code) {
  const auto narrow = [&code](Space space, unsigned bytes) {
    if (space == Space::shared || space == Space::shared_cluster || space == Space::generic) {
      code.shared_granule = std::min<unsigned>(code.shared_granule, bytes);
    }
  };
  for (const MemoryAccess& access : code.accesses) {
    narrow(access.space, access.element_bytes);
    const bool foreign = access.space == Space::global || access.space == Space::generic;
    if (foreign && access.strong()) code.synchronises_blocks = true;
  }
  for (const AtomicAccess& access : code.atomics) {
    narrow(access.space, access.element_bytes);
    const bool foreign = access.space == Space::global || access.space == Space::generic;
    if (foreign && access.returns) code.synchronises_blocks = true;
  }
}

void copy_limits(const ptx::Module& module, const ptx::Function& entry, Code& code) {
  code.name = std::string(entry.name);
  code.target = std::string(module.target);
  code.required_block = entry.required_block;
  code.maximum_block = entry.maximum_block;
  code.required_cluster = entry.required_cluster;
  if (code.target.starts_with("sm_")) {
    std::from_chars(code.target.data() + 3, code.target.data() + code.target.size(), code.architecture);
  }
  for (const auto& [index, name] : module.files) {
    if (code.files.size() <= index) code.files.resize(index + 1);
    code.files[index] = name;
  }
}

std::optional<Dim3> given(const Dim3& dimensions) {
  return dimensions.x == 0 ? std::nullopt : std::optional(dimensions);
}

}  // namespace

Result<Program> Program::load(std::string_view ptx, std::string_view entry) {
  auto code = std::make_shared<Code>();
  code->ptx = std::string(ptx);
  code->module = hash_bytes(ptx);
  STITCH_ASSIGN(const ptx::Module module, ptx::parse(code->ptx));
  const ptx::Function* kernel = nullptr;
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || !function.has_body) continue;
    if (entry.empty() && kernel != nullptr) {
      return make_error(ErrorKind::invalid_argument, "the module has several kernels; name one");
    }
    if (entry.empty() || function.name == entry) kernel = &function;
  }
  if (kernel == nullptr) return make_error(ErrorKind::not_found, "no kernel named '{}' in the PTX module", entry);
  copy_limits(module, *kernel, *code);
  Decoder decoder(code->ptx, module, *code);
  STITCH_TRY(decoder.decode(*kernel));
  assemble(decoder.functions(), *code);
  summarise(*code);
  return Program(std::move(code));
}

const std::string& Program::name() const { return code_->name; }
const std::string& Program::target() const { return code_->target; }
const std::vector<KernelParameter>& Program::parameters() const { return code_->parameters; }
std::uint32_t Program::parameter_bytes() const { return code_->parameter_bytes; }
std::uint32_t Program::static_shared_bytes() const { return code_->static_shared_bytes; }
std::uint32_t Program::local_bytes() const { return code_->local_bytes; }
std::uint32_t Program::register_bytes() const { return code_->register_bytes / warp_lanes; }
std::optional<Dim3> Program::required_block() const { return given(code_->required_block); }
std::optional<Dim3> Program::maximum_block() const { return given(code_->maximum_block); }
std::optional<Dim3> Program::required_cluster() const { return given(code_->required_cluster); }

Result<std::vector<std::string>> entry_names(std::string_view ptx) {
  STITCH_ASSIGN(const ptx::Module module, ptx::parse(ptx));
  std::vector<std::string> names;
  for (const ptx::Function& function : module.functions) {
    if (function.is_entry && function.has_body) names.emplace_back(function.name);
  }
  return names;
}

}  // namespace stitch::emulator
