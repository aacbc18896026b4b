// Fetches the plan for a fragment from stitchd and runs it, in C++.
//
//   fetch_and_run FRAGMENT.json [SERVER] [emulated|cuda]
//
// Prints the plan and a checksum of each result. Exit code 0: it ran.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/client.h"
#include "client/cuda_executor.h"
#include "client/emulated_executor.h"
#include "client/plan_handle.h"
#include "graph/codec/codec.h"
#include "graph/literal.h"
#include "profiler/device/emulated_device.h"

namespace {

using namespace stitch;

/// Memory that starts where plans want it to: operator new gives no less.
static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= client::buffer_alignment);
using Buffer = std::vector<std::byte>;

/// Numbers around ±1, and 0 or 1 where elements are integers.
Buffer random_input(const graph::TensorType& type, std::uint64_t seed) {
  Buffer buffer(type.bytes());
  const std::size_t step = graph::byte_size(type.dtype);
  for (std::size_t i = 0; i * step < buffer.size(); ++i) {
    const double uniform = uniform_at(seed, i);
    const double value = graph::is_floating(type.dtype) ? 2 * uniform - 1 : static_cast<double>(uniform < 0.5);
    graph::store_element(type.dtype, value, buffer.data() + i * step);
  }
  return buffer;
}

double sum(const Buffer& buffer, graph::DType dtype) {
  const std::size_t step = graph::byte_size(dtype);
  double total = 0;
  for (std::size_t i = 0; i < buffer.size(); i += step) total += graph::load_element(dtype, buffer.data() + i);
  return total;
}

Status run(const std::string& path, const std::string& server, const std::string& device_name) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorKind::io, "{}: cannot be read", path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  STITCH_ASSIGN(graph::Graph fragment, graph::decode(text, graph::Encoding::json));

  client::ClientOptions options;
  if (!server.empty()) options.server = server;
  STITCH_ASSIGN(const auto connection, client::Client::open(options));

  profiler::EmulatedDevice emulated;
  std::unique_ptr<client::Executor> executor = std::make_unique<client::EmulatedExecutor>(emulated);
  if (device_name == "cuda") {
    STITCH_ASSIGN(executor, client::CudaExecutor::create());
  }
  STITCH_ASSIGN(const auto plan, client::PlanHandle::fetch(*connection, *executor, std::move(fragment)));

  std::vector<Buffer> inputs, outputs;
  for (const graph::TensorType& type : plan->parameters()) inputs.push_back(random_input(type, inputs.size()));
  for (const graph::TensorType& type : plan->results()) outputs.emplace_back(type.bytes());
  const std::vector<std::span<const std::byte>> parameters(inputs.begin(), inputs.end());
  const std::vector<std::span<std::byte>> results(outputs.begin(), outputs.end());
  STITCH_TRY(plan->run(parameters, results));

  // A better plan may have arrived meanwhile; the next run would use it.
  STITCH_ASSIGN(const bool swapped, plan->check_for_update());
  if (swapped) STITCH_TRY(plan->run(parameters, results));

  const api::Plan used = plan->plan();
  std::cout << fmt::format("plan {} ({}): {} launches, predicted {:.1f} us on {}, {:.0f} % verified\n", used.id.hex(),
                           used.label, used.launches.size(), used.predicted_us, used.target.device,
                           100 * used.verified_share);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const graph::TensorType type = plan->results()[i];
    std::cout << fmt::format("result {}: {}, sum {:.6g}\n", i, to_string(type), sum(outputs[i], type.dtype));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fetch_and_run FRAGMENT.json [SERVER] [emulated|cuda]\n";
    return 2;
  }
  const Status status = run(argv[1], argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "emulated");
  if (status) return 0;
  std::cerr << fmt::format("{}: {}\n", to_string(status.error().kind), status.error().message);
  return 1;
}
