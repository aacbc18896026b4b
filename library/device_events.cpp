#include "library/device_events.h"

namespace stitch::library {

DeviceEvents::~DeviceEvents() {
  for (CUevent event : events_) driver_.destroy_event(event);
}

Status DeviceEvents::make(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    CUevent event = nullptr;
    STITCH_TRY(driver_.check(driver_.create_event(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
    events_.push_back(event);
  }
  return {};
}

Status DeviceEvents::record(std::size_t index, CUstream stream) const {
  return driver_.check(driver_.record_event(events_[index], stream), "cuEventRecord");
}

Result<double> DeviceEvents::after(std::size_t index) const {
  float milliseconds = 0;
  STITCH_TRY(driver_.check(driver_.elapsed(&milliseconds, events_[index], events_[index + 1]), "cuEventElapsedTime"));
  return milliseconds * 1e3;
}

}  // namespace stitch::library
