#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/kernel_run.h"

/// Kernels from a few lines of PTX. A body finds its thread's inputs in %a and %b (64 bits; %a32, %b32 their low words,
/// %fa, %fb those as f32), its index in %thread, and leaves its result in %y. Free registers: %t0–%t15 (b64), %r0–%r31
/// (b32), %h0–%h15 (b16), %f0–%f15 (f32), %d0–%d7 (f64), %p0–%p7. `buffer` is 1 KiB of shared memory, `table` a buffer
/// in global memory (address in %table).
namespace stitch::emulator::test {

inline std::string ptx_module(const std::string& body, const std::string& target = "sm_90a") {
  return ".version 8.0\n.target " + target + R"(
.address_size 64
.visible .entry kernel(.param .u64 y, .param .u64 x, .param .u64 z)
{
.reg .b64 %a, %b, %y, %px, %py, %table, %t<16>;
.reg .b32 %a32, %b32, %thread, %local, %ntid, %block, %r<32>;
.reg .b16 %h<16>;
.reg .f32 %fa, %fb, %f<16>;
.reg .f64 %d<8>;
.reg .pred %p<8>;
.shared .align 128 .b8 buffer[1024];
mov.u32 %local, %tid.x;
mov.u32 %ntid, %ntid.x;
mov.u32 %block, %ctaid.x;
mad.lo.u32 %thread, %block, %ntid, %local;
ld.param.u64 %px, [x];
ld.param.u64 %py, [y];
ld.param.u64 %table, [z];
mul.wide.u32 %t0, %thread, 16;
add.u64 %px, %px, %t0;
mul.wide.u32 %t0, %thread, 8;
add.u64 %py, %py, %t0;
ld.global.v2.u64 {%a, %b}, [%px];
cvt.u32.u64 %a32, %a;
cvt.u32.u64 %b32, %b;
mov.b32 %fa, %a32;
mov.b32 %fb, %b32;
mov.u64 %y, 0;
)" + body +
         R"(
st.global.u64 [%py], %y;
ret;
}
)";
}

struct BodyInput {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

struct BodyRun {
  std::vector<std::uint64_t> y;
  std::vector<std::uint64_t> table;
  LaunchReport report;
};

/// Runs a body with one thread per input, `block` threads a block; `table` is the contents of %table.
inline BodyRun run_body(const std::string& body, const std::vector<BodyInput>& inputs, std::uint32_t block = 32,
                        const std::vector<std::uint64_t>& table = {0}, const LaunchOptions& options = {}) {
  Memory memory;
  const Buffer y = make(memory, "y", inputs.size() * 8);
  const Buffer x = put(memory, "x", inputs);
  const Buffer z = put(memory, "table", table);
  ParameterBlock parameters;
  parameters.add(y).add(x).add(z);
  const LaunchConfig config = shape(static_cast<std::uint32_t>(inputs.size()) / block, block);
  BodyRun result;
  result.y.resize(inputs.size());
  const Result<Program> program = Program::load(ptx_module(body), "kernel");
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return result;
  }
  result.report = run(*program, config, parameters, memory, options);
  result.y = get<std::uint64_t>(memory, y);
  result.table = get<std::uint64_t>(memory, z);
  return result;
}

inline std::vector<std::uint64_t> run_clean_body(const std::string& body, const std::vector<BodyInput>& inputs,
                                                 std::uint32_t block = 32) {
  const BodyRun result = run_body(body, inputs, block);
  EXPECT_TRUE(result.report.clean()) << body << "\n" << findings_text(result.report);
  return result.y;
}

/// Inputs of `count` threads: edge values first, then noise.
inline std::vector<BodyInput> body_inputs(std::size_t count, std::uint64_t seed = 1) {
  constexpr std::uint64_t edges[] = {0,          1,          2,          31,         32,    33,
                                     63,         64,         0x7F,       0x80,       0xFF,  0x8000,
                                     0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 63, ~0ULL, 0x0123456789ABCDEF};
  constexpr std::size_t n = std::size(edges);
  std::vector<BodyInput> inputs(count);
  for (std::size_t i = 0; i < count; ++i) {
    inputs[i] = i < n * n ? BodyInput{edges[i % n], edges[i / n]} : BodyInput{mix(seed, i), mix(seed + 1, i)};
  }
  return inputs;
}

}  // namespace stitch::emulator::test
