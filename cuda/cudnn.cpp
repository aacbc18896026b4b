#include "cuda/cudnn.h"

#include <array>

#include "cuda/library_loading.h"

namespace stitch::cuda::dnn {
namespace {

ErrorKind kind_of_status(Status status) {
  switch (status) {
    case Status::internal_error_host_allocation_failed:
    case Status::internal_error_device_allocation_failed: return ErrorKind::resource_exhausted;
    default: break;
  }
  switch (static_cast<int>(status) / 1000) {
    case 1: return ErrorKind::unavailable;
    case 3: return ErrorKind::unsupported;
    default: return ErrorKind::runtime;
  }
}

}  // namespace

Result<std::shared_ptr<const Api>> Api::load(const std::vector<std::string>& libraries) {
  auto api = std::make_shared<Api>();
  STITCH_TRY(load_first(libraries, "cuDNN", [&](FunctionFinder& finder) {
    finder.find(api->create, "cudnnCreate");
    finder.find(api->destroy, "cudnnDestroy");
    finder.find(api->set_stream, "cudnnSetStream");
    finder.find(api->version, "cudnnGetVersion");
    finder.find(api->error_string, "cudnnGetErrorString");
    finder.find(api->last_error_string, "cudnnGetLastErrorString");
    finder.find(api->create_descriptor, "cudnnBackendCreateDescriptor");
    finder.find(api->destroy_descriptor, "cudnnBackendDestroyDescriptor");
    finder.find(api->finalize, "cudnnBackendFinalize");
    finder.find(api->set_attribute, "cudnnBackendSetAttribute");
    finder.find(api->get_attribute, "cudnnBackendGetAttribute");
    finder.find(api->execute, "cudnnBackendExecute");
  }));
  return std::shared_ptr<const Api>(std::move(api));
}

stitch::Status Api::check(Status status, const char* call) const {
  if (status == Status::success) return {};
  const char* said = error_string(status);
  std::array<char, 1024> why{};
  last_error_string(why.data(), why.size() - 1);
  return make_error(kind_of_status(status), "{}: {}{}{}", call, said != nullptr ? said : "an unknown error",
                    why[0] != '\0' ? ": " : "", why.data());
}

Result<Descriptor> Descriptor::make(const Api& api, DescriptorType type) {
  DescriptorPointer made = nullptr;
  STITCH_TRY(api.check(api.create_descriptor(type, &made), "cudnnBackendCreateDescriptor"));
  return Descriptor(api, made);
}

Descriptor::~Descriptor() {
  if (pointer_ != nullptr) api_->destroy_descriptor(pointer_);
}

stitch::Status Descriptor::set(Attribute attribute, AttributeType type, std::int64_t count, const void* elements) {
  return api_->check(api_->set_attribute(pointer_, attribute, type, count, elements), "cudnnBackendSetAttribute");
}

stitch::Status Descriptor::finalize() { return api_->check(api_->finalize(pointer_), "cudnnBackendFinalize"); }

Result<std::int64_t> Descriptor::get(Attribute attribute, AttributeType type, std::int64_t wanted,
                                     void* elements) const {
  std::int64_t count = 0;
  STITCH_TRY(api_->check(api_->get_attribute(pointer_, attribute, type, wanted, &count, elements),
                         "cudnnBackendGetAttribute"));
  return count;
}

}  // namespace stitch::cuda::dnn
