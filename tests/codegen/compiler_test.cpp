#include "codegen/compile/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

NvrtcCompiler& compiler() {
  static const std::unique_ptr<NvrtcCompiler> compiler = [] {
    auto created = NvrtcCompiler::create();
    if (!created) throw std::runtime_error(created.error().message);
    return std::move(*created);
  }();
  return *compiler;
}

constexpr const char* scale_source = R"(#include "stitch/version.cuh"
extern "C" __global__ void scale(float* __restrict__ y, const float* __restrict__ x, int n) {
  __shared__ float tile[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % 64] = x[i];
  __syncthreads();
  if (i < n) y[i] = tile[63 - threadIdx.x % 64] * STITCH_DEVICE_REVISION;
}
)";

CompileRequest request(std::string source, std::string architecture = "sm_90a") {
  CompileRequest result;
  result.source = std::move(source);
  result.architecture = std::move(architecture);
  return result;
}

Error error_of(const CompileRequest& wrong) {
  const auto result = compiler().compile(wrong);
  EXPECT_FALSE(result) << wrong.source;
  return result ? Error{} : result.error();
}

TEST(Compiler, EveryArchitectureGivesPtxCubinAndFigures) {
  for (const std::string architecture :
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120", "sm_120a"}) {
    const int capability = std::stoi(architecture.substr(3));
    if (std::ranges::count(compiler().nvrtc().architectures(), capability) == 0) {
      EXPECT_EQ(error_of(request(scale_source, architecture)).kind, ErrorKind::unsupported);
      continue;
    }
    const auto kernel = compiler().compile(request(scale_source, architecture));
    ASSERT_TRUE(kernel) << architecture << ": " << kernel.error().message;
    EXPECT_THAT(kernel->ptx, AllOf(HasSubstr(".target " + architecture), HasSubstr(".visible .entry scale(")));
    EXPECT_THAT(kernel->cubin, StartsWith("\177ELF"));
    EXPECT_EQ(kernel->architecture, architecture);
    EXPECT_EQ(kernel->toolkit, compiler().nvrtc().toolkit());
    EXPECT_EQ(kernel->log, "");
    EXPECT_GT(kernel->seconds, 0);
    EXPECT_FALSE(kernel->from_cache);
    ASSERT_EQ(kernel->entries.size(), 1u);
    EXPECT_EQ(kernel->entries[0].entry, "scale");
    EXPECT_EQ(kernel->entries[0].usage, kernel->resources);
    EXPECT_THAT(kernel->resources.registers, AllOf(::testing::Ge(4), ::testing::Le(32)));
    EXPECT_EQ(kernel->resources.shared_bytes, 256);
    EXPECT_EQ(kernel->resources.stack_bytes, 0);
    EXPECT_FALSE(kernel->resources.spills());
    EXPECT_GT(kernel->resources.constant_bytes, 20) << "the parameters at least";
  }
}

TEST(Compiler, LineInfoNamesSourceAndHeadersIndependentlyOfTheWorkingFolder) {
  const auto here = compiler().compile(request(scale_source));
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_THAT(here->ptx, AllOf(HasSubstr(".loc\t1 5 "), HasSubstr(".file\t1 \"/stitch/kernel.cu\"")));

  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(::testing::TempDir());
  const auto there = compiler().compile(request(scale_source));
  std::filesystem::current_path(before);
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(here->ptx, there->ptx);
  EXPECT_TRUE(here->cubin == there->cubin);

  CompileRequest plain = request(scale_source);
  plain.line_info = false;
  const auto without = compiler().compile(plain);
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_THAT(without->ptx, Not(HasSubstr(".loc")));
  EXPECT_LT(without->cubin.size(), here->cubin.size());
}

// 48 values that must be alive across a barrier do not fit into 24 registers.
CompileRequest crowded(int max_registers) {
  CompileRequest result = request(R"(
extern "C" __global__ void crowded(float* x) {
  float v[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) v[i] = x[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; ++i) x[i * 32 + threadIdx.x] = v[47 - i] * v[(i * 7) % 48] + v[(i * 13) % 48];
})");
  result.max_registers = max_registers;
  return result;
}

