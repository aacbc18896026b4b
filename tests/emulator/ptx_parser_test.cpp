// What is refused names the line and quotes it; damaged text never does more than that.
#include <gmock/gmock.h>

#include "base/random.h"
#include "emulator/ptx/ptx_parser.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::ptx_module;

struct Row {
  const char* body;
  ErrorKind kind;
  const char* message;  ///< after "PTX line N: "
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.body; }

class Refused : public testing::TestWithParam<Row> {};

TEST_P(Refused, WithLineAndText) {
  const Row& row = GetParam();
  const std::string module = ptx_module(std::string("\n") + row.body);
  const Result<Program> program = Program::load(module);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().kind, row.kind) << program.error().message;
  const std::size_t before = module.find(row.body);
  const auto line = 1 + std::count(module.begin(), module.begin() + static_cast<std::ptrdiff_t>(before), '\n');
  EXPECT_THAT(program.error().message, testing::StartsWith(fmt::format("PTX line {}: ", line)));
  EXPECT_THAT(program.error().message, testing::HasSubstr(row.message));
  EXPECT_THAT(program.error().message, testing::HasSubstr(std::string("`") + row.body + "`"));
}

const Row rows[] = {
    {"frobnicate.u32 %r0, %r1;", ErrorKind::unsupported, "frobnicate"},
    {"tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t0, {%f4,%f5}];", ErrorKind::unsupported, "tex"},
    {"add.q31.u32 %r0, %r1, %r2;", ErrorKind::unsupported, "q31"},
    {"add.u32 %r0, %r1;", ErrorKind::parse, "operand"},
    {"add.u32 %r0, %nobody, %r1;", ErrorKind::parse, "%nobody"},
    {"add.u32 %r99, %r1, %r2;", ErrorKind::parse, "%r99"},
    {"bra NOWHERE;", ErrorKind::parse, "NOWHERE"},
    {"ld.global.u32 %r0, [%nobody];", ErrorKind::parse, "%nobody"},
    {"ld.shared.u32 %r0, [nowhere];", ErrorKind::parse, "nowhere"},
    {"mov.u32 %r0, %no.x;", ErrorKind::parse, "%no.x"},
    {"@%p9 bra NOWHERE;", ErrorKind::parse, "%p9"},
    {"shfl.up.b32 %r0, %r1, 1, 0;", ErrorKind::unsupported, "shfl without .sync"},
    {"add.u32 %r0, %r1, %r2 %r3;", ErrorKind::parse, "expected"},
    {"add.u32 %r0, {%r1, %r2;", ErrorKind::parse, ""},
    {"mov.u32 %r0, 0xZZ;", ErrorKind::parse, ""},
    // What a lane moves has a bound, or it would be written behind what holds it.
    {"ld.global.v8.b64 {%t0,%t1,%t2,%t3,%t4,%t5,%t6,%t7}, [%px];", ErrorKind::parse, "64 bytes, at most 32"},
    {"st.shared.v8.b64 [buffer], {%t0,%t1,%t2,%t3,%t4,%t5,%t6,%t7};", ErrorKind::parse, "64 bytes, at most 32"},
    {"atom.global.add.v8.f64 {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, [%px], {%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7};",
     ErrorKind::parse, "64 bytes, at most 32"},
    {"ld.global.pred %h0, [%px];", ErrorKind::parse, "predicates"},
    {"st.global.pred [%px], %h0;", ErrorKind::parse, "predicates"},
    {".local .b8 frame[4294967300];", ErrorKind::parse, "too large"},
    {".shared .b8 block[4294967300];", ErrorKind::parse, "too large"},
    {"mov.b32 %r0, {{{{{{{{{{%r1}}}}}}}}}};", ErrorKind::parse, "nested too deeply"},
};
INSTANTIATE_TEST_SUITE_P(Table, Refused, testing::ValuesIn(rows));

TEST(PtxParser, NamesWhatIsMissing) {
  EXPECT_FALSE(Program::load(""));
  const Result<Program> absent = Program::load(ptx_module(""), "other");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::not_found);
  EXPECT_THAT(absent.error().message, testing::HasSubstr("other"));
  const std::string two = test::read_data("reductions.ptx");
  EXPECT_FALSE(Program::load(two)) << "an empty name needs a module with one kernel";
  const Result<std::vector<std::string>> names = entry_names(two);
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, testing::Contains("layer_norm"));
}

