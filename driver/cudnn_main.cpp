// cuDNN for programs that run on the emulated driver: NVIDIA's is machine code. As much of its backend as cuda/cudnn.h
// declares; convolutions are computed on the host, in the order of their stream. Descriptors are checked as they are
// set and finalised (types, counts, what is missing, shapes that do not fit together), and executions for what lies
// elsewhere than promised, for missing workspaces, and for results where operands are.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/cudnn.h"
#include "driver/library/backend_descriptor.h"

using namespace stitch::cuda::dnn;
using stitch::driver::BackendDescriptor;
using stitch::driver::Outcome;

struct stitch::cuda::dnn::HandleData {
  CUstream stream = nullptr;
};
/// Others keep what they have of it.
struct stitch::cuda::dnn::DescriptorData {
  std::shared_ptr<BackendDescriptor> held;
};

namespace {

thread_local std::string last_error;

Status outcome(const char* function, const Outcome& outcome) {
  last_error = outcome.why;
  const char* quiet = std::getenv("STITCH_EMULATED_QUIET");
  if (!outcome && (quiet == nullptr || std::strcmp(quiet, "1") != 0))
    std::fprintf(stderr, "stitch emulated cuDNN: %s: %s\n", function, outcome.why.c_str());
  return outcome.status;
}

/// Makes a descriptor that the caller created one that the library made.
void fill(DescriptorPointer descriptor, const stitch::driver::ConvolutionPlan& plan) {
  descriptor->held->made = plan;
  descriptor->held->finalized = true;
}

/// The attributes that are read, all from what finalising has made.
Outcome read(const BackendDescriptor& from, Attribute attribute, AttributeType type, std::int64_t wanted,
             std::int64_t* count, void* elements) {
  const auto* suggestions = std::get_if<std::vector<stitch::driver::ConvolutionPlan>>(&from.made);
  const auto* plan = std::get_if<stitch::driver::ConvolutionPlan>(&from.made);
  if (attribute == Attribute::heuristics_results && suggestions != nullptr && type == AttributeType::descriptor) {
    *count = std::ssize(*suggestions);
    if (wanted == 0) return {};
    *count = std::min(*count, wanted);
    auto* const to = static_cast<DescriptorPointer*>(elements);
    for (std::int64_t i = 0; i < *count; ++i) {
      if (to[i] == nullptr || to[i]->held->type != DescriptorType::engine_configuration)
        return {Status::bad_param, "results of heuristics are configurations of engines"};
      fill(to[i], (*suggestions)[i]);
    }
    return {};
  }
  if (attribute == Attribute::configuration_engine && plan != nullptr && type == AttributeType::descriptor) {
    auto* const to = static_cast<DescriptorPointer*>(elements);
    *count = 1;
    if (wanted < 1 || to[0] == nullptr || to[0]->held->type != DescriptorType::engine)
      return {Status::bad_param, "a configuration has one engine"};
    fill(to[0], *plan);
    return {};
  }
  if (attribute == Attribute::engine_numerical_notes && plan != nullptr && type == AttributeType::numerical_note) {
    const auto& notes = plan->engine.notes;
    *count = std::ssize(notes);
    std::copy_n(notes.begin(), std::min(*count, wanted), static_cast<NumericalNote*>(elements));
    return {};
  }
  if (attribute == Attribute::plan_workspace_size && plan != nullptr && type == AttributeType::int64 && wanted >= 1 &&
      from.type == DescriptorType::execution_plan) {
    *count = 1;
    std::memcpy(elements, &plan->engine.workspace_bytes, sizeof(std::int64_t));
    return {};
  }
  return {Status::bad_param, "an attribute that the descriptor does not have, or that is not emulated"};
}

}  // namespace

#define STITCH_EXPORTED extern "C" __attribute__((visibility("default")))

STITCH_EXPORTED Status cudnnCreate(Handle* handle);
STITCH_EXPORTED Status cudnnCreate(Handle* handle) {
  if (handle == nullptr) return outcome("cudnnCreate", {Status::bad_param_null_pointer, "no place for the handle"});
  *handle = new HandleData;
  return Status::success;
}

STITCH_EXPORTED Status cudnnDestroy(Handle handle);
STITCH_EXPORTED Status cudnnDestroy(Handle handle) {
  delete handle;
  return Status::success;
}

STITCH_EXPORTED Status cudnnSetStream(Handle handle, CUstream stream);
STITCH_EXPORTED Status cudnnSetStream(Handle handle, CUstream stream) {
  if (handle == nullptr) return outcome("cudnnSetStream", {Status::bad_param_null_pointer, "no handle"});
  handle->stream = stream;
  return Status::success;
}

STITCH_EXPORTED std::size_t cudnnGetVersion();
STITCH_EXPORTED std::size_t cudnnGetVersion() { return 90800; }

