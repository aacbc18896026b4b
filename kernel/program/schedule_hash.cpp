#include "kernel/program/schedule_hash.h"

namespace stitch::kernel {
namespace {

void add(Hasher& hasher, std::int64_t value) { hasher.integer(static_cast<std::uint64_t>(value)); }
void add_count(Hasher& hasher, std::size_t count) { hasher.integer(count); }

}  // namespace

Hash128 schedule_hash(const Schedule& schedule) {
  Hasher hasher;
  hasher.text("stitch-schedule-1");
  add_count(hasher, schedule.tile_axes.size());
  for (const int axis : schedule.tile_axes) add(hasher, axis);
  add_count(hasher, schedule.materialised.size());
  for (const graph::Value value : schedule.materialised) {
    add(hasher, value.node);
    add(hasher, value.result);
  }
  add(hasher, schedule.threads);
  add(hasher, schedule.cluster);
  add(hasher, schedule.blocks);
  if (schedule.gathered > 0) {
    hasher.text("gathered");
    add(hasher, schedule.gathered);
  }
  if (schedule.slabs.count > 1) {
    hasher.text("slabs");
    add(hasher, schedule.slabs.value.node);
    add(hasher, schedule.slabs.value.result);
    add(hasher, schedule.slabs.dimension);
    add(hasher, schedule.slabs.count);
  }
  if (schedule.retained > 0) {
    hasher.text("retained");
    add(hasher, schedule.retained);
  }
  if (schedule.rows > 0) {
    hasher.text("rows");
    add(hasher, schedule.rows);
  }
  // By name: the numbers of levels and kinds may change, what they are called is part of formats.
  add_count(hasher, schedule.syncs.size());
  for (const Sync sync : schedule.syncs) hasher.text(to_string(sync));
  add_count(hasher, schedule.phases.size());
  for (const auto& groups : schedule.phases) {
    add_count(hasher, groups.size());
    for (const GroupMapping& mapping : groups) {
      add(hasher, mapping.vector_axis);
      hasher.text(to_string(mapping.hold));
      if (mapping.shifted) hasher.text("shifted");
      if (mapping.stages > 1) {
        hasher.text("stages");
        add(hasher, mapping.stages);
      }
      if (mapping.shared_stages) hasher.text("shared stages");
      if (mapping.bulk_stages) hasher.text("bulk stages");
      if (!mapping.hoists) hasher.text("unhoisted");
      add_count(hasher, mapping.axes.size());
      for (const AxisMapping& axis : mapping.axes) {
        for (std::size_t level = 0; level < level_count; ++level) {
          if (axis.extent[level] == 1) continue;
          hasher.text(to_string(static_cast<Level>(level)));
          add(hasher, axis.extent[level]);
        }
        if (axis.interleaved) hasher.text("interleaved");
        hasher.text("");
      }
    }
  }
  return hasher.finish();
}

}  // namespace stitch::kernel
