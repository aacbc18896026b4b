#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "cli/commands.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/disassembler.h"
#include "costmodel/cubin_kernel.h"
#include "costmodel/machine_code.h"
#include "kernel/program/legality.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::cli {
namespace {

struct MachineCodeOptions {
  std::filesystem::path file;
  std::string entry, target = "h100", architecture;
  int block = 0, shared_bytes = 0;
  bool json = false, listing = false;
};

/// The cubin of a file: its contents, or what tuning would compile its source to.
Result<std::string> cubin_of(const MachineCodeOptions& options, const DeviceSpec& device) {
  RealFileSystem files;
  STITCH_ASSIGN(std::string contents, files.read(options.file));
  if (contents.starts_with("\x7f"
                           "ELF"))
    return contents;
  STITCH_ASSIGN(const auto compiler, codegen::NvrtcCompiler::create());
  const std::string architecture = options.architecture.empty() ? device.architecture() : options.architecture;
  STITCH_ASSIGN(codegen::CompiledKernel compiled,
                compiler->compile(tuning::compile_request(std::move(contents), architecture)));
  return std::move(compiled.cubin);
}

/// What a warp's code shows, and what follows from it for an SM with as many blocks as there is room for.
nlohmann::ordered_json to_document(const costmodel::CubinKernel& kernel, const costmodel::MachineCodeFeatures& code,
                                   const MachineCodeOptions& options, const DeviceSpec& device) {
  const int threads = options.block > 0 ? options.block : kernel.threads;
  const int shared = kernel.shared_bytes + options.shared_bytes;
  nlohmann::ordered_json document = {{"entry", kernel.entry},
                                     {"architecture", fmt::format("sm_{}", kernel.architecture)},
                                     {"registers", kernel.registers},
                                     {"threads", threads},
                                     {"shared_bytes", shared}};
  if (threads > 0) {
    const int blocks = kernel::resident_blocks(threads, kernel.registers, shared, device);
    document["resident_blocks"] = blocks;
    document["bytes_in_flight_of_sm"] = std::int64_t{code.bytes_before_wait} * threads * blocks;
  }
  document["instructions"] = code.instructions;
  document["loads"] = code.loads;
  document["load_bytes"] = code.load_bytes;
  document["stores"] = code.stores;
  document["store_bytes"] = code.store_bytes;
  document["local_accesses"] = code.local_accesses;
  document["barriers"] = code.barriers;
  document["loops"] = code.loops;
  document["stall_cycles"] = code.stall_cycles;
  document["cycles"] = code.cycles;
  document["loads_before_wait"] = code.loads_before_wait;
  document["bytes_before_wait"] = code.bytes_before_wait;
  const costmodel::MachineCodeFeatures::Hot& hot = code.loop;
  nlohmann::ordered_json& loop = document["hot"] = {{"loop", hot.loop},
                                                    {"instructions", hot.instructions},
                                                    {"loads", hot.loads},
                                                    {"load_bytes", hot.load_bytes},
                                                    {"local_bytes", hot.local_bytes},
                                                    {"barriers", hot.barriers},
                                                    {"waits", hot.waits},
                                                    {"load_waits", hot.load_waits},
                                                    {"stall_cycles", hot.stall_cycles},
                                                    {"cycles", hot.cycles}};
  nlohmann::ordered_json& pipes = loop["pipes"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < costmodel::pipe_count; ++i) {
    const auto pipe = static_cast<costmodel::Pipe>(i);
    if (hot.by_pipe[pipe] > 0) pipes[std::string(to_string(pipe))] = hot.by_pipe[pipe];
  }
  return document;
}

Result<ExitCode> machine_code(const MachineCodeOptions& options) {
  STITCH_ASSIGN(const DeviceClass found, find_device_class(options.target));
  const DeviceSpec& device = found.spec;
  STITCH_ASSIGN(const std::string cubin, cubin_of(options, device));
  const std::string name = options.file.string();
  const auto kernel = costmodel::find_kernel(cubin, options.entry);
  if (!kernel) return kernel.error().within(name);
  const auto code = costmodel::read_machine_code(cubin, kernel->entry, costmodel::CodeLatencies::of(device));
  if (!code) return code.error().within(name);
  const nlohmann::ordered_json document = to_document(*kernel, *code, options, device);
  if (options.json) {
    std::printf("%s\n", document.dump().c_str());
  } else {
    for (const auto& [field, value] : document.items()) std::printf("%-22s %s\n", field.c_str(), value.dump().c_str());
  }
  if (options.listing) {
    RealProcessLauncher launcher;
    STITCH_ASSIGN(const std::string text, codegen::disassemble(cubin, launcher));
    std::printf("%s", text.c_str());
  }
  return ExitCode::success;
}

}  // namespace

void add_machine_code_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<MachineCodeOptions>();
  CLI::App* command = app.add_subcommand(
      "machine-code",
      "What the machine code of a kernel shows: loads in flight, waits, barriers, instructions by unit");
  command->add_option("file", options->file, "a cubin, or a kernel's source, which is compiled as tuning does")
      ->required();
  command->add_option("--entry", options->entry, "which kernel, where there are several");
  command->add_option("--target", options->target, "the GPU whose SMs and latencies count")
      ->check(target_name())
      ->capture_default_str();
  command->add_option("--arch", options->architecture, "what a source is compiled for; the target's by default");
  command->add_option("--block", options->block, "threads of a block; by default what the kernel says itself");
  command->add_option("--shared", options->shared_bytes, "bytes of dynamic shared memory");
  command->add_flag("--listing", options->listing, "also the SASS, by nvdisasm");
  command->add_flag("--json", options->json, "one JSON document on standard output");
  command->callback([options, &code] {
    const Result<ExitCode> result = machine_code(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
