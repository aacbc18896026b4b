// A stand-in for libnvidia-ml.so.1, for the tests of what asks it. It says what the test told it to.
#include <cstring>

namespace {

/// What the next questions are answered with.
struct {
  unsigned sm_mhz = 1755, memory_mhz = 2619, temperature_c = 41, power_mw = 350'500;
  unsigned long long throttled[2] = {0, 0};  ///< reasons for the first `of_first` questions, and for those behind them
  int of_first = 0;
  bool knows_power = true;
} answers;

constexpr int success = 0, not_supported = 3, not_found = 6;

}  // namespace

#define STITCH_EXPORTED extern "C" __attribute__((visibility("default")))

STITCH_EXPORTED void fake_nvml_throttle(unsigned long long first, int of_first, unsigned long long later) {
  answers.throttled[0] = first;
  answers.throttled[1] = later;
  answers.of_first = of_first;
}
STITCH_EXPORTED void fake_nvml_know_power(int knows) { answers.knows_power = knows != 0; }

STITCH_EXPORTED int nvmlInit_v2() { return success; }
STITCH_EXPORTED int nvmlShutdown() { return success; }
STITCH_EXPORTED const char* nvmlErrorString(int code) { return code == not_found ? "Not Found" : "Unknown Error"; }
STITCH_EXPORTED int nvmlSystemGetDriverVersion(char* text, unsigned) {
  std::strcpy(text, "580.95.05");
  return success;
}
STITCH_EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &answers;
  return std::strncmp(uuid, "GPU-", 4) == 0 ? success : not_found;
}
STITCH_EXPORTED int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  *mhz = which == 1 ? answers.sm_mhz : answers.memory_mhz;
  return success;
}
STITCH_EXPORTED int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) {
  *degrees = answers.temperature_c;
  return success;
}
STITCH_EXPORTED int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = answers.power_mw;
  return answers.knows_power ? success : not_supported;
}
STITCH_EXPORTED int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  *reasons = answers.throttled[answers.of_first > 0 ? 0 : 1];
  if (answers.of_first > 0) --answers.of_first;
  return success;
}