TEST(Compiler, ARegisterLimitForcesSpills) {
  const auto free = compiler().compile(crowded(0));
  const auto limited = compiler().compile(crowded(24));
  ASSERT_TRUE(free) << free.error().message;
  ASSERT_TRUE(limited) << limited.error().message;
  EXPECT_FALSE(free->resources.spills()) << free->resources.describe();
  EXPECT_GT(free->resources.registers, 48);
  EXPECT_TRUE(limited->resources.spills()) << limited->resources.describe();
  EXPECT_LE(limited->resources.registers, 24);
  EXPECT_GT(limited->resources.stack_bytes, 0);
  EXPECT_GT(limited->resources.spill_store_bytes, 0);
  EXPECT_GT(limited->resources.spill_load_bytes, 0);
}

TEST(Compiler, SeveralEntriesHaveTheirFiguresAndTheirMaximum) {
  const auto kernel = compiler().compile(request(R"(
extern "C" __global__ void plain(float* x) { x[threadIdx.x] = 1; }
extern "C" __global__ void sharing(float* x) {
  __shared__ float tile[512];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[511 - threadIdx.x];
})"));
  ASSERT_TRUE(kernel) << kernel.error().message;
  std::map<std::string, int> shared;
  for (const EntryUsage& entry : kernel->entries) shared[entry.entry] = entry.usage.shared_bytes;
  EXPECT_EQ(shared, (std::map<std::string, int>{{"plain", 0}, {"sharing", 2048}}));
  EXPECT_EQ(kernel->resources.shared_bytes, 2048);
}

TEST(Compiler, WarningsAreKeptWithoutTheReport) {
  const auto kernel =
      compiler().compile(request("extern \"C\" __global__ void k(float* x) {\n  int unused;\n  x[0] = 1;\n}\n"));
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_THAT(kernel->log, StartsWith("/stitch/kernel.cu(2): warning #177-D"));
  EXPECT_THAT(kernel->log, Not(HasSubstr("ptxas")));
}

TEST(Compiler, AnErrorQuotesItsLines) {
  const Error error =
      error_of(request("extern \"C\" __global__ void k(float* y) {\n  float sum = 0;\n  y[0] = total;\n}\n"));
  EXPECT_EQ(error.kind, ErrorKind::compile);
  EXPECT_THAT(error.message, StartsWith("kernel.cu:3: identifier \"total\" is undefined\n"
                                        "    2 |   float sum = 0;\n"
                                        "  > 3 |   y[0] = total;\n"
                                        "    4 | }\n"
                                        "NVRTC " +
                                        compiler().nvrtc().toolkit() + " for sm_90a says:\n"));
  EXPECT_THAT(error.message, HasSubstr("1 error detected in the compilation of"));
}

TEST(Compiler, AMissingHeaderIsNamed) {
  const Error error = error_of(request("#include \"stitch/nowhere.cuh\"\n"));
  EXPECT_EQ(error.kind, ErrorKind::compile);
  EXPECT_THAT(error.message, AllOf(StartsWith("kernel.cu:1: "), HasSubstr("open source file \"stitch/nowhere.cuh\""),
                                   HasSubstr("\n  > 1 | #include \"stitch/nowhere.cuh\"\n")));
}

TEST(Compiler, WhatTheAssemblerRefusesIsQuotedFromThePtx) {
  const Error error = error_of(request(
      "extern \"C\" __global__ void k(float* x) {\n  asm volatile(\"bogus.f32 %0, %0;\" : \"+f\"(x[0]));\n}\n"));
  EXPECT_EQ(error.kind, ErrorKind::compile);
  EXPECT_THAT(error.message, AllOf(StartsWith("ptx:"), HasSubstr("Not a name of any known instruction: 'bogus'"),
                                   HasSubstr(" | \tbogus.f32 %f1, %f1;\n")));
}

TEST(Compiler, TooMuchSharedMemoryIsACompileError) {
  const Error error = error_of(request(R"(
extern "C" __global__ void k(float* x) {
  __shared__ float tile[100000];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[x[0] > 0];
})"));
  EXPECT_EQ(error.kind, ErrorKind::compile);
  EXPECT_THAT(error.message, HasSubstr("uses too much shared data"));
}

TEST(Compiler, RefusalsNameWhatIsWrong) {
  const std::string good = "extern \"C\" __global__ void k() {}";
  CompileRequest option = request(good);
  option.options = {"--no-such-option"};
  const struct {
    CompileRequest request;
    ErrorKind kind;
    const char* text;
  } rows[] = {
      {request(good, "sm_20"), ErrorKind::unsupported, "does not compile for \"sm_20\"; it knows sm_"},
      {request(good, "compute_90"), ErrorKind::unsupported, "does not compile for \"compute_90\""},
      {request(good, "sm_90x"), ErrorKind::unsupported, "does not compile for \"sm_90x\""},
      {request(good, ""), ErrorKind::unsupported, "does not compile for \"\""},
      {option, ErrorKind::invalid_argument, "--no-such-option"},
      {request("__device__ int f() { return 1; }"), ErrorKind::compile, "the source has no __global__ function"},
      {request(""), ErrorKind::compile, "the source has no __global__ function"},
  };
  for (const auto& row : rows) {
    const Error error = error_of(row.request);
    EXPECT_EQ(error.kind, row.kind) << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.text));
  }
}

