#include "profiler/gpu/monitor.h"

#include <dlfcn.h>

#include <array>

namespace stitch::profiler {

// nvml.h comes with the driver's development files, which nobody else here needs: these are the few declarations of
// its stable interface that are used (NVML API Reference, "Device Queries").
struct GpuMonitor::Api {
  using Device = void*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_uuid)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
};

namespace {

constexpr int nvml_clock_sm = 1, nvml_clock_memory = 2, nvml_temperature_gpu = 0;
constexpr unsigned nvml_version_bytes = 80;

struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr std::array<Reason, 5> reasons = {{
    {0x04, "power cap"},
    {0x08, "hardware slowdown"},
    {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "power brake"},
}};

template <class Entry>
bool find(void* library, const char* name, Entry& entry) {
  entry = reinterpret_cast<Entry>(::dlsym(library, name));
  return entry != nullptr;
}

bool find_all(void* library, GpuMonitor::Api& api) {
  // The reasons have had a new name since CUDA 12.2's driver, for the same bits.
  return find(library, "nvmlInit_v2", api.init) && find(library, "nvmlShutdown", api.shutdown) &&
         find(library, "nvmlErrorString", api.error_string) &&
         find(library, "nvmlSystemGetDriverVersion", api.driver_version) &&
         find(library, "nvmlDeviceGetHandleByUUID", api.by_uuid) &&
         find(library, "nvmlDeviceGetClockInfo", api.clock) &&
         find(library, "nvmlDeviceGetTemperature", api.temperature) &&
         find(library, "nvmlDeviceGetPowerUsage", api.power) &&
         (find(library, "nvmlDeviceGetCurrentClocksEventReasons", api.throttle) ||
          find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", api.throttle));
}

}  // namespace

std::vector<std::string> throttle_reasons(unsigned long long bits) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons) {
    if ((bits & reason.bit) != 0) names.emplace_back(reason.name);
  }
  return names;
}

GpuMonitor::GpuMonitor(std::unique_ptr<Api> api, void* device) : api_(std::move(api)), device_(device) {}

GpuMonitor::~GpuMonitor() { api_->shutdown(); }

Result<std::unique_ptr<GpuMonitor>> GpuMonitor::open(const std::string& uuid, const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return make_error(ErrorKind::unavailable, "no NVML: {}", ::dlerror());
  auto api = std::make_unique<Api>();
  if (!find_all(handle, *api)) return make_error(ErrorKind::unavailable, "{} is no NVML that can be used", library);
  if (const int code = api->init(); code != 0) {
    return make_error(ErrorKind::unavailable, "nvmlInit: {}", api->error_string(code));
  }
  void* device = nullptr;
  if (const int code = api->by_uuid(uuid.c_str(), &device); code != 0) {
    const Error error = make_error(ErrorKind::unavailable, "NVML has no {}: {}", uuid, api->error_string(code));
    api->shutdown();
    return error;
  }
  return std::unique_ptr<GpuMonitor>(new GpuMonitor(std::move(api), device));
}

DeviceState GpuMonitor::state() const {
  DeviceState state;
  unsigned value = 0;
  if (api_->clock(device_, nvml_clock_sm, &value) == 0) state.sm_clock_mhz = value;
  if (api_->clock(device_, nvml_clock_memory, &value) == 0) state.memory_clock_mhz = value;
  if (api_->temperature(device_, nvml_temperature_gpu, &value) == 0) state.temperature_c = value;
  if (api_->power(device_, &value) == 0) state.power_w = value / 1000.0;  // mW
  unsigned long long bits = 0;
  if (api_->throttle(device_, &bits) == 0) state.throttled = throttle_reasons(bits);
  return state;
}

std::string GpuMonitor::driver_version() const {
  char text[nvml_version_bytes] = {};
  return api_->driver_version(text, sizeof text) == 0 ? text : "";
}

}  // namespace stitch::profiler
