#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "api/package_document.h"
#include "base/device_class.h"
#include "cli/commands.h"
#include "cli/package/local_program.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PackageOptions {
  CommonOptions common;
  std::filesystem::path model, output, database;
  std::vector<std::string> targets;
  tuning::ProductsBy products = tuning::ProductsBy::library;
  bool predicts = false;
};

Result<api::Program> make_program(const PackageOptions& options, const std::string& target, const std::string& bytes,
                                  const Interruption& interruption) {
  LocalProgram wanted{.common = options.common,
                      .name = options.model.filename().string(),
                      .database = options.database,
                      .products = options.products,
                      .tunes = !options.predicts};
  wanted.common.target = target;
  return make_local_program(wanted, bytes, interruption);
}

/// How the package goes with the GPUs that were asked for, or with all that are known.
void print(const PackageOptions& options, const api::Package& package) {
  std::vector<DeviceSpec> devices;
  for (const std::string& name : options.targets) devices.push_back(find_device_class(name)->spec);
  if (devices.empty()) devices.assign(known_devices().begin(), known_devices().end());
  Json json = {{"model", package.model}, {"targets", Json::array()}, {"devices", Json::array()}};
  for (const api::Program& program : package.programs) json["targets"].push_back(program.target.device);
  std::string text = fmt::format("{}\n", package.model);
  for (const DeviceSpec& device : devices) {
    const api::Compatibility found = api::compatibility(package, device);
    json["devices"].push_back(
        {{"device", device.name}, {"fitness", to_string(found.fitness)}, {"reason", found.reason}});
    text += fmt::format("{:<14} {:<8} {}\n", device.name, to_string(found.fitness), found.reason);
  }
  std::printf("%s\n",
              options.common.json ? json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str() : text.c_str());
}

Result<ExitCode> package(const PackageOptions& options) {
  RealFileSystem files;
  STITCH_ASSIGN(const std::string bytes, files.read(options.model));
  if (api::looks_like_package(bytes)) {
    if (!options.output.empty() || !options.database.empty() || options.predicts) {
      return make_error(ErrorKind::invalid_argument,
                        "{}: a package, and no model: --output, --db and --predict are for making one",
                        options.model.string());
    }
    const auto known = api::decode_package(bytes);
    if (!known) return known.error().within(options.model.string());
    print(options, *known);
    return ExitCode::success;
  }
  if (options.targets.empty() || options.output.empty())
    return make_error(ErrorKind::invalid_argument,
                      "{}: a model, of which a package is made for GPUs: --targets and --output are wanted",
                      options.model.string());
  const Interruption interruption;
  api::Package made{options.model.filename().string(), sha256(bytes), {}};
  bool complete = true;
  for (const std::string& target : std::set<std::string>(options.targets.begin(), options.targets.end())) {
    auto program = make_program(options, target, bytes, interruption);
    if (!program)
      return program.error().kind == ErrorKind::cancelled ? program.error() : program.error().within(target);
    for (const api::ProgramFragment& fragment : program->fragments) {
      complete = complete && fragment.plan;
      if (!fragment.plan) {
        std::fprintf(stderr, "stitch: %s: fragment %s has no plan: %s\n", target.c_str(), fragment.key.hex().c_str(),
                     fragment.why_none.c_str());
      }
    }
    made.programs.push_back(*std::move(program));
  }
  STITCH_TRY(files.publish(options.output, api::encode_package(made)));
  print(options, made);
  return complete ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_package_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<PackageOptions>();
  CLI::App* command = app.add_subcommand(
      "package", "A model's programs for several GPUs in one file, or how such a file goes with them");
  command->add_option("model", options->model, "model file, or a package")->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  command->add_option("--targets", options->targets, "GPUs that plans are made for, or that a package is held against")
      ->delimiter(',')
      ->check(target_name());
  command->add_option("--output", options->output, "the package");
  command->add_option("--db", options->database,
                      "database whose plans are taken, and that keeps what has to be made; by default none");
  add_products_option(*command, options->products);
  command->add_flag("--predict", options->predicts, "plans as predicted: no kernel is verified");
  command->callback([options, &code] {
    const Result<ExitCode> result = package(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
