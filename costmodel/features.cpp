#include "costmodel/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/program/legality.h"
#include "kernel/program/residence.h"
#include "kernel/structure/items.h"

namespace stitch::costmodel {
namespace {

using graph::Op;
using kernel::GroupProgram;
using kernel::Item;
using kernel::ItemId;
using kernel::Level;
using Place = kernel::LoadPlaces::Place;

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

class Counter {
 public:
  Counter(const graph::Graph& graph, const GroupProgram& group, const kernel::KernelProgram& kernel,
          const DeviceSpec& device)
      : graph_(kernel.computes(graph)),
        group_(group),
        program_(*group.structure.program),
        schedule_(kernel.schedule),
        residence_(kernel),
        device_(device),
        places_(residence_, group, static_cast<double>(device.shared_per_sm - kernel.shared_bytes)),
        retained_bytes_(kernel.retained_bytes()),
        blocks_per_sm_(std::ceil(static_cast<double>(kernel.blocks) / device.sm_count)) {}

  GroupFeatures count() {
    f_.tiles = group_.tiles;
    f_.threads = group_.threads;
    f_.sweeps = static_cast<int>(group_.sweeps.size());
    warps_ = static_cast<double>(group_.tiles) * schedule_.cluster * kernel::warps_of(schedule_.threads);
    double useful = 1, mapped = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      useful *= static_cast<double>(group_.extents[a]);
      mapped *= static_cast<double>(group_.mapping.axes[a].covered());
      f_.thread_elements *= static_cast<double>(group_.mapping.axes[a].per_thread());
      f_.iterations *= static_cast<double>(group_.extent(a, Level::loop));
    }
    f_.lane_efficiency = useful / std::max(mapped, 1.0) * group_.threads / schedule_.threads;
    count_traffic();
    if (group_.structure.anchors[0].kind == kernel::Anchor::Kind::scatter) {
      count_scatter();
      return f_;
    }
    for (std::size_t s = 0; s < group_.sweeps.size(); ++s) count_sweep(group_.sweeps[s], static_cast<int>(s));
    count_reductions();
    return f_;
  }

 private:
  [[nodiscard]] bool is_held_in_shared(ItemId id) const {
    return std::ranges::any_of(group_.held, [&](const kernel::HeldItem& held) {
      return held.item == id && held.place == kernel::Hold::shared;
    });
  }

  [[nodiscard]] ItemId id_of(const Item& item) const { return static_cast<ItemId>(&item - program_.items().data()); }

  [[nodiscard]] Place place(const Item& load) const { return places_.of(id_of(load)); }

