#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "api/protocol.h"
#include "base/device_traits.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"

namespace stitch::client {

/// Buffers of a plan must start at multiples of this.
inline constexpr std::size_t buffer_alignment = 16;

/// Gives an artifact's bytes, such as Client::artifact.
using ArtifactSource = std::function<Result<std::string>(const Sha256&)>;

/// Memory of the host, one span per parameter or result.
using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<const std::span<std::byte>>;
/// Addresses in device memory, one per parameter or result.
using Addresses = std::span<const std::uint64_t>;

/// What was put into a stream last, as far as whoever enqueues knows.
enum class StreamTail : std::uint8_t {
  other,   ///< anything: the caller's work, a library's call, a copy
  kernel,  ///< a kernel of a plan: one that waits for it may be launched to begin before it has ended
};

/// A plan whose kernels are loaded on a device, with its workspace. Parameters and results are in the plan's order.
/// Runs follow one another; used by one thread at a time.
class LoadedPlan {
 public:
  virtual ~LoadedPlan() = default;
  [[nodiscard]] virtual const api::Plan& plan() const = 0;

  /// Runs it on host memory and waits: parameters are copied to the device, results back. Errors: invalid_argument
  /// (number, size or alignment of buffers), runtime (a kernel faulted; on the emulated device also what its checks
  /// found), resource_exhausted.
  virtual Status run(Inputs parameters, Outputs results) = 0;

  /// Enqueues it on a stream (a CUstream; null: the default one) and does not wait. The memory must stay until it has
  /// run. Runs of one loaded plan must be ordered on the device: they share a workspace. Errors: invalid_argument,
  /// runtime, unsupported (the emulated device has no addresses to pass).
  virtual Status launch(Addresses parameters, Addresses results, void* stream) = 0;
  /// The same behind `tail`, which becomes what stands last then.
  virtual Status launch_behind(StreamTail& tail, Addresses parameters, Addresses results, void* stream) {
    tail = StreamTail::other;
    return launch(parameters, results, stream);
  }
};

/// Where plans run.
class Executor {
 public:
  virtual ~Executor() = default;
  /// What the driver reports of the GPU, so that plans are for it; nothing where any server's target will do.
  [[nodiscard]] virtual std::optional<DeviceTraits> traits() const { return std::nullopt; }
  /// Fetches the plan's kernels and loads them. Errors: those of `artifacts`; constraint (a kernel needs more than the
  /// device has, api::why_not_launched; nothing is fetched then), unsupported (compiled for another device),
  /// resource_exhausted, runtime.
  virtual Result<std::unique_ptr<LoadedPlan>> load(const api::Plan& plan, const ArtifactSource& artifacts) = 0;
};

/// Whether buffers are as many, as large and as aligned as the plan wants; invalid_argument names the first that is
/// not.
Status check_buffers(const api::Plan& plan, Inputs parameters, Outputs results);
Status check_addresses(const api::Plan& plan, Addresses parameters, Addresses results);

}  // namespace stitch::client
