#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "tuning/devices/device_set.h"

namespace stitch::cli {

CLI::Validator device_name() {
  const auto check = [](const std::string& name) -> std::string {
    const Status known = tuning::check_device_name(name);
    return known ? "" : known.error().message;
  };
  return {check, "DEVICE"};
}

CLI::Validator target_name() {
  const auto check = [](const std::string& name) -> std::string {
    const auto known = find_device_class(name);
    return known ? "" : known.error().message;
  };
  return {check, "GPU"};
}

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("--target", options.target, "GPU that is planned for; by default the one that is there, or h100")
      ->check(target_name());
  command.add_option("--arch", options.architecture, "architecture to compile for; the target's when not given");
  command
      .add_option("--device", options.device,
                  "where kernels are verified, and measured if it can: emulated, emulated:counts, gpu:N, recorded:FILE")
      ->check(device_name())
      ->capture_default_str();
  command.add_option("--cache", options.cache, "folder of compiled kernels");
  command.add_option("--threads", options.threads, "worker threads; 0: one per hardware thread")->capture_default_str();
  command.add_flag("--json", options.json, "print one JSON object");
  command.add_flag("--quiet", options.quiet, "no progress display");
}

void add_constraint_options(CLI::App& command, graph::Constraints& constraints) {
  command.add_flag("--deterministic", constraints.deterministic, "equal inputs give equal bits: no sums by atomics");
  command.add_flag("--batch-invariant", constraints.batch_invariant,
                   "a row's bits do not depend on how many rows there are");
  command.add_flag("--tf32", constraints.tf32, "products of f32 may round their operands to TF32, for tensor cores");
  command.add_flag("--tf32x3", constraints.tf32x3, "products of f32 may be made of three of TF32: nearly as exact");
  command.add_flag("--bf16x3", constraints.bf16x3,
                   "products of f32 may be made of three of bf16: faster than of TF32, 16 bits of an operand count");
  command.add_flag("--winograd", constraints.winograd,
                   "convolutions of f32 may be made of fewer multiplications and larger terms, where that is faster");
  command.add_flag("--eager-precision", constraints.eager_precision,
                   "every operator's result is rounded to its type, as where operators run one at a time");
  command.add_flag("--in-place", constraints.in_place,
                   "results may be written where parameters lie, as far as kernels can be made for that");
}

CLI::Validator products_word() {
  // An enumeration is read as its number; CLI11's own transformer names no words in what it says of a wrong one.
  const auto to_number = [](std::string& word) -> std::string {
    const auto by = tuning::products_of(word);
    if (!by) return fmt::format("'{}' is none of library, faster, ours, stream", word);
    word = std::to_string(static_cast<int>(*by));
    return {};
  };
  return {to_number, "{library,faster,ours,stream}"};
}

void add_products_option(CLI::App& command, tuning::ProductsBy& products) {
  command
      .add_option(
          "--products", products,
          "products of matrices: by the library, by kernels of ours where these are predicted to be faster by "
          "more than that may be off, by ours wherever there is one, or by ours where they are faster and where "
          "a stream of a GPU has no library's call")
      ->transform(products_word());
}

ExitCode report(const Error& error, bool json) {
  if (json) {
    const nlohmann::json object = {{"error", {{"kind", to_string(error.kind)}, {"message", error.message}}}};
    std::printf("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fprintf(stderr, "stitch: %s\n", error.message.c_str());
  }
  return exit_code_of(error);
}

}  // namespace stitch::cli
