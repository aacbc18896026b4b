#include "profiler/device/device_document.h"

namespace stitch::profiler {

namespace {

nlohmann::json document_of(const DeviceTraits& traits) {
  return {{"compute_major", traits.compute_major},
          {"compute_minor", traits.compute_minor},
          {"sm_count", traits.sm_count},
          {"l2_bytes", traits.l2_bytes},
          {"shared_per_sm", traits.shared_per_sm},
          {"shared_per_block", traits.shared_per_block},
          {"threads_per_sm", traits.threads_per_sm},
          {"blocks_per_sm", traits.blocks_per_sm},
          {"memory_clock_khz", traits.memory_clock_khz},
          {"memory_bus_bits", traits.memory_bus_bits},
          {"memory_bytes", traits.memory_bytes},
          {"mig_profile", traits.mig_profile}};
}

DeviceTraits traits_from(const nlohmann::json& document) {
  DeviceTraits traits;
  document.at("compute_major").get_to(traits.compute_major);
  document.at("compute_minor").get_to(traits.compute_minor);
  document.at("sm_count").get_to(traits.sm_count);
  document.at("l2_bytes").get_to(traits.l2_bytes);
  document.at("shared_per_sm").get_to(traits.shared_per_sm);
  document.at("shared_per_block").get_to(traits.shared_per_block);
  document.at("threads_per_sm").get_to(traits.threads_per_sm);
  document.at("blocks_per_sm").get_to(traits.blocks_per_sm);
  document.at("memory_clock_khz").get_to(traits.memory_clock_khz);
  document.at("memory_bus_bits").get_to(traits.memory_bus_bits);
  document.at("memory_bytes").get_to(traits.memory_bytes);
  document.at("mig_profile").get_to(traits.mig_profile);
  return traits;
}

}  // namespace

nlohmann::json to_document(const DeviceIdentity& identity) {
  nlohmann::json document = {{"key", identity.key},
                             {"kind", identity.kind},
                             {"name", identity.name},
                             {"architecture", identity.architecture},
                             {"driver", identity.driver},
                             {"sm_count", identity.sm_count},
                             {"memory_bytes", identity.memory_bytes}};
  // The emulated device has none, nor have recordings of before they were kept.
  if (identity.traits.known()) document["traits"] = document_of(identity.traits);
  if (identity.emulated) document["emulated"] = true;  // no real device says anything of it
  return document;
}

DeviceIdentity identity_from(const nlohmann::json& document) {
  DeviceIdentity identity = {
      document.at("key").get<std::string>(),          document.at("kind").get<std::string>(),
      document.at("name").get<std::string>(),         document.at("architecture").get<std::string>(),
      document.at("driver").get<std::string>(),       document.at("sm_count").get<int>(),
      document.at("memory_bytes").get<std::int64_t>()};
  if (const auto traits = document.find("traits"); traits != document.end()) identity.traits = traits_from(*traits);
  identity.emulated = document.value("emulated", false);
  return identity;
}

}  // namespace stitch::profiler
