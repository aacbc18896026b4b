#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "import/import.h"

/// HLO text for tests.
namespace stitch::import {

/// A module with these computations in front of an entry that holds these instructions.
inline std::string module_text(std::string_view entry, std::string_view computations = {}) {
  return fmt::format("HloModule test\n\n{}\nENTRY main {{\n{}\n}}\n", computations, entry);
}

/// A computation of two scalars, the usual combiner: "sum { … add … }".
inline std::string combiner_text(std::string_view name, std::string_view opcode, std::string_view type = "f32") {
  return fmt::format(
      "{0} {{\n  p.0 = {2}[] parameter(0)\n  p.1 = {2}[] parameter(1)\n  ROOT r = {2}[] {1}(p.0, p.1)\n}}\n", name,
      opcode, type);
}

/// A combiner of several operators: log(exp(a) + exp(b)).
inline constexpr std::string_view log_add_text = R"(log_add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ea = f32[] exponential(a)
  eb = f32[] exponential(b)
  s = f32[] add(ea, eb)
  ROOT r = f32[] log(s)
}
)";

/// The import of a text that must be good.
inline Imported import_good(std::string_view text) {
  Result<Imported> imported = import_hlo_text(text);
  EXPECT_TRUE(imported.ok()) << imported.error().message << "\n" << text;
  return imported.ok() ? std::move(*imported) : Imported{};
}

/// The error of a text that must be bad.
inline Error import_bad(std::string_view text) {
  const Result<Imported> imported = import_hlo_text(text);
  EXPECT_FALSE(imported.ok()) << text;
  return imported.ok() ? Error{} : imported.error();
}

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace stitch::import
