#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "tests/base/test_folder.h"
#include "tests/driver/library_path.h"

// The real binary, started as a user would.
namespace stitch::cli {

inline const std::string stitch_program = STITCH_BINARY_DIR "/bin/stitch";

struct Outcome {
  int code = -1;
  std::string out, err;

  /// Standard output as JSON: one object, or the test fails.
  [[nodiscard]] nlohmann::json json() const {
    nlohmann::json document = nlohmann::json::parse(out, nullptr, false);
    EXPECT_TRUE(document.is_object() || document.is_array()) << "not JSON: " << out << err;
    return document;
  }
};

inline Outcome run(std::vector<std::string> command) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = std::move(command);
  const auto done = run_process(launcher, options, "", deadline_in(300));
  EXPECT_TRUE(done.ok()) << (done ? "" : done.error().message);
  if (!done) return {};
  return {done->status.signal == 0 ? done->status.code : 128 + done->status.signal, done->standard_output,
          done->standard_error};
}

inline Outcome stitch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), stitch_program);
  return run(std::move(arguments));
}

/// The same on the emulated driver, which pretends to be such a GPU.
inline Outcome stitch_on_a_gpu(std::vector<std::string> arguments, const std::string& gpu = "h100") {
  std::vector<std::string> command = {"/usr/bin/env", driver::test::library_path(STITCH_BINARY_DIR "/lib/emulated"),
                                      "STITCH_EMULATED_QUIET=1", "STITCH_EMULATED_DEVICE=" + gpu, stitch_program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(std::move(command));
}

/// Files of one test.
class Folder : public TestFolder {
 public:
  [[nodiscard]] std::string at(const std::string& name) const { return (path() / name).string(); }
  [[nodiscard]] std::string write(const std::string& name, std::string_view contents) const {
    std::ofstream(path() / name, std::ios::binary) << contents;
    return at(name);
  }
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A softmax over rows of 64, as JAX prints it, and the sum of its squares over columns.
inline constexpr const char* softmax_hlo = R"(HloModule softmax
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[24,64] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  highest = f32[24] reduce(x, low), dimensions={1}, to_apply=max
  spread = f32[24,64] broadcast(highest), dimensions={0}
  shifted = f32[24,64] subtract(x, spread)
  powers = f32[24,64] exponential(shifted)
  total = f32[24] reduce(powers, zero), dimensions={1}, to_apply=sum
  totals = f32[24,64] broadcast(total), dimensions={0}
  y = f32[24,64] divide(powers, totals)
  squares = f32[24,64] multiply(y, y)
  columns = f32[64] reduce(squares, zero), dimensions={0}, to_apply=sum
  ROOT result = (f32[24,64], f32[64]) tuple(y, columns)
}
)";

/// The same of 40 rows: another fragment of the family.
inline std::string taller_softmax_hlo() {
  std::string text = softmax_hlo;
  for (std::size_t at = text.find("24"); at != std::string::npos; at = text.find("24", at)) text.replace(at, 2, "40");
  return text;
}

}  // namespace stitch::cli
