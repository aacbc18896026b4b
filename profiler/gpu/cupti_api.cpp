#include "profiler/gpu/cupti_api.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#define STITCH_FIND(member, name) \
  if (api.member = reinterpret_cast<decltype(api.member)>(::dlsym(library, #name)); api.member == nullptr) return #name

namespace stitch::profiler {
namespace {

/// The name of the first entry that is missing; null when all are there.
const char* find_activity_entries(void* library, CuptiApi& api) {
  STITCH_FIND(version, cuptiGetVersion);
  STITCH_FIND(result_string, cuptiGetResultString);
  STITCH_FIND(register_callbacks, cuptiActivityRegisterCallbacks);
  STITCH_FIND(enable, cuptiActivityEnable);
  STITCH_FIND(disable, cuptiActivityDisable);
  STITCH_FIND(flush_all, cuptiActivityFlushAll);
  STITCH_FIND(next_record, cuptiActivityGetNextRecord);
  STITCH_FIND(dropped_records, cuptiActivityGetNumDroppedRecords);
  return nullptr;
}

const char* find_counter_entries(void* library, CuptiApi& api) {
  STITCH_FIND(profiler_initialize, cuptiProfilerInitialize);
  STITCH_FIND(counter_availability, cuptiProfilerGetCounterAvailability);
  STITCH_FIND(chip_name, cuptiDeviceGetChipName);
  STITCH_FIND(host_initialize, cuptiProfilerHostInitialize);
  STITCH_FIND(host_deinitialize, cuptiProfilerHostDeinitialize);
  STITCH_FIND(add_metrics, cuptiProfilerHostConfigAddMetrics);
  STITCH_FIND(config_size, cuptiProfilerHostGetConfigImageSize);
  STITCH_FIND(config_image, cuptiProfilerHostGetConfigImage);
  STITCH_FIND(pass_count, cuptiProfilerHostGetNumOfPasses);
  STITCH_FIND(evaluate, cuptiProfilerHostEvaluateToGpuValues);
  STITCH_FIND(range_enable, cuptiRangeProfilerEnable);
  STITCH_FIND(range_disable, cuptiRangeProfilerDisable);
  STITCH_FIND(data_size, cuptiRangeProfilerGetCounterDataSize);
  STITCH_FIND(data_initialize, cuptiRangeProfilerCounterDataImageInitialize);
  STITCH_FIND(set_config, cuptiRangeProfilerSetConfig);
  STITCH_FIND(range_start, cuptiRangeProfilerStart);
  STITCH_FIND(range_stop, cuptiRangeProfilerStop);
  STITCH_FIND(push_range, cuptiRangeProfilerPushRange);
  STITCH_FIND(pop_range, cuptiRangeProfilerPopRange);
  STITCH_FIND(decode, cuptiRangeProfilerDecodeData);
  return nullptr;
}

/// Full paths, or bare names for the loader to look up.
std::vector<std::filesystem::path> candidates(const std::string& library) {
  if (!library.empty()) return {library};
  std::error_code ignored;
  std::vector<std::filesystem::path> folders;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!ignored) folders.push_back(executable.parent_path());
  folders.emplace_back(STITCH_CUPTI_DIRECTORY);
  folders.emplace_back();  // the loader's search path
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : folders) {
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) paths.push_back(folder / name);
  }
  return paths;
}

}  // namespace

Result<std::shared_ptr<const CuptiApi>> CuptiApi::load(const std::string& library) {
  auto api = std::make_shared<CuptiApi>();
  void* handle = nullptr;
  std::string tried;
  for (const auto& path : candidates(library)) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      api->path = path;
      break;
    }
    tried += fmt::format("\n  {}", ::dlerror());
  }
  if (handle == nullptr) return make_error(ErrorKind::unavailable, "no CUPTI to time with; tried:{}", tried);
  if (const char* missing = find_activity_entries(handle, *api)) {
    return make_error(ErrorKind::unavailable, "{} is no CUPTI that can be used: it has no {}", api->path, missing);
  }
  if (const char* missing = find_counter_entries(handle, *api)) api->missing = missing;
  STITCH_TRY(api->check(api->version(&api->api_version), "cuptiGetVersion"));
  return std::shared_ptr<const CuptiApi>(std::move(api));
}

Status CuptiApi::check(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return {};
  const char* text = nullptr;
  result_string(result, &text);
  return make_error(ErrorKind::unavailable, "{}: {}", call,
                    text != nullptr ? text : fmt::format("error {}", static_cast<int>(result)));
}

}  // namespace stitch::profiler