  [[nodiscard]] double elements(std::uint64_t axes) const {
    double count = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(axes, a)) count *= static_cast<double>(group_.extents[a]);
    }
    return count;
  }

  /// Executions of an item by one thread in one tile.
  [[nodiscard]] double per_thread(std::uint64_t axes) const {
    double count = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(axes | group_.outer_loops, a)) count *= static_cast<double>(group_.mapping.axes[a].at(Level::loop));
      if (has(axes, a)) count *= static_cast<double>(group_.extent(a, Level::vector) * group_.extent(a, Level::reg));
    }
    return count;
  }

  [[nodiscard]] double outer_iterations() const {
    double count = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(group_.outer_loops, a)) count *= static_cast<double>(group_.extent(a, Level::loop));
    }
    return count;
  }

  /// Bytes of sectors that a warp's request moves for every byte asked for: lanes that are far apart touch a sector
  /// each. `piece`: bytes that a lane takes along the vector axis at once.
  [[nodiscard]] double sector_waste(kernel::Index address, int bytes, double piece) const {
    if (const auto exact = waste_of_lanes(address, bytes, piece)) return *exact;
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      if (group_.extent(a, Level::lane) == 1 && group_.mapping.vector_axis != position) continue;
      const kernel::IndexPool::Run run = program_.pool().run(address, program_.axes().variables[a], 1);
      if (!has(program_.axes_of(address), a)) continue;  // every lane reads the same: one sector
      const bool vector = group_.mapping.vector_axis == position && group_.extent(a, Level::vector) > 1;
      const double step = run.regular ? std::fabs(static_cast<double>(run.step)) * bytes : 32;
      const double span = vector ? static_cast<double>(group_.extent(a, Level::vector)) * step : step;
      if (group_.extent(a, Level::lane) == 1) continue;
      if (span <= piece + 0.5) {
        // Contiguous along this axis; short runs waste the rest of their last sector.
        const double run_bytes =
            static_cast<double>(std::min<std::int64_t>(group_.extent(a, Level::lane) * group_.extent(a, Level::vector),
                                                       group_.extents[a])) *
            bytes;
        return run_bytes >= 32 ? 1 : 32 / run_bytes;
      }
      return std::max(1.0, std::min(32.0, span) / piece);
    }
    return 1;
  }

  /// The same by the addresses of a warp's lanes, where they lie on several axes; nothing when they do not, or where
  /// steps are not known.
  [[nodiscard]] std::optional<double> waste_of_lanes(kernel::Index address, int bytes, double piece) const {
    std::array<std::int64_t, 32> at{};
    std::size_t lanes = 1;
    int spread = 0;
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      const std::int64_t extent = group_.extent(a, Level::lane);
      if (extent == 1 || !has(program_.axes_of(address), a)) continue;
      const kernel::IndexPool::Run run = program_.pool().run(address, program_.axes().variables[a], 1);
      if (!run.regular || lanes * static_cast<std::size_t>(extent) > at.size()) return std::nullopt;
      const std::int64_t step = run.step * group_.mapping.axes[a].step(Level::lane) * bytes;
      for (std::size_t lane = lanes; lane < lanes * static_cast<std::size_t>(extent); ++lane)
        at[lane] = at[lane % lanes] + static_cast<std::int64_t>(lane / lanes) * step;
      lanes *= static_cast<std::size_t>(extent);
      ++spread;
    }
    if (spread < 2) return std::nullopt;
    constexpr std::int64_t sector = 32;
    std::sort(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(lanes));
    std::int64_t sectors = 0, seen = std::numeric_limits<std::int64_t>::min();
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto floor = [](std::int64_t x) { return x >= 0 ? x / sector : (x - sector + 1) / sector; };
      const std::int64_t first = std::max(floor(at[lane]), seen + 1), last = floor(at[lane] + std::llround(piece) - 1);
      if (last >= first) sectors += last - first + 1, seen = last;
    }
    return std::max(1.0, static_cast<double>(sectors * sector) / (static_cast<double>(lanes) * piece));
  }

  /// Sectors that a warp's request touches because it begins within one, as a factor: on average over all beginnings
  /// that the address may have. `width`: elements of a lane, which lie next to those of the other lanes.
  [[nodiscard]] double misaligned_waste(kernel::Index address, int bytes, int width) const {
    constexpr int sector = 32;
    const int v = group_.mapping.vector_axis;
    if (v < 0 || bytes >= sector) return 1;
    const std::size_t along = v;
    if (group_.extent(along, Level::lane) == 1 || group_.extent(along, Level::vector) != width) return 1;
    const auto rest = kernel::misalignment(program_, address, along, sector / bytes);
    if (!rest || rest->none()) return 1;
    std::int64_t multiple = std::gcd(sector / bytes, rest->constant);
    for (const kernel::IndexPool::Term& term : rest->terms) multiple = std::gcd(multiple, term.coefficient);
    // Shifted rows begin where their vectors do.
    if (group_.shift && width > 1) multiple = std::max<std::int64_t>(multiple, width);
    const double request =
        static_cast<double>(std::min(group_.extent(along, Level::lane) * width, group_.extents[along])) * bytes;
    return (request + static_cast<double>(sector - std::min<std::int64_t>(multiple * bytes, sector))) / request;
  }

  /// Bytes that a lane takes of one run along the vector axis, in however many accesses.
  [[nodiscard]] double run_bytes(const Item& item) const {
    const int v = group_.mapping.vector_axis;
    const int bytes = graph::byte_size(item.dtype);
    if (v < 0 || !has(item.axes, static_cast<std::size_t>(v))) return bytes;
    // Across memory, each element is in a sector of its own; of windows, the others' loads take the rest of one.
    const auto run = program_.pool().run(item.index, program_.axes().variables[v], 1);
    if (run.regular && std::abs(run.step) * bytes >= 32) return bytes;
    return bytes * static_cast<double>(group_.extent(static_cast<std::size_t>(v), Level::vector));
  }

  /// Distinct elements with these axes that the blocks of a tile touch: in all, or between two turns of its loops.
  [[nodiscard]] double per_tile(std::uint64_t axes, bool one_turn = false) const {
    double count = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (!has(axes, a)) continue;
      const kernel::AxisMapping& mapping = group_.mapping.axes[a];
      const std::int64_t each = mapping.per_block() * mapping.at(Level::cluster);
      count *= static_cast<double>(std::min(one_turn ? each / mapping.at(Level::loop) : each, group_.extents[a]));
    }
    return count;
  }

  /// Something of each of a few buffers, which are found one by one.
  template <class Amount>
  using PerBuffer = std::vector<std::pair<kernel::Buffer, Amount>>;
  template <class Amount>
  static Amount& amount_of(PerBuffer<Amount>& all, const kernel::Buffer& buffer) {
    for (auto& [known, amount] : all) {
      if (known == buffer) return amount;
    }
    return all.emplace_back(buffer, Amount{}).second;
  }

  /// What a sweep asks of one buffer, bytes.
  struct Asked {
    double requested = 0;  ///< by all warps, what several lanes of one want once
    double distinct = 0;   ///< what each load wants of its tile, once, added up
    double largest = 0;    ///< of the loads: the most that one of them wants
    double turn = 0;       ///< the same between two turns of a block's loops
    double sectors = 0;    ///< requested, with what the sectors waste in L2
  };

  /// What L1 passes on of a sweep's loads. It has what the block asked for before, as far as the block's part of it
  /// holds what was asked for since, twice over, since not all is used at once: of one buffer, by loads that together
  /// want more of it than there is and thus want the same in turn (windows); of all buffers, by the turn of a loop
  /// before this one. Shared memory is taken from L1.
  void pass_to_l2() {
    double turn = 0;
    for (const auto& [buffer, asked] : asked_) turn += asked.turn;
    // An SM full of blocks; those that retain take all of its shared memory with fewer.
    double blocks = std::max(1.0, static_cast<double>(device_.threads_per_sm) / schedule_.threads);
    if (retained_bytes_ > 0) blocks = std::min(blocks, blocks_per_sm_);
    const double shared = 2 * group_.exchange_bytes + group_.held_bytes + retained_bytes_;
    const double room = static_cast<double>(device_.shared_per_sm) / blocks - shared;
    const auto caught = [&](double since) { return std::clamp(room / std::max(2 * since, 1.0), 0.0, 1.0); };
    for (const auto& [buffer, asked] : asked_) {
      const double once = std::min(asked.distinct, std::max(asked.largest, buffer_bytes(buffer)));
      const double passed = once + (asked.distinct - once) * (1 - caught(asked.turn)) +
                            (asked.requested - asked.distinct) * (1 - caught(turn));
      f_.l2_bytes += passed * asked.sectors / std::max(asked.requested, 1.0);
    }
    asked_.clear();
  }

  /// Whether an address depends on what was loaded (gather, dynamic-slice).
  [[nodiscard]] bool is_dynamic(kernel::Index index) const {
    bool dynamic = false;
    program_.pool().for_each_variable(
        index, [&](kernel::Index variable) { dynamic = dynamic || program_.dynamic_item(variable) >= 0; });
    return dynamic;
  }

  [[nodiscard]] double buffer_bytes(const kernel::Buffer& buffer) const {
    const std::optional<std::int64_t> bytes = kernel::tensor_bytes(graph_, buffer);
    return bytes ? static_cast<double>(*bytes) : 1e18;
  }

  void count_traffic() {
    // Distinct bytes of each buffer, once per sweep that loads from it.
    std::vector<PerBuffer<double>> reads(group_.sweeps.size());
    const auto load = [&](std::size_t sweep, ItemId id) {
      const Item& item = program_.at(id);
      if (item.kind != Item::Kind::load || place(item) == Place::shared) return;
      double bytes = elements(item.axes) * graph::byte_size(item.dtype);
      bytes *= 1 - group_.found_share(id);
      // Read in the first turn; by all blocks, unless each has rows of its own.
      if (places_.is_lasting(id))
        bytes /= static_cast<double>(residence_.turns() * (is_dynamic(item.index) ? 1 : residence_.parts()));
      double& total = amount_of(reads[sweep], item.buffer);
      total = std::min(total + bytes, buffer_bytes(item.buffer));
    };
    for (const ItemId id : group_.hoisted) {
      load(0, id);
      if (place(program_.at(id)) == Place::registers) continue;
      request(program_.at(id), group_.accesses[id].width, per_iteration(program_.at(id).axes & group_.varying));
    }
    pass_to_l2();
    for (std::size_t s = 0; s < group_.sweeps.size(); ++s) {
      for (const ItemId id : group_.sweeps[s].uniform) load(s, id);
      for (const ItemId id : group_.sweeps[s].body) load(s, id);
    }
    PerBuffer<double> seen;
    for (const PerBuffer<double>& sweep : reads) {
      for (const auto& [buffer, bytes] : sweep) {
        // Read again by a later sweep of the same tile: a small operand comes from L2.
        double& before = amount_of(seen, buffer);
        if (before == 0 || bytes > 0.25 * static_cast<double>(device_.l2_bytes)) f_.dram_read_bytes += bytes;
        before = bytes;
      }
    }
    for (std::size_t i = 0; i < group_.structure.anchors.size(); ++i) {
      const kernel::Anchor& anchor = group_.structure.anchors[i];
      if (anchor.kind == kernel::Anchor::Kind::reduce) continue;
      // A scatter writes each element once, whatever number of updates it tested.
      const bool scatters = anchor.kind == kernel::Anchor::Kind::scatter;
      const std::uint64_t written = scatters ? anchor.axes & ~anchor.reduced : anchor.axes;
      double bytes = 0;
      if (anchor.kind == kernel::Anchor::Kind::partial) {
        for (const kernel::ReductionPlan& plan : group_.reductions) {
          if (plan.anchor == static_cast<int>(i))
            bytes = static_cast<double>(plan.partials) * elements(anchor.axes & ~anchor.reduced) * 4;
        }
      } else {
        bytes = elements(written) * graph::byte_size(anchor.dtype);
      }
      if (residence_.is_resident(anchor.buffers[0])) {
        // Of a cluster every block gets what any of them computes.
        const int copies = residence_.copies(group_);
        f_.shared_bytes += bytes * schedule_.cluster;
        f_.instructions += warps_ * per_thread(written) * 1.5 * copies;
        continue;
      }
      double factor = 1;
      if (anchor.kind == kernel::Anchor::Kind::store) {
        const int size = graph::byte_size(anchor.dtype);
        const int width = group_.stores[i][0].width;
        factor = sector_waste(anchor.addresses[0], size, static_cast<double>(size) * width) *
                 misaligned_waste(anchor.addresses[0], size, width);
      }
      f_.dram_write_bytes += bytes;
      f_.sector_bytes += bytes * factor;
      if (anchor.kind == kernel::Anchor::Kind::atomic) factor = 2;  // read, combined and written in L2
      f_.l2_bytes += bytes * factor;
      f_.requested_bytes += bytes;
      const int width = std::max(1, anchor.kind == kernel::Anchor::Kind::store ? group_.stores[i][0].width : 1);
      const double requests = warps_ * (scatters ? per_iteration(written) : per_thread(written)) / width;
      f_.instructions += requests * 1.5;
      f_.store_requests += requests;
      f_.store_lane_bytes += requests * width * graph::byte_size(anchor.dtype);
    }
  }

  /// Which part of the loads of an item is made: of what is guarded (a part of a concatenation) no more than there is.
  [[nodiscard]] double made_share(const Item& item) const {
    if (item.guard < 0) return 1;
    return std::min(1.0, buffer_bytes(item.buffer) / (elements(item.axes) * graph::byte_size(item.dtype)));
  }

  /// A load that each thread makes `times` times in a tile, `width` elements at once.
  void request(const Item& item, double width, double times) {
    const int size = graph::byte_size(item.dtype);
    times *= made_share(item);
    double requests = warps_ * times / width;
    f_.instructions += requests * 2;
    f_.load_requests += requests;
    f_.load_lane_bytes += warps_ * times * size;
    if (is_dynamic(item.index)) f_.dynamic_requests += requests;
    double requested = warps_ * times * distinct_lanes(item.axes) * size;
    if (place(item) == Place::shared) {
      f_.shared_bytes += std::max(requested, requests * 32);
      return;
    }
    if (const kernel::RetainedLoad* kept = group_.retention(id_of(item))) {
      // What is held in shared memory between sweeps is counted with what is held.
      if (!is_held_in_shared(id_of(item))) {
        f_.shared_bytes += requested * kept->share;
        f_.instructions += kept->fills ? requests * kept->share * 2 : 0;
      }
      if (!kept->fills) requested *= 1 - kept->share, requests *= 1 - kept->share;
    }
    f_.requested_bytes += requested;
    // What the next request has of the same sectors comes from L1.
    const double waste =
        sector_waste(item.index, size, size * width) * misaligned_waste(item.index, size, static_cast<int>(width));
    f_.sector_bytes += std::max(requested * waste, requests * 32);
    if (place(item) == Place::l1) return;
    // The accesses that make up a lane's run follow each other: all but the first find their sectors in L1. Sectors of
    // which one warp takes a part and other warps the rest are not counted on: they are many lines.
    const double made = 1 - group_.found_share(id_of(item));
    const double distinct = std::min(requested, made * per_tile(item.axes) * size * static_cast<double>(f_.tiles));
    Asked& asked = amount_of(asked_, item.buffer);
    asked.requested += requested;
    asked.distinct += distinct;
    asked.largest = std::max(asked.largest, distinct);
    asked.turn = std::max(asked.turn, per_tile(item.axes, true) * size / schedule_.cluster);
    asked.sectors += requested * sector_waste(item.index, size, std::max(size * width, run_bytes(item)));
  }

  /// The second word of random bits comes with the first one.
  [[nodiscard]] bool computes_with_another(const Item& item, const kernel::Sweep& sweep) const {
    if (item.kind != Item::Kind::compute || item.op != Op::threefry2x32 || item.origin.result == 0) return false;
    return std::any_of(sweep.body.begin(), sweep.body.end(), [&](ItemId id) {
      const Item& other = program_.at(id);
      return other.kind == Item::Kind::compute && other.op == Op::threefry2x32 && other.origin.result == 0 &&
             other.operands == item.operands;
    });
  }

  void count_sweep(const kernel::Sweep& sweep, int stage) {
    double flight = 0, chain = 0, body = 0;
    bool near = false, far = false, each_waits = false;
    const auto one = [&](ItemId id, bool uniform) {
      const Item& item = program_.at(id);
      const double times = uniform ? per_thread(item.axes & group_.outer_loops) : per_thread(item.axes);
      if (item.kind == Item::Kind::load) {
        request(item, uniform ? 1 : group_.accesses[id].width, times);
        if (uniform) return;
        near = near || place(item) == Place::l1 || place(item) == Place::shared;
        far = far || place(item) == Place::device;
        if (place(item) != Place::device && place(item) != Place::l2) return;
        const double lanes = item.axes != 0 ? 32 : 1;
        // Of what is copied to shared memory all of a tile is on its way.
        const bool copied = std::ranges::count(sweep.copied, id) > 0;
        const double at_once = copied ? times / outer_iterations() : std::min(times, per_iteration(item.axes));
        each_waits = each_waits || !copied;
        flight += (1 + places_.turns_ahead(id)) * made_share(item) * graph::byte_size(item.dtype) * at_once *
                  std::min(1.0, distinct_lanes(item.axes) / lanes);
        return;
      }
      if (computes_with_another(item, sweep)) return;
      const double cost = operation_cost(item);
      f_.instructions += warps_ * times * cost;
      f_.integer_instructions += warps_ * times * integer_cost(item);
      if (graph::byte_size(item.dtype) == 8) f_.wide_instructions += warps_ * times * cost;
      if (item.kind == Item::Kind::compute && item.dtype == graph::DType::f64)
        f_.f64_instructions += warps_ * times * cost;
      if (item.kind == Item::Kind::index || item.kind == Item::Kind::in_range)
        f_.index_instructions += warps_ * times * cost;
      body += times * cost;
      if (item.kind == Item::Kind::compute && graph::info(item.op).cost == graph::OpCost::expensive &&
          item.op != Op::divide && item.op != Op::threefry2x32) {
        f_.special_instructions += warps_ * times;
      }
    };
    for (const ItemId id : sweep.uniform) one(id, true);
    for (const ItemId id : sweep.body) one(id, false);
    pass_to_l2();
    for (const int a : sweep.anchors) {
      const kernel::Anchor& anchor = group_.structure.anchors[a];
      if (anchor.kind == kernel::Anchor::Kind::reduce || anchor.kind == kernel::Anchor::Kind::partial) {
        if (is_accumulated_product(anchor)) continue;
        const double times = per_thread(anchor.axes);
        f_.instructions += warps_ * times;
        body += times;
        // In a shifted row that has no loop each element is asked whether it is in the row.
        const std::size_t v = std::max(group_.mapping.vector_axis, 0);
        if (group_.shift && has(anchor.axes, v) && !has(group_.inner_loops, v)) {
          f_.instructions += warps_ * times * 2;
          f_.integer_instructions += warps_ * times * 2;
          f_.index_instructions += warps_ * times * 2;
          body += times;
        }
      }
    }
    // Held values that live in shared memory pass through it once per use.
    for (const kernel::HeldItem& held : group_.held) {
      if (held.place != kernel::Hold::shared) continue;
      const Item& item = program_.at(held.item);
      if (held.from == stage || (held.from < stage && held.until >= stage)) {
        const double bytes = per_thread(item.axes) * kernel::held_bytes(item);
        f_.shared_bytes += bytes * group_.threads * static_cast<double>(group_.tiles) * schedule_.cluster;
        f_.instructions += warps_ * per_thread(item.axes) / 4 * 2;
        f_.exchange_instructions += warps_ * per_thread(item.axes) / 4 * 2;
      }
    }
    const double first = far          ? device_.dram_latency
                         : flight > 0 ? device_.l2_latency
                         : near       ? device_.shared_latency
                                      : 0;
    chain += first;
    // A warp alone issues about every 4 cycles along a dependent chain; half of the body is taken to be dependent.
    const int warps_of_a_scheduler = (kernel::warps_of(schedule_.threads) + 3) / 4;
    chain += body * 2.5 * warps_of_a_scheduler;
    f_.bytes_in_flight = std::max(f_.bytes_in_flight, flight);
    // The loads of a loop's next iteration go out while this one's values are used; those of the next row wait for the
    // end of this one.
    double iterations = 1;
    const double rows = outer_iterations();
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(group_.inner_loops, a)) iterations *= static_cast<double>(group_.extent(a, Level::loop));
    }
    if (flight > 0 && !each_waits) iterations = 1;
    chain += first * (rows * (1 + (iterations - 1) * 0.5) - 1);
    f_.latency_cycles += chain;
  }

  /// Whether a sum is one of products that nothing else needs, in a turn of a recurrent kernel: a multiply-add each.
  [[nodiscard]] bool is_accumulated_product(const kernel::Anchor& anchor) const {
    if (!residence_.takes_turns() || anchor.kind != kernel::Anchor::Kind::reduce || anchor.items.size() != 1)
      return false;
    const Item& item = program_.at(anchor.items[0]);
    return item.kind == Item::Kind::compute && item.op == Op::multiply;
  }

  /// A scatter tests every update for every row, 32 at a time, and adds the few that hit.
  void count_scatter() {
    const kernel::Anchor& anchor = group_.structure.anchors[0];
    const std::size_t batch = group_.extents.size() - 1;
    const double updates = group_.extents[batch];
    double lanes = 1, hit_lanes = 1, rows = 1, elements_out = 1;
    for (std::size_t a = 0; a < batch; ++a) {
      const bool tested = has(program_.at(anchor.items[1]).axes, a);
      lanes *= static_cast<double>(group_.extent(a, Level::lane));
      if (tested) hit_lanes *= static_cast<double>(group_.extent(a, Level::lane) * group_.extent(a, Level::reg));
      if (tested) rows *= static_cast<double>(group_.extents[a]);
      elements_out *= static_cast<double>(group_.extents[a]);
    }
    const bool by_warp = lanes == 32 && hit_lanes == 1;
    const double window = elements_out / std::max(rows, 1.0);
    const double warps = static_cast<double>(f_.tiles) * kernel::warps_of(group_.threads);  // that take part
    const double tests =
        by_warp ? warps * updates / 32 : warps * updates * per_iteration(anchor.axes & ~anchor.reduced);
    f_.instructions += tests * 12 + updates * std::max(1.0, window / 32) * 10;
    const double added = updates * window * graph::byte_size(anchor.dtype);
    f_.l2_bytes += warps * updates * 4 + added;
    // A test reads the indices of 32 updates, or one that all lanes want.
    f_.sector_bytes += tests * (by_warp ? 128 : 32) + added;
    f_.requested_bytes += tests * (by_warp ? 128 : 4) + added;
    f_.load_requests += tests;
    f_.load_lane_bytes += tests * 4;
    f_.latency_cycles += device_.l2_latency * (by_warp ? updates / 32 : updates) + 2 * device_.dram_latency;
    f_.bytes_in_flight = 16;
  }

  /// Elements of a vector iteration: what is requested before the first use.
  [[nodiscard]] double per_iteration(std::uint64_t axes) const {
    double count = 1;
    for (std::size_t a = 0; a < group_.extents.size(); ++a) {
      if (has(axes, a)) count *= static_cast<double>(group_.extent(a, Level::vector) * group_.extent(a, Level::reg));
    }
    return count;
  }

  /// Lanes of a warp that ask for different elements.
  [[nodiscard]] double distinct_lanes(std::uint64_t axes) const {
    double distinct = 1, lanes = 1;
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      lanes *= static_cast<double>(group_.extent(a, Level::lane));
      if (has(axes, a)) distinct *= static_cast<double>(group_.extent(a, Level::lane));
    }
    // With fewer than 32 lanes the rest of the warp lies on the warp level.
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      const double more = std::min(static_cast<double>(group_.extent(a, Level::warp)), std::max(1.0, 32 / lanes));
      if (lanes < 32 && has(axes, a)) distinct *= more;
      lanes *= more;
    }
    return std::min(distinct, 32.0);
  }

  void count_reductions() {
    std::vector<bool> exchanged(group_.sweeps.size(), false), clustered(group_.sweeps.size(), false);
    for (const kernel::ReductionPlan& plan : group_.reductions) {
      const kernel::Anchor& anchor = group_.structure.anchors[plan.anchor];
      const std::size_t stage = anchor.stage;
      const bool partial = anchor.kind == kernel::Anchor::Kind::partial;
      double times = plan.kept_per_thread;
      double loops = 1;
      for (std::size_t a = 0; a < group_.extents.size(); ++a) {
        if (!partial && has(group_.outer_loops, a)) loops *= static_cast<double>(group_.extent(a, Level::loop));
      }
      times *= loops;
      const double steps = plan.shuffles.size();
      f_.instructions += warps_ * times * steps * 2.5;
      f_.exchange_instructions += warps_ * times * steps * 2.5;
      f_.latency_cycles += loops * steps * 30;
      if (plan.exchange > 1) {
        f_.instructions += warps_ * times * (2 + plan.exchange * 1.5);
        f_.exchange_instructions += warps_ * times * (2 + plan.exchange * 1.5);
        f_.shared_bytes += static_cast<double>(plan.exchange) * static_cast<double>(plan.kept_per_block) * 4 * 2 *
                           static_cast<double>(group_.tiles) * loops;
        f_.latency_cycles += loops * (device_.shared_latency + plan.exchange * 4.0) +
                             loops * static_cast<double>(plan.kept_per_thread) * plan.exchange;
        if (!exchanged[stage]) f_.barriers += loops;
        exchanged[stage] = true;
      }
      if (plan.cluster > 1) {
        f_.latency_cycles += loops * device_.cluster_latency * 2;
        if (!clustered[stage]) f_.cluster_barriers += loops;
        clustered[stage] = true;
      }
    }
    // Behind each group: what it leaves is for all threads.
    if (residence_.hands_on_in_block()) (schedule_.cluster > 1 ? f_.cluster_barriers : f_.barriers) += 1;
    add_barrier_cycles(f_, schedule_.threads, device_);
  }

  const graph::Graph& graph_;
  const GroupProgram& group_;
  const kernel::ScalarProgram& program_;
  const kernel::Schedule& schedule_;
  const kernel::Residence residence_;
  const DeviceSpec& device_;
  const kernel::LoadPlaces places_;
  const std::int64_t retained_bytes_;
  const double blocks_per_sm_;  ///< of the launch
  GroupFeatures f_;
  double warps_ = 0;
  PerBuffer<Asked> asked_;  ///< of the sweep that is counted
};

}  // namespace