TEST(PtxParser, SmallTextsTakeLittleMemory) {
  for (const char* opening : {"mov.b32 %r0, {", "call (", "ld.global.u32 %r0, [%px,"}) {
    std::string body = opening;
    for (int i = 0; i < 200'000; ++i) body += body[body.size() - 1] == ',' ? "[%px," : std::string(1, body.back());
    EXPECT_FALSE(Program::load(ptx_module(body + ";"))) << opening;
  }
  for (const char* number : {"4294967295", "3000000000", "65536"}) {
    const Result<Program> program = Program::load(fmt::format(".file {} \"x.cu\"\n", number) + ptx_module(""));
    ASSERT_FALSE(program);
    EXPECT_THAT(program.error().message, testing::HasSubstr("file number"));
  }
}

TEST(PtxParser, ReadsWhatAKernelDeclares) {
  const Program program = test::load_kernel("reductions", "layer_norm");
  EXPECT_EQ(program.name(), "layer_norm");
  EXPECT_EQ(program.target(), "sm_90a");
  EXPECT_EQ(program.parameter_bytes(), 40U);
  ASSERT_EQ(program.parameters().size(), 6U);
  EXPECT_EQ(program.parameters()[5].offset, 36U);
  EXPECT_EQ(program.static_shared_bytes(), 128U);
  EXPECT_EQ(test::load_kernel("elementwise", "gelu_bias").maximum_block(), (Dim3{256, 1, 1}));
  EXPECT_EQ(test::load_kernel("reductions", "cluster_mean").required_cluster(), (Dim3{4, 1, 1}));
}

const char* const corpora[] = {"reductions", "elementwise", "faults", "half", "half_sm80", "device", "math_f64"};

TEST(PtxParser, EveryKernelOfTheCorporaDecodes) {
  for (const char* file : {"convert", "convert_sm80", "device", "elementwise", "faults", "half", "half_sm80", "integer",
                           "math_f32", "math_f64", "reductions"}) {
    const std::string text = test::read_data(std::string(file) + ".ptx");
    const Result<std::vector<std::string>> names = entry_names(text);
    ASSERT_TRUE(names) << names.error().message;
    EXPECT_FALSE(names->empty());
    for (const std::string& name : *names) {
      const Result<Program> program = Program::load(text, name);
      EXPECT_TRUE(program) << file << " " << program.error().message;
    }
  }
}

/// One kernel's text out of a module, with the header that it needs.
std::vector<std::string> kernels_of(const std::string& text) {
  std::vector<std::string> kernels;
  const std::string header = text.substr(0, text.find(".visible .entry"));
  for (std::size_t at = text.find(".visible .entry"); at != std::string::npos;) {
    const std::size_t next = text.find(".visible .entry", at + 1);
    kernels.push_back(header + text.substr(at, next - at));
    at = next;
  }
  return kernels;
}

/// Removes, repeats, swaps or overwrites something in the text.
std::string damaged(std::string text, Random& random) {
  static constexpr std::string_view junk[] = {"{",
                                              "}",
                                              "[",
                                              "]",
                                              ";",
                                              ",",
                                              "%r1",
                                              "%p1",
                                              ".f64",
                                              ".shared",
                                              "0x",
                                              "-1",
                                              "99999999999999999999",
                                              "@",
                                              ":",
                                              "\"",
                                              "/*",
                                              "//",
                                              ".reg .b32 %r<4294967295>;",
                                              "$L__BB0_1",
                                              "\0",
                                              "\x80",
                                              ".align 3",
                                              "%rd1",
                                              "ret;",
                                              ".param"};
  const std::uint64_t edits = 1 + random.below(3);
  for (std::uint64_t i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = random.below(text.size());
    const std::size_t length = random.below(24);
    const std::string_view with = junk[random.below(std::size(junk))];
    switch (random.below(5)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, with); break;
      case 2: text.replace(at, length, with); break;
      case 3: text.insert(static_cast<std::size_t>(random.below(text.size())), text.substr(at, length)); break;
      default: text[at] = static_cast<char>(random.below(256));
    }
  }
  return text;
}

TEST(PtxParser, DamagedModulesAreRefusedOrDecoded) {
  std::size_t refused = 0;
  std::size_t tried = 0;
  for (const char* file : corpora) {
    const std::vector<std::string> kernels = kernels_of(test::read_data(std::string(file) + ".ptx"));
    for (std::uint64_t seed = 0; seed < 250; ++seed) {
      Random random(seed);
      const std::string text = damaged(kernels[seed % kernels.size()], random);
      const Result<Program> program = Program::load(text);
      ++tried;
      if (program) continue;
      ++refused;
      EXPECT_FALSE(program.error().message.empty());
      const ErrorKind kind = program.error().kind;
      EXPECT_TRUE(kind == ErrorKind::parse || kind == ErrorKind::unsupported || kind == ErrorKind::not_found ||
                  kind == ErrorKind::invalid_argument || kind == ErrorKind::resource_exhausted ||
                  kind == ErrorKind::constraint)
          << program.error().message;
    }
  }
  EXPECT_GT(refused, tried / 4);
  EXPECT_LT(refused, tried);
}

// What decodes also runs: with a budget, on whatever its parameters happen to be.
TEST(PtxParser, DamagedKernelsRunWithoutHarm) {
  const std::vector<std::string> kernels = kernels_of(test::read_data("reductions.ptx"));
  std::size_t ran = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed + 5000);
    const Result<Program> program = Program::load(damaged(kernels[seed % kernels.size()], random));
    if (!program) continue;
    Memory memory;
    std::vector<std::byte> parameters(program->parameter_bytes(), std::byte{0});
    const Buffer x = test::make(memory, "x", 4096, Contents::zero());
    for (std::size_t at = 0; at + 8 <= parameters.size() && at < 32; at += 8)
      std::memcpy(parameters.data() + at, &x.address, 8);
    LaunchConfig config = test::shape(4, 64, 512);
    if (const auto cluster = program->required_cluster()) config.cluster = *cluster;
    LaunchOptions options;
    options.instruction_budget = 20'000;
    options.host_threads = 1;
    static_cast<void>(launch(*program, config, parameters, memory, options));
    ++ran;
  }
  EXPECT_GT(ran, 20U);
}

}  // namespace
}  // namespace stitch::emulator
