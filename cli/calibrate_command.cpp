#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "codegen/compile/compiler.h"
#include "db/sqlite_store.h"
#include "tuning/devices/calibrated_device.h"

namespace stitch::cli {
namespace {

struct CalibrateOptions {
  std::string device = "gpu:0", target;
  std::filesystem::path database, cache;
  bool json = false;
};

std::string to_json(const profiler::DeviceIdentity& identity, const DeviceSpec& spec,
                    const profiler::Calibration& calibration, const std::vector<std::string>& notes) {
  nlohmann::json constants = profiler::to_document(calibration);
  for (auto& [name, entry] : constants.items()) entry["table"] = profiler::table_value(spec, name);
  const nlohmann::json document = {{"device",
                                    {{"key", identity.key},
                                     {"name", identity.name},
                                     {"driver", identity.driver},
                                     {"sm_count", identity.sm_count},
                                     {"memory_bytes", identity.memory_bytes}}},
                                   {"target", spec.name},
                                   {"constants", std::move(constants)},
                                   {"notes", notes}};
  return document.dump();
}

std::string to_table(const profiler::DeviceIdentity& identity, const DeviceSpec& spec,
                     const profiler::Calibration& calibration, const std::vector<std::string>& notes) {
  std::string text = fmt::format("{} ({}), {} SMs, driver {}; table: {}\n", identity.name, identity.key,
                                 identity.sm_count, identity.driver, spec.name);
  text += fmt::format("{:24} {:>14} {:>9} {:>14}\n", "", "measured", "spread", "table");
  for (const auto& [name, figure] : calibration.constants) {
    text += fmt::format("{:24} {:>14.6g} {:>8.2f}% {:>14.6g}\n", name, figure.value, 100 * figure.spread,
                        profiler::table_value(spec, name));
  }
  for (const std::string& note : notes) text += note + "\n";
  text.pop_back();
  return text;
}

Result<ExitCode> calibrate(const CalibrateOptions& options) {
  RealFileSystem files;
  const SystemClock clock;
  tuning::DeviceOptions where;
  where.name = options.device;
  where.quarantine = (options.cache.empty() ? default_cache() : options.cache) / "quarantine.json";
  STITCH_ASSIGN(const auto devices, tuning::DeviceSet::open(where, files, clock));
  if (devices->timed() == nullptr) {
    return make_error(ErrorKind::invalid_argument, "device '{}' measures nothing; calibrate gpu:N", options.device);
  }
  const profiler::DeviceIdentity& identity = devices->timed()->identity();
  STITCH_ASSIGN(const DeviceSpec spec, tuning::planning_entry(options.target, devices->timed()));
  STITCH_ASSIGN(const auto compiler, codegen::NvrtcCompiler::create());
  STITCH_ASSIGN(const auto calibration, tuning::calibrate_device(*devices->timed(), spec, *compiler));
  if (!options.database.empty()) {
    db::SqliteOptions storage;
    storage.path = options.database;
    STITCH_ASSIGN(const auto database, db::open_sqlite_store(storage, clock));
    STITCH_TRY(tuning::store_calibration(*database, identity, spec, calibration, compiler->nvrtc().toolkit(), clock));
  }
  std::vector<std::string> notes = profiler::apply(spec, calibration).notes;
  for (const std::string& failure : calibration.failures) notes.push_back(failure + "; the table's stays");
  std::printf("%s\n", (options.json ? to_json(identity, spec, calibration, notes)
                                    : to_table(identity, spec, calibration, notes))
                          .c_str());
  return ExitCode::success;  // what is noted keeps the table's figure, and the others are measured
}

}  // namespace

void add_calibrate_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure the constants that planning takes from the device table, on the device");
  command->add_option("--device", options->device, "gpu:N")->check(device_name())->capture_default_str();
  command->add_option("--target", options->target, "entry of the device table; by default by the driver's name");
  command->add_option("--db", options->database, "database that the constants are stored in, with the device");
  command->add_option("--cache", options->cache, "folder of the quarantine's list");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &code] {
    const Result<ExitCode> result = calibrate(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
