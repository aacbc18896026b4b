// stitch-compiler: compiles with NVRTC for a parent that asks over standard input and output, so that a compilation can
// be ended from outside, may crash without harm, and runs beside others (codegen/compile/compiler_pool.h).
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/confinement.h"
#include "base/frame.h"
#include "base/parent_watch.h"
#include "base/process_end.h"
#include "base/version.h"
#include "codegen/compile/compile_messages.h"

namespace {

using stitch::Result;
using stitch::codegen::CompileReply;
using stitch::codegen::CompilerGreeting;
using stitch::codegen::Nvrtc;

enum Exit : int { done = 0, usage = 2, broken = 4, no_compiler = 5, no_program = 6 };

struct CompilerArguments {
  stitch::codegen::NvrtcOptions nvrtc;
  stitch::Confinement confinement;
};

/// "--nvrtc FILE", "--readable PATH", "--runnable PATH" and "--memory BYTES"; nothing where there is something else.
std::optional<CompilerArguments> read_arguments(int count, char** values) {
  CompilerArguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = values[i];
    if (name == "--nvrtc") {
      arguments.nvrtc.library = values[i + 1];
    } else if (name == "--readable") {
      arguments.confinement.readable.emplace_back(values[i + 1]);
    } else if (name == "--runnable") {
      arguments.confinement.runnable.emplace_back(values[i + 1]);
    } else if (name == "--memory") {
      arguments.confinement.limits.address_space_bytes = std::strtoll(values[i + 1], nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  if (count % 2 == 0) return std::nullopt;
  return arguments;
}

std::int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

bool send(int output, const std::string& body) {
  auto frame = stitch::make_frame(body);
  if (!frame) frame = stitch::make_frame(encode(CompileReply{frame.error(), peak_bytes()}));
  return stitch::write_frame(output, *frame);
}

Exit serve(const Nvrtc& nvrtc, int output) {
  while (true) {
    const auto body = stitch::read_frame(STDIN_FILENO);
    if (!body) return broken;
    if (!*body) return done;
    const auto compilation = stitch::codegen::decode_compilation(**body);
    if (!compilation) return broken;
    CompileReply reply;
    reply.output = nvrtc.compile(compilation->input());
    reply.peak_bytes = peak_bytes();
    if (!send(output, encode(reply))) return broken;
  }
}

Exit run(CompilerArguments arguments) {
  // Replies have a descriptor of their own: what libraries print must not end up between them.
  const int output = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::signal(SIGXFSZ, SIG_IGN);
  const auto nvrtc = Nvrtc::load(arguments.nvrtc);
  if (!nvrtc) {
    send(output, encode(Result<CompilerGreeting>(nvrtc.error())));
    return no_compiler;
  }
  // Loaded, and tried once: nothing is read any more but what a source may include.
  arguments.confinement.limits.file_bytes = 0;
  CompilerGreeting greeting;
  greeting.facts = (*nvrtc)->facts();
  greeting.unconfined = stitch::confine(arguments.confinement);
  stitch::end_with_parent(STDIN_FILENO, 0, broken);
  if (!send(output, encode(Result<CompilerGreeting>(greeting)))) return broken;
  return serve(**nvrtc, output);
}

/// Becomes the program behind "--", as confined as what came before it says; returns only where that fails.
Exit become(int count, char** values) {
  char** const end = values + count;
  char** const program = std::find(values, end, std::string_view("--")) + 1;
  auto arguments = program < end ? read_arguments(static_cast<int>(program - 1 - values), values) : std::nullopt;
  if (!arguments) return usage;
  arguments->confinement.limits.file_bytes = 0;
  arguments->confinement.limits.descriptors = 64;
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write, for the program as well
  // What could not be given up has been said by the compilers already, which give up more.
  (void)stitch::confine(arguments->confinement);
  stitch::die_with_parent(broken);
  ::execv(*program, program);
  std::fprintf(stderr, "cannot start %s: %s\n", *program, std::strerror(errno));
  return no_program;
}

}  // namespace

int main(int count, char** values) {
  if (count == 2 && std::string_view(values[1]) == "--version") {
    std::printf("%s\n", std::string(stitch::tool_version).c_str());
    return done;
  }
  const bool becomes = std::find(values, values + count, std::string_view("--")) != values + count;
  if (becomes) {
    const Exit end = become(count, values);
    if (end != usage) ::_exit(end);
  }
  auto arguments = becomes ? std::nullopt : read_arguments(count, values);
  if (!arguments) {
    std::fprintf(
        stderr,
        "usage: stitch-compiler [--nvrtc LIBRARY] [--readable PATH]... [--memory BYTES]\n"
        "Compiles for its parent over standard input and output; stitch and stitchd start it.\n"
        "       stitch-compiler [--readable PATH]... [--runnable PATH]... [--memory BYTES] -- PROGRAM [WORD]...\n"
        "Becomes a program that may do nothing but read what is named.\n");
    return usage;
  }
  const Exit end = run(std::move(*arguments));
  stitch::end_process(end);  // libraries' handlers at exit have nothing left to do
}