double operation_cost(const Item& item) {
  switch (item.kind) {
    case Item::Kind::literal:
    case Item::Kind::reduced: return 0;
    case Item::Kind::index:
    case Item::Kind::in_range:
    case Item::Kind::load:
    case Item::Kind::combine: return 1;
    case Item::Kind::compute: break;
  }
  const bool wide = graph::byte_size(item.dtype) == 8;
  switch (item.op) {
    // Instructions of the f32 code that NVRTC makes of them (counted in PTX/SASS); f64 takes several times as many.
    case Op::exp: return wide ? 30 : 2;
    case Op::logistic: return wide ? 45 : 6;
    case Op::log: return wide ? 40 : 12;
    case Op::expm1: return wide ? 45 : 16;
    case Op::log1p: return wide ? 50 : 18;
    case Op::sqrt: return wide ? 20 : 2;
    case Op::rsqrt: return wide ? 20 : 1;
    case Op::divide: return graph::is_integer(item.dtype) ? (wide ? 60 : 25) : (wide ? 20 : 6);
    case Op::remainder: return graph::is_integer(item.dtype) ? (wide ? 60 : 27) : 40;
    case Op::tanh: return wide ? 60 : 14;
    case Op::erf: return wide ? 80 : 22;
    case Op::erfc: return wide ? 120 : 20;
    case Op::sin:
    case Op::cos: return wide ? 80 : 25;
    case Op::tan: return wide ? 100 : 40;
    case Op::power: return wide ? 150 : 45;
    case Op::cbrt: return wide ? 60 : 20;
    case Op::threefry2x32: return 75;
    case Op::bitcast_convert: return 0;
    default: break;
  }
  if (graph::info(item.op).cost == graph::OpCost::expensive) return wide ? 100 : 35;
  return wide && graph::is_integer(item.dtype) ? 2 : 1;
}

