#include "codegen/compile/compile_log.h"

#include <gtest/gtest.h>

namespace stitch::codegen {
namespace {

constexpr std::string_view front_end_log = R"(/stitch/kernel.cu(5): error: identifier "total" is undefined
    y[0] = total;
           ^

/stitch/kernel.cu(3): warning #177-D: variable "unused" was declared but never referenced
    int unused;
        ^

/stitch/math.cuh(12): error: expression must have class type but it has type "float"
  template<class T> T bad(T v) { return v.nope(1); }
          detected during instantiation of "T bad(T) [with T=float]" at line 4

2 errors detected in the compilation of "/stitch/kernel.cu".
)";

TEST(CompileLog, FindsErrorsAndLeavesWarnings) {
  const std::vector<CompileMessage> expected = {
      {"/stitch/kernel.cu", 5, "identifier \"total\" is undefined"},
      {"/stitch/math.cuh", 12, "expression must have class type but it has type \"float\""},
  };
  EXPECT_EQ(compile_errors(front_end_log), expected);
}

TEST(CompileLog, UnderstandsEachFormOfError) {
  const struct {
    const char* log;
    CompileMessage message;
  } rows[] = {
      {"k.cu(1): catastrophic error: cannot open source file \"x.cuh\"",
       {"k.cu", 1, "cannot open source file \"x.cuh\""}},
      {"a (b)/k.cu(7): error: f(1): no", {"a (b)/k.cu", 7, "f(1): no"}},
      {"ptxas application ptx input, line 29; error   : Not a name of any known instruction: 'bogus'",
       {"ptx", 29, "Not a name of any known instruction: 'bogus'"}},
      {"ptxas error   : Entry function 'k' uses too much shared data (0x57800 bytes, 0x38c00 max)",
       {"ptx", 0, "Entry function 'k' uses too much shared data (0x57800 bytes, 0x38c00 max)"}},
      {"ptxas fatal   : Unresolved extern function 'f'", {"ptx", 0, "Unresolved extern function 'f'"}},
  };
  for (const auto& row : rows) EXPECT_EQ(compile_errors(row.log), std::vector{row.message}) << row.log;
}

TEST(CompileLog, OtherLinesAreNoErrors) {
  for (const char* line :
       {"", "ptxas fatal   : Ptx assembly aborted due to errors", "k.cu(x): error: no number", "k.cu(3): error",
        "k.cu(3): warning: w", "(: ): error: e", "ptxas info    : Used 10 registers",
        "ptxas application ptx input, line 3 error", "): error:"}) {
    EXPECT_TRUE(compile_errors(line).empty()) << line;
  }
}

TEST(CompileLog, QuotesTheLinesAroundAnError) {
  const auto contents = [](std::string_view file) -> std::string_view {
    return file == "k.cu" ? "one\ntwo\nthree\nfour" : "";
  };
  const struct {
    CompileMessage error;
    const char* text;
  } rows[] = {
      {{"k.cu", 1, "e"}, "k.cu:1: e\n  > 1 | one\n    2 | two\n"},
      {{"k.cu", 3, "e"}, "k.cu:3: e\n    2 | two\n  > 3 | three\n    4 | four\n"},
      {{"k.cu", 4, "e"}, "k.cu:4: e\n    3 | three\n  > 4 | four\n"},
      {{"k.cu", 99, "e"}, "k.cu:99: e\n"},
      {{"other", 1, "e"}, "other:1: e\n"},
      {{"ptx", 0, "e"}, "ptx: e\n"},
  };
  for (const auto& row : rows) EXPECT_EQ(quote_errors({row.error}, contents), row.text);
}

TEST(CompileLog, LineNumbersLineUp) {
  const auto contents = [](std::string_view) {
    return std::string_view("1\n2\n3\n4\n5\n6\n7\n8\nnine\nten\neleven\n");
  };
  EXPECT_EQ(quote_errors({{"k", 10, "e"}}, contents), "k:10: e\n     9 | nine\n  > 10 | ten\n    11 | eleven\n");
}

TEST(CompileLog, ManyErrorsAreCounted) {
  const std::vector<CompileMessage> errors(13, {"k", 0, "e"});
  EXPECT_EQ(quote_errors(
                errors, [](std::string_view) { return std::string_view(); }, 2),
            "k: e\nk: e\nand 11 more errors\n");
}

TEST(CompileLog, TheReportIsLeftOut) {
  EXPECT_EQ(
      without_ptxas_report("ptxas info    : 0 bytes gmem\n"
                           "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\n"),
      "");
  EXPECT_EQ(without_ptxas_report("\n\nw(1): warning: a\n\n  x\nptxas info    : Used 1 registers\nptxas warning : b\n"),
            "w(1): warning: a\n\n  x\nptxas warning : b");
}

}  // namespace
}  // namespace stitch::codegen
