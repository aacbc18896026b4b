#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stitch::codegen {

/// One error of a compiler's log.
struct CompileMessage {
  std::string file;  ///< as the log names it; "ptx" for what ptxas refuses
  int line = 0;      ///< from 1; 0 where the log gives no place
  std::string text;
  bool operator==(const CompileMessage&) const = default;
};

/// The errors of an NVRTC log, those of the front end and those of ptxas, in order; warnings are left out.
std::vector<CompileMessage> compile_errors(std::string_view log);

/// The text of a file that a log names; empty when it is not known.
using FileContents = std::function<std::string_view(std::string_view file)>;

/// Each error with the lines around the one it points at, as a person wants to read them:
///
///     kernel.cu:5: identifier "total" is undefined
///         4 |   float sum = 0;
///       > 5 |   y[0] = total;
///         6 | }
///
/// At most `limit` errors; how many more there are is said.
std::string quote_errors(const std::vector<CompileMessage>& errors, const FileContents& contents,
                         std::size_t limit = 10);

/// The log without ptxas's report on resources and without empty lines at its ends: what the compiler has to say.
std::string without_ptxas_report(std::string_view log);

}  // namespace stitch::codegen