TEST(Compiler, TheWorkingFolderCannotShadowHeaders) {
  const auto before = std::filesystem::current_path();
  const TestFolder folder;
  { std::ofstream(folder / "local.cuh") << "#define LOCAL 1\n"; }
  std::filesystem::current_path(folder);
  const Error error = error_of(request("#include \"local.cuh\"\n"));
  std::filesystem::current_path(before);
  EXPECT_THAT(error.message, HasSubstr("open source file \"local.cuh\""));
}

TEST(Compiler, IncludeFoldersAreSearched) {
  const TestFolder folder;
  { std::ofstream(folder / "toolkit.h") << "#define TOOLKIT 1234567\n"; }
  CompilerOptions options;
  options.include_directories = {folder};
  const auto created = NvrtcCompiler::create(options);
  ASSERT_TRUE(created) << created.error().message;
  const CompileRequest wanted =
      request("#include \"toolkit.h\"\nextern \"C\" __global__ void k(int* x) { x[0] = TOOLKIT; }");
  const auto kernel = (*created)->compile(wanted);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_THAT(kernel->ptx, HasSubstr("1234567"));
  EXPECT_EQ(kernel->key, compiler().key(wanted)) << "the folder's name is no part of the key";
}

TEST(Compiler, TheKeyCoversWhatTheResultDependsOn) {
  const CompileRequest base = request("extern \"C\" __global__ void k() {}");
  std::vector<CompileRequest> variants(7, base);
  variants[1].source += " ";
  variants[2].architecture = "sm_80";
  variants[3].options = {"-DA=1"};
  variants[4].options = {"-DA=1", "-DB=1"};
  variants[5].max_registers = 32;
  variants[6].line_info = false;
  std::set<Hash128> keys;
  for (const CompileRequest& variant : variants) keys.insert(compiler().key(variant));
  EXPECT_EQ(keys.size(), variants.size());
  EXPECT_EQ(compiler().key(base), compiler().key(CompileRequest(base)));
  EXPECT_EQ(compiler().compile(base)->key, compiler().key(base));
}

TEST(Compiler, SeveralThreadsCompileAtOnce) {
  constexpr int count = 9, broken = 4;
  std::vector<std::optional<Result<CompiledKernel>>> results(count);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&results, i] {
        const std::string body = i == broken ? "broken;" : fmt::format("x[0] = {};", i);
        const std::string source = fmt::format("extern \"C\" __global__ void k{}(int* x) {{ {} }}", i, body);
        results[i].emplace(compiler().compile(request(source)));
      });
    }
  }
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(results[i]->ok(), i != broken);
    if (i == broken) {
      EXPECT_EQ((*results[i]).error().kind, ErrorKind::compile);
    } else {
      EXPECT_EQ((**results[i]).entries[0].entry, fmt::format("k{}", i));
    }
  }
}

}  // namespace
}  // namespace stitch::codegen
