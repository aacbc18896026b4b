#include "profiler/device/device_document.h"

namespace stitch::profiler {

nlohmann::json to_document(const DeviceIdentity& identity) {
  nlohmann::json document = {{"key", identity.key},
          {"kind", identity.kind},
          {"name", identity.name},
          {"architecture", identity.architecture},
          {"driver", identity.driver},
          {"sm_count", identity.sm_count},
          {"memory_bytes", identity.memory_bytes}};
  if (identity.emulated) document["emulated"] = true;  // no real device says anything of it
  return document;
}

DeviceIdentity identity_from(const nlohmann::json& document) {
  return {document.at("key").get<std::string>(),          document.at("kind").get<std::string>(),
          document.at("name").get<std::string>(),         document.at("architecture").get<std::string>(),
          document.at("driver").get<std::string>(),       document.at("sm_count").get<int>(),
          document.at("memory_bytes").get<std::int64_t>(), document.value("emulated", false)};
}

}  // namespace stitch::profiler