STITCH_EXPORTED const char* cudnnGetErrorString(Status status);
STITCH_EXPORTED const char* cudnnGetErrorString(Status status) {
  switch (status) {
    case Status::success: return "CUDNN_STATUS_SUCCESS";
    case Status::not_initialized: return "CUDNN_STATUS_NOT_INITIALIZED";
    case Status::bad_param: return "CUDNN_STATUS_BAD_PARAM";
    case Status::bad_param_null_pointer: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case Status::bad_param_misaligned_pointer: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case Status::bad_param_not_finalized: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case Status::bad_param_duplicated_entries: return "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES";
    case Status::bad_param_attribute_type: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case Status::not_supported: return "CUDNN_STATUS_NOT_SUPPORTED";
    case Status::not_supported_graph_pattern: return "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN";
    case Status::execution_failed: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

STITCH_EXPORTED void cudnnGetLastErrorString(char* message, std::size_t most);
STITCH_EXPORTED void cudnnGetLastErrorString(char* message, std::size_t most) {
  if (message != nullptr && most > 0) std::snprintf(message, most, "%s", last_error.c_str());
}

STITCH_EXPORTED Status cudnnBackendCreateDescriptor(DescriptorType type, DescriptorPointer* descriptor);
STITCH_EXPORTED Status cudnnBackendCreateDescriptor(DescriptorType type, DescriptorPointer* descriptor) {
  constexpr const char* function = "cudnnBackendCreateDescriptor";
  if (descriptor == nullptr) return outcome(function, {Status::bad_param_null_pointer, "no place for the descriptor"});
  if (!stitch::driver::has_attributes(type))
    return outcome(function, {Status::not_supported, "a type of descriptors that is not emulated"});
  *descriptor = new DescriptorData{std::make_shared<BackendDescriptor>()};
  (*descriptor)->held->type = type;
  return Status::success;
}

STITCH_EXPORTED Status cudnnBackendDestroyDescriptor(DescriptorPointer descriptor);
STITCH_EXPORTED Status cudnnBackendDestroyDescriptor(DescriptorPointer descriptor) {
  delete descriptor;
  return Status::success;
}

STITCH_EXPORTED Status cudnnBackendSetAttribute(DescriptorPointer descriptor, Attribute attribute, AttributeType type,
                                                std::int64_t count, const void* elements);
STITCH_EXPORTED Status cudnnBackendSetAttribute(DescriptorPointer descriptor, Attribute attribute, AttributeType type,
                                                std::int64_t count, const void* elements) {
  constexpr const char* function = "cudnnBackendSetAttribute";
  if (descriptor == nullptr) return outcome(function, {Status::bad_param_null_pointer, "no descriptor"});
  std::vector<stitch::driver::SharedDescriptor> parts;
  if (type == AttributeType::descriptor && elements != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      const DescriptorPointer part = static_cast<const DescriptorPointer*>(elements)[i];
      parts.push_back(part != nullptr ? part->held : nullptr);
    }
  }
  return outcome(function, set_attribute(*descriptor->held, attribute, type, count, elements, std::move(parts)));
}

STITCH_EXPORTED Status cudnnBackendFinalize(DescriptorPointer descriptor);
STITCH_EXPORTED Status cudnnBackendFinalize(DescriptorPointer descriptor) {
  constexpr const char* function = "cudnnBackendFinalize";
  if (descriptor == nullptr) return outcome(function, {Status::bad_param_null_pointer, "no descriptor"});
  return outcome(function, finalize(*descriptor->held));
}

STITCH_EXPORTED Status cudnnBackendGetAttribute(DescriptorPointer descriptor, Attribute attribute, AttributeType type,
                                                std::int64_t wanted, std::int64_t* count, void* elements);
STITCH_EXPORTED Status cudnnBackendGetAttribute(DescriptorPointer descriptor, Attribute attribute, AttributeType type,
                                                std::int64_t wanted, std::int64_t* count, void* elements) {
  constexpr const char* function = "cudnnBackendGetAttribute";
  if (descriptor == nullptr || count == nullptr || (elements == nullptr && wanted > 0))
    return outcome(function, {Status::bad_param_null_pointer, "no descriptor, or no place for what it has"});
  if (!descriptor->held->finalized)
    return outcome(function, {Status::not_initialized, "a descriptor that is not finalised"});
  return outcome(function, read(*descriptor->held, attribute, type, wanted, count, elements));
}

STITCH_EXPORTED Status cudnnBackendExecute(Handle handle, DescriptorPointer plan, DescriptorPointer pack);
STITCH_EXPORTED Status cudnnBackendExecute(Handle handle, DescriptorPointer plan, DescriptorPointer pack) {
  constexpr const char* function = "cudnnBackendExecute";
  if (handle == nullptr || plan == nullptr || pack == nullptr)
    return outcome(function, {Status::bad_param_null_pointer, "no handle, plan or pack"});
  if (!plan->held->finalized || !pack->held->finalized)
    return outcome(function, {Status::bad_param_not_finalized, "a plan or pack that is not finalised"});
  const auto* how = std::get_if<stitch::driver::ConvolutionPlan>(&plan->held->made);
  const auto* where = std::get_if<stitch::driver::VariantPack>(&pack->held->made);
  if (how == nullptr || plan->held->type != DescriptorType::execution_plan || where == nullptr)
    return outcome(function, {Status::bad_param, "what is executed is a plan with a pack"});
  stitch::driver::LibraryWork work;
  if (const Outcome checked = launchable(*how, *where, work); !checked) return outcome(function, checked);
  if (stitch_emulated_library_call(handle->stream, work) == CUDA_SUCCESS) return Status::success;
  return outcome(function, {Status::execution_failed, "the driver refused it"});
}
