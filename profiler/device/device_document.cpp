#include "profiler/device/device_document.h"

#include <string_view>

#include "graph/codec/device_traits_fields.h"
#include "graph/codec/document_writer.h"

namespace stitch::profiler {

namespace {

/// The archive (graph/codec/fields.h) that throws where a field is missing. What its rules are is not asked: devices
/// are not strangers, and what they report is kept.
class ThrowingReader {
 public:
  explicit ThrowingReader(const nlohmann::json& document) : document_(document) {}
  template <class T, class... Notes>
  ThrowingReader& operator()(std::string_view name, T& value, const Notes&...) {
    document_.at(name).get_to(value);
    return *this;
  }
  template <class T>
  ThrowingReader& defaulted(std::string_view name, T& value) {
    return (*this)(name, value);
  }

 private:
  const nlohmann::json& document_;
};

DeviceTraits traits_from(const nlohmann::json& document) {
  DeviceTraits traits;
  ThrowingReader reader(document);
  visit_fields(reader, traits);
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
  if (identity.traits.known()) document["traits"] = graph::fields::document_of(identity.traits);
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
