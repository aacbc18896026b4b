#include "driver/state/link.h"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "emulator/ptx/ptx_parser.h"

namespace stitch::driver {
namespace {

namespace ptx = emulator::ptx;

/// Functions that every device has (CUDA C++ Programming Guide, "Formatted output", "Dynamic global memory").
constexpr std::array<std::string_view, 4> given_functions = {"vprintf", "malloc", "free", "__assertfail"};

/// The names of all inputs: where each is defined, and who needs it.
struct Names {
  std::map<std::string, std::string> defined_in, needed_by;

  Status define(std::string_view name, const std::string& input) {
    const auto [known, fresh] = defined_in.emplace(name, input);
    if (fresh) return {};
    return make_error(ErrorKind::invalid_argument, "'{}' is defined in {} and in {}", name, known->second, input);
  }
};

Status add_names(const ptx::Module& module, const std::string& input, Names& names) {
  for (const ptx::Function& function : module.functions) {
    if (function.has_body) {
      STITCH_TRY(names.define(function.name, input));
    } else if (std::ranges::find(given_functions, function.name) == given_functions.end()) {
      names.needed_by.emplace(function.name, input);
    }
  }
  for (const ptx::Variable& variable : module.variables) {
    // Dynamic shared memory is extern in every module that uses it, and is one.
    if (variable.is_extern && variable.space == ptx::StateSpace::shared) continue;
    if (variable.is_extern) {
      names.needed_by.emplace(variable.name, input);
    } else {
      STITCH_TRY(names.define(variable.name, input));
    }
  }
  return {};
}

/// What a module has once in the linked text: its header, and declarations of variables that another one defines.
std::string without_header(const std::string& text) {
  static const std::regex once(R"(\.version\s+[0-9.]+|\.target\s+[^\n]*|\.address_size\s+[0-9]+)");
  static const std::regex declared(R"(\.extern\s+\.(global|const)\b[^;]*;)");
  return std::regex_replace(std::regex_replace(text, once, ""), declared, "");
}

/// "8.7" before "8.10".
std::pair<int, int> version_number(std::string_view version) {
  const std::string text(version);
  const std::size_t dot = text.find('.');
  return {std::atoi(text.c_str()), dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1)};
}

}  // namespace

Result<std::string> link_modules(const std::vector<LinkInput>& inputs) {
  if (inputs.empty()) return make_error(ErrorKind::invalid_argument, "nothing to link");
  if (inputs.size() == 1) return inputs.front().ptx;
  Names names;
  std::string target, version, text;
  for (const LinkInput& input : inputs) {
    const auto module = ptx::parse(input.ptx);
    if (!module) return make_error(module.error().kind, "{}: {}", input.name, module.error().message);
    STITCH_TRY(add_names(*module, input.name, names));
    if (!target.empty() && module->target != target) {
      return make_error(ErrorKind::invalid_argument, "{} is for {}, and those before it for {}", input.name,
                        module->target, target);
    }
    target = module->target;
    if (version.empty() || version_number(version) < version_number(module->version)) version = module->version;
    text += without_header(input.ptx) + "\n";
  }
  for (const auto& [name, input] : names.needed_by) {
    if (names.defined_in.contains(name)) continue;
    return make_error(ErrorKind::invalid_argument, "undefined reference to '{}' in {}", name, input);
  }
  return fmt::format(".version {}\n.target {}\n.address_size 64\n{}", version, target, text);
}

}  // namespace stitch::driver
