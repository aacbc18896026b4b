#include "emulator/counters.h"

#include <fmt/format.h>

namespace stitch::emulator {
namespace {

constexpr NamedCounter all_named[] = {
    {"global_atomics", &Counters::global_atomics},
    {"global_atomic_sectors", &Counters::global_atomic_sectors},
    {"shared_load_requests", &Counters::shared_load_requests},
    {"shared_store_requests", &Counters::shared_store_requests},
    {"shared_wavefronts", &Counters::shared_wavefronts},
    {"shared_extra_wavefronts", &Counters::shared_extra_wavefronts},
    {"shared_atomics", &Counters::shared_atomics},
    {"distributed_shared_requests", &Counters::distributed_shared_requests},
    {"local_load_lanes", &Counters::local_load_lanes},
    {"local_store_lanes", &Counters::local_store_lanes},
    {"block_barriers", &Counters::block_barriers},
    {"cluster_barriers", &Counters::cluster_barriers},
    {"warp_barriers", &Counters::warp_barriers},
    {"async_copy_bytes", &Counters::async_copy_bytes},
    {"bulk_copy_bytes", &Counters::bulk_copy_bytes},
    {"blocks", &Counters::blocks},
};

void print_traffic(std::string& text, std::string_view name, const GlobalTraffic& traffic) {
  if (traffic == GlobalTraffic{}) return;
  text += fmt::format("{} requests {} sectors {} unique {} l2 {}\n", name, traffic.requests, traffic.sectors,
                      traffic.unique_sectors, traffic.l2_sectors);
}

}  // namespace

std::span<const NamedCounter> named_counters() { return all_named; }

std::string_view to_string(InstructionClass kind) {
  constexpr std::array<std::string_view, instruction_class_count> names = {
      "integer",     "f32",          "f64",         "f16",          "special_function", "conversion",  "move",
      "global_load", "global_store", "shared_load", "shared_store", "local_load",       "local_store", "async_copy",
      "atomic",      "shuffle",      "barrier",     "tensor",       "control"};
  return names[static_cast<std::size_t>(kind)];
}

InstructionCount Counters::total() const {
  InstructionCount sum;
  for (const InstructionCount& count : instructions) {
    sum.warps += count.warps;
    sum.lanes += count.lanes;
  }
  return sum;
}

Counters& Counters::operator+=(const Counters& other) {
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    instructions[i].warps += other.instructions[i].warps;
    instructions[i].lanes += other.instructions[i].lanes;
  }
  global_loads += other.global_loads;
  global_stores += other.global_stores;
  for (const NamedCounter& counter : all_named) this->*counter.value += other.*counter.value;
  return *this;
}

std::string to_text(const Counters& counters) {
  std::string text;
  for (std::size_t i = 0; i < counters.instructions.size(); ++i) {
    const InstructionCount& count = counters.instructions[i];
    if (count.warps == 0) continue;
    text += fmt::format("instructions.{} warps {} lanes {}\n", to_string(static_cast<InstructionClass>(i)), count.warps,
                        count.lanes);
  }
  print_traffic(text, "global_loads", counters.global_loads);
  print_traffic(text, "global_stores", counters.global_stores);
  for (const NamedCounter& counter : all_named) {
    if (counters.*counter.value != 0) text += fmt::format("{} {}\n", counter.name, counters.*counter.value);
  }
  return text;
}

std::string to_text(const std::vector<BufferTraffic>& buffers) {
  std::string text;
  for (const BufferTraffic& buffer : buffers) {
    print_traffic(text, buffer.name + ".loads", buffer.loads);
    print_traffic(text, buffer.name + ".stores", buffer.stores);
  }
  return text;
}

}  // namespace stitch::emulator
