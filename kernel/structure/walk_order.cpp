#include "kernel/structure/walk_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace stitch::kernel {
namespace {

/// So much is in L2 as a whole, and a later kernel may find its results there.
constexpr std::int64_t fits_l2 = 32 << 20;

/// Bytes of each large buffer that a phase loads, or stores.
struct Touched {
  std::map<Buffer, std::int64_t> loaded, stored;

  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto* buffers : {&loaded, &stored}) {
      for (const auto& [buffer, bytes] : *buffers) sum += bytes;
    }
    return sum;
  }
};

class Toucher {
 public:
  Toucher(const graph::Graph& graph, const KernelStructure& structure) : graph_(graph), structure_(structure) {}

  [[nodiscard]] Touched of(const PhaseStructure& phase) const {
    Touched touched;
    for (const GroupStructure& group : phase.groups) {
      for (const Item& item : group.program->items()) {
        if (item.kind == Item::Kind::load) add(touched.loaded, item.buffer, group.program->loaded_bytes(item));
      }
      for (const Anchor& anchor : group.anchors) {
        if (anchor.kind == Anchor::Kind::store)
          add(touched.stored, anchor.buffers[0],
              group.program->axes().elements(anchor.axes) * graph::byte_size(anchor.dtype));
      }
    }
    return touched;
  }

 private:
  void add(std::map<Buffer, std::int64_t>& all, const Buffer& buffer, std::int64_t bytes) const {
    const std::int64_t counted = std::min(bytes, size(buffer));
    if (counted < least_reread) return;
    std::int64_t& known = all[buffer];
    known = std::max(known, counted);
  }

  [[nodiscard]] std::int64_t size(const Buffer& buffer) const {
    if (buffer.kind == Buffer::Kind::table) return 0;
    if (const std::optional<std::int64_t> bytes = tensor_bytes(graph_, buffer)) return *bytes;
    const Scratch& scratch = structure_.scratch[buffer.number];
    return scratch.kind == Scratch::Kind::value ? scratch.elements * graph::byte_size(scratch.dtype) : 0;
  }

  const graph::Graph& graph_;
  const KernelStructure& structure_;
};

/// Results that phase `p` stores, and which nothing reads from there on.
std::set<Buffer> stored_for_others(const KernelStructure& structure, std::size_t p) {
  std::set<Buffer> results;
  for (const GroupStructure& group : structure.phases[p].groups) {
    for (const Anchor& anchor : group.anchors) {
      if (anchor.kind == Anchor::Kind::store && anchor.buffers[0].kind == Buffer::Kind::output)
        results.insert(anchor.buffers[0]);
    }
  }
  for (; p < structure.phases.size(); ++p) {
    for (const GroupStructure& group : structure.phases[p].groups) {
      for (const Item& item : group.program->items()) {
        if (item.kind == Item::Kind::load) results.erase(item.buffer);
      }
    }
  }
  return results;
}

/// Decides what the phases from `first` to `last` store past L2, where the last one reads again what the first did.
/// Small results go with large ones of their phase, so that packed groups of any size have the same code.
void let_pass(KernelStructure& structure, const std::vector<Touched>& touched, std::size_t first, std::size_t last) {
  std::int64_t bytes = 0;
  for (std::size_t p = first; p <= last; ++p) bytes += touched[p].bytes();
  if (bytes <= fits_l2) return;
  for (std::size_t p = first; p <= last; ++p) {
    PassingStores& passing = structure.phases[p].passing;
    const std::set<Buffer> results = stored_for_others(structure, p);
    passing.bytes = 0;
    for (const auto& [buffer, stored] : touched[p].stored) passing.bytes += results.contains(buffer) ? stored : 0;
    if (passing.bytes > 0) passing.buffers.assign(results.begin(), results.end());
  }
}

}  // namespace

void choose_walks(const graph::Graph& graph, KernelStructure& structure) {
  if (structure.phases.size() < 2) return;
  const Toucher toucher(graph, structure);
  std::vector<Touched> all;
  std::map<Buffer, int> last;  ///< phase that has touched it
  for (std::size_t p = 0; p < structure.phases.size(); ++p) {
    PhaseStructure& phase = structure.phases[p];
    const Touched& touched = all.emplace_back(toucher.of(phase));
    std::map<int, std::int64_t> again;
    for (const auto& [buffer, bytes] : touched.loaded) {
      if (const auto found = last.find(buffer); found != last.end()) again[found->second] += bytes;
    }
    std::int64_t forwards = 0, backwards = 0;
    for (const auto& [earlier, bytes] : again) {
      phase.rereads.push_back({earlier, bytes});
      (structure.phases[earlier].backwards ? forwards : backwards) += bytes;
    }
    phase.backwards = backwards > forwards;
    for (const auto* buffers : {&touched.loaded, &touched.stored}) {
      for (const auto& [buffer, bytes] : *buffers) last[buffer] = p;
    }
  }
  for (std::size_t p = 0; p < structure.phases.size(); ++p) {
    const std::vector<Reread>& rereads = structure.phases[p].rereads;
    if (!rereads.empty()) let_pass(structure, all, rereads[0].phase, p);
  }
}

}  // namespace stitch::kernel
