#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/codegen/contraction_case.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {

/// Takes each statement that begins so out of the source behind `from`, one at a time, and sees that it is missed:
/// `count` of them.
inline void expect_missed(const KernelCase& each, std::string_view from, std::span<const std::string_view> statements,
                          int count) {
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  const KernelOutcome right = run(each, inputs);
  const std::string& source = each.kernel.source;
  const std::size_t begin = source.find(from);
  ASSERT_NE(begin, std::string::npos);
  int tried = 0;
  for (const std::string_view what : statements) {
    for (std::size_t at = source.find(what, begin); at != std::string::npos; at = source.find(what, at + 1)) {
      KernelCase broken = each;
      broken.kernel.source.erase(at, broken.kernel.source.find(';', at) - at);
      const KernelOutcome wrong = launch(broken, inputs);
      EXPECT_TRUE(!wrong.findings.empty() || wrong.results != right.results)
          << source.substr(at, source.find(';', at) - at);
      ++tried;
    }
  }
  EXPECT_EQ(tried, count);
}

}  // namespace stitch::codegen::test