double integer_cost(const Item& item) {
  // ptxas has a part of the additions done by multiply-add, on the f32 unit: half of them, by what it makes of ours.
  constexpr double addition = 0.5;
  if (item.kind == Item::Kind::index) return addition;
  if (item.kind == Item::Kind::in_range) return 1;
  if (item.kind != Item::Kind::compute) return 0;
  const double words = graph::byte_size(item.dtype) == 8 ? 2 : 1;
  switch (item.op) {
    case Op::threefry2x32: return 51;  // of its 69 instructions; the other 18 are additions by multiply-add
    case Op::bit_not:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shift_left:
    case Op::shift_right_logical:
    case Op::shift_right_arithmetic:
    case Op::compare:
    case Op::select:
    case Op::maximum:
    case Op::minimum: return words;
    case Op::clamp: return 2 * words;
    case Op::convert: return addition;  // two to 16 bits in one instruction; from bf16 by a multiplication or a shift
    case Op::add:
    case Op::subtract: return graph::is_integer(item.dtype) ? addition * words : 0;
    case Op::divide:
    case Op::remainder: return graph::is_integer(item.dtype) ? operation_cost(item) / 2 : 0;
    default: return 0;
  }
}

void add_barrier_cycles(GroupFeatures& features, int block_threads, const DeviceSpec& device) {
  features.latency_cycles += features.barriers * device.block_barrier_cycles * (1 + block_threads / 512.0);
  features.latency_cycles += features.cluster_barriers * device.cluster_latency * 2;
}

GroupFeatures group_features(const graph::Graph& graph, const GroupProgram& group, const kernel::KernelProgram& kernel,
                             const DeviceSpec& device) {
  return Counter(graph, group, kernel, device).count();
}

}  // namespace stitch::costmodel
