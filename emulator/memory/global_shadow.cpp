#include "emulator/memory/global_shadow.h"

#include "base/hash.h"

namespace stitch::emulator {
namespace {

/// Whether an earlier access may have happened at the same time as this one.
bool concurrent(Epoch other, const GlobalAccessor& who) {
  if (other.strong() && who.epoch.strong()) return false;
  const UnitClock& clock = *who.clock;
  const std::uint32_t index = other.ordinal() - clock.first_ordinal();
  if (index >= clock.blocks()) {
    // An atomic happens before what follows a later atomic that saw its value, fences or not: observation order
    // (PTX ISA, memory consistency model, causality order).
    if (other.strong() &&
        clock.weakly_ordered(who.agent, other.ordinal(), other.warp(), other.several_warps(), other.time()))
      return false;
    return !clock.foreign_ordered(who.agent, other.ordinal(), other.warp(), other.several_warps(), other.time());
  }
  if (index == who.block) {
    // Several warps of the own block: only the latest is known, so that order cannot be told; that is the block's own
    // affair. Lanes of the warp itself are not compared.
    if (other.several_warps() || other.warp() == who.epoch.warp()) return false;
    if (other.time() < clock.block_floor(who.block)) return false;
  }
  return !clock.ordered(who.agent, clock.agent(index, other.warp()), other.time());
}

void note_race(Epoch other, bool other_wrote, std::uint64_t at, GlobalOutcome& outcome) {
  if (outcome.has(GlobalFault::race)) return;
  outcome.add(GlobalFault::race, at);
  outcome.other = other;
  outcome.other_wrote = other_wrote;
}

/// Compares with whoever wrote the bytes of `mask` in this launch.
void check_writers(const SectorRecord& record, std::uint32_t mask, std::uint64_t sector, const GlobalAccessor& who,
                   GlobalOutcome& outcome) {
  const std::uint32_t overlap = record.written & mask;
  if (overlap == 0) return;
  if (!record.is_split()) {
    if (concurrent(record.writer, who)) {
      note_race(record.writer, true, sector * sector_bytes + __builtin_ctz(overlap), outcome);
    }
    return;
  }
  for (std::uint32_t rest = overlap; rest != 0; rest &= rest - 1) {
    const std::uint32_t byte = __builtin_ctz(rest);
    if (concurrent((*record.writers)[byte], who))
      note_race((*record.writers)[byte], true, sector * sector_bytes + byte, outcome);
  }
}

/// Keeps two of the readers that are not ordered among each other.
void record_reader(SectorRecord& record, std::uint32_t mask, std::uint64_t sector, const GlobalAccessor& who) {
  constexpr std::size_t kept = std::tuple_size_v<decltype(record.readers)>;
  std::size_t place = kept;
  for (std::size_t i = 0; i < kept; ++i) {
    Epoch& reader = record.readers[i];
    // Where blocks synchronise, times count: bytes read at another time cannot share the stamp.
    const bool other_time = who.times_matter && reader.time() != who.epoch.time();
    if (reader.exists() && reader.same_block(who.epoch) && !other_time) {
      const bool other_warp = reader.warp() != who.epoch.warp() || reader.several_warps();
      reader = other_warp ? who.epoch.with_several_warps() : who.epoch;
      record.read[i] |= mask;
      return;
    }
    const bool superseded = !reader.exists() || (other_time && !concurrent(reader, who));
    if (superseded && place == kept) place = i;
  }
  if (place == kept) {
    std::uint32_t readers = (record.stamp & SectorRecord::reader_mask) / SectorRecord::reader_unit + 1;
    if (readers > SectorRecord::reader_mask / SectorRecord::reader_unit)
      readers = SectorRecord::reader_mask / SectorRecord::reader_unit;
    record.stamp = (record.stamp & ~SectorRecord::reader_mask) | readers * SectorRecord::reader_unit;
    place = mix(sector, who.epoch.bits) % (readers + kept);
    if (place >= kept) return;
  }
  record.readers[place] = who.epoch;
  record.read[place] = mask;
}

void record_writer(MemoryRegion& region, SectorRecord& record, std::uint32_t mask, const GlobalAccessor& who) {
  if (record.is_split()) {
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      (*record.writers)[__builtin_ctz(rest)] = who.epoch;
    }
  } else if ((record.written & ~mask) == 0) {
    record.writer = who.epoch;
  } else if (record.writer.same_block(who.epoch) && !(who.times_matter && record.writer.time() != who.epoch.time())) {
    const bool other_warp = record.writer.warp() != who.epoch.warp() || record.writer.several_warps();
    record.writer = other_warp ? who.epoch.with_several_warps() : who.epoch;
  } else {
    // Blocks (or phases of one) share the sector: from now on every byte has its own writer.
    ByteWriters* writers = region.new_split();
    for (std::uint32_t byte = 0; byte < sector_bytes; ++byte) {
      if (((mask >> byte) & 1) != 0) {
        (*writers)[byte] = who.epoch;
      } else if (((record.written >> byte) & 1) != 0) {
        (*writers)[byte] = record.writer;
      }
    }
    record.writers = writers;
    record.stamp |= SectorRecord::split;
  }
  record.written |= mask;
}

template <class F>
void for_sectors(MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes, std::uint32_t generation, F&& visit) {
  const std::uint64_t first = offset / sector_bytes;
  const std::uint64_t last = (offset + bytes - 1) / sector_bytes;
  for (std::uint64_t sector = first; sector <= last; ++sector) {
    std::uint32_t mask = ~0U;
    if (sector == first || sector == last) {
      const std::int64_t begin = offset - sector * sector_bytes;
      mask = sector_mask(begin, begin + bytes);
    }
    SectorRecord& record = region.sectors[sector];
    record.open(generation);
    visit(record, mask, sector);
  }
}

}  // namespace

void check_global_read(MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes, const GlobalAccessor& who,
                       GlobalOutcome& outcome) {
  if (who.early != nullptr) who.early->add(region.buffer.address, offset, bytes, false);
  if (region.read_only) {
    // Nothing can be wrong; only what is touched for the first time is of interest.
    for (std::uint64_t sector = offset / sector_bytes; sector <= (offset + bytes - 1) / sector_bytes; ++sector) {
      const std::uint8_t bit = 1U << sector % 8;
      outcome.new_read_sectors += (region.sectors_read[sector / 8] & bit) == 0 ? 1 : 0;
      region.sectors_read[sector / 8] |= bit;
    }
    return;
  }
  for_sectors(region, offset, bytes, who.generation,
              [&](SectorRecord& record, std::uint32_t mask, std::uint64_t sector) {
                const std::uint32_t missing = mask & ~region.initialised(record);
                if (missing != 0) {
                  outcome.add(GlobalFault::uninitialised, sector * sector_bytes + __builtin_ctz(missing));
                }
                if ((record.written & mask) != 0) {
                  if (who.read_only) outcome.add(GlobalFault::read_only_violation, sector * sector_bytes);
                  check_writers(record, mask, sector, who, outcome);
                }
                record_reader(record, mask, sector, who);
                if ((record.stamp & SectorRecord::was_read) == 0) {
                  record.stamp |= SectorRecord::was_read;
                  ++outcome.new_read_sectors;
                }
              });
}

void check_global_write(MemoryRegion& region, std::uint64_t offset, std::uint32_t bytes, const GlobalAccessor& who,
                        GlobalOutcome& outcome) {
  if (who.early != nullptr) who.early->add(region.buffer.address, offset, bytes, true);
  for_sectors(region, offset, bytes, who.generation,
              [&](SectorRecord& record, std::uint32_t mask, std::uint64_t sector) {
                check_writers(record, mask, sector, who, outcome);
                for (std::size_t i = 0; i < record.readers.size(); ++i) {
                  const std::uint32_t overlap = record.read[i] & mask;
                  if (overlap == 0 || !concurrent(record.readers[i], who)) continue;
                  note_race(record.readers[i], false, sector * sector_bytes + __builtin_ctz(overlap), outcome);
                }
                if (record.written == 0) ++outcome.new_written_sectors;
                region.initialise(record, mask);
                record_writer(region, record, mask, who);
              });
}

}  // namespace stitch::emulator
