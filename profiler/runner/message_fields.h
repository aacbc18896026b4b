#pragma once

#include <utility>
#include <vector>

#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"
#include "profiler/runner/protocol.h"

// The fields of requests and replies, in the words of graph/codec/fields.h. What must hold between fields is checked by
// finish_reading (profiler/runner/messages.cpp); the documents of measurements and identities are their own modules'.
namespace stitch::emulator {

void visit_fields(auto& archive, graph::fields::Of<GlobalTraffic> auto& traffic) {
  archive("requests", traffic.requests)("sectors", traffic.sectors);
  archive("unique_sectors", traffic.unique_sectors)("l2_sectors", traffic.l2_sectors);
}

void visit_fields(auto& archive, graph::fields::Of<InstructionCount> auto& count) {
  archive("warps", count.warps)("lanes", count.lanes);
}

void visit_fields(auto& archive, graph::fields::Of<Counters> auto& counters) {
  archive("global_loads", counters.global_loads)("global_stores", counters.global_stores);
  archive("instructions", counters.instructions);
  for (const NamedCounter& counter : named_counters()) archive(counter.name, counters.*counter.value);
}

}  // namespace stitch::emulator

namespace stitch::profiler {

using graph::fields::alternative;
using graph::fields::Bytes;
using graph::fields::DocumentForm;
using graph::fields::Found;
using graph::fields::Json;
using graph::fields::Of;
using graph::fields::Reader;
using graph::fields::type;

// ---- what launches are made of

Json write_value(Access access, const DocumentForm&);  ///< whether it is read only
void read_value(const Found& found, Access& into);
/// A handle as its fields, an integer as itself. (A template: what a LaunchValue may hold would turn into one.)
template <Of<LaunchValue> Value>
Json write_value(const Value& value, const DocumentForm& form) {
  return std::visit([&](const auto& held) { return graph::fields::document_of(held, form); }, value);
}
void read_value(const Found& found, LaunchValue& into);

void visit_fields(auto& archive, Of<BufferHandle> auto& buffer) {
  archive("buffer", buffer.id)("bytes", buffer.bytes)("address", buffer.address);
}

void visit_fields(auto& archive, Of<LaunchShape> auto& shape) {
  archive("blocks", shape.blocks)("threads", shape.threads)("cluster", shape.cluster);
  archive("shared_bytes", shape.shared_bytes)("cooperative", shape.cooperative)("awaits", shape.awaits);
  archive("unwaited", shape.unwaited);
}

void visit_fields(auto& archive, Of<PlannedLaunch> auto& launch) {
  archive("kernel", launch.kernel.id)("shape", launch.shape)("arguments", launch.arguments)("dependent",
                                                                                            launch.dependent);
}

void visit_fields(auto& archive, Of<PlannedCopy> auto& copy) {
  archive("from", copy.from)("to", copy.to)("bytes", copy.bytes);
}

void visit_fields(auto& archive, Of<PlannedCall> auto& call) {
  archive("call", call.call.id)("parameters", call.parameters)("result", call.result);
}

void visit_fields(auto& archive, Of<PlanStep> auto& step) {
  archive.choice(step, alternative<PlannedLaunch>("launch"), alternative<PlannedCopy>("copy"),
                 alternative<PlannedCall>("call"));
}

// ---- contents of buffers

Json write_value(const Poison& poison, const DocumentForm&);
void read_value(const Found& found, Poison& into);
Json write_value(Zero, const DocumentForm&);
void read_value(const Found& found, Zero& into);
void read_value(const Found& found, Distribution& into);

void visit_fields(auto& archive, Of<InputSource::Range> auto& range) { archive("low", range.low)("high", range.high); }

/// An InputSource, as it travels.
struct SentValues {
  graph::TensorType type;
  Distribution distribution = Distribution::mixed;
  std::uint64_t seed = 0;
  std::optional<InputSource::Range> range;
  SentValues() = default;
  explicit SentValues(const InputSource& source)
      : type(source.type()), distribution(source.distribution()), seed(source.seed()), range(source.range()) {}
  explicit operator InputSource() && { return {std::move(type), distribution, seed, range}; }
};

void visit_fields(auto& archive, Of<SentValues> auto& values) {
  archive("type", values.type)("distribution", values.distribution)("seed", values.seed);
  archive.optional("range", values.range);
}
void finish_reading(Reader& reader, const SentValues& values);

void visit_fields(auto& archive, Of<SentFill> auto& fill) {
  archive.choice(fill, alternative<Poison>("poison"), alternative<Zero>("zero"),
                 alternative<std::string, Bytes>("bytes"), alternative<InputSource, SentValues>("values"));
}

// ---- requests

void visit_fields(auto&, Of<OpenRequest> auto&) {}
void visit_fields(auto&, Of<CloseRequest> auto&) {}
void visit_fields(auto&, Of<ShutdownRequest> auto&) {}

void visit_fields(auto& archive, Of<HelloRequest> auto& hello) {
  archive("protocol", hello.protocol)("tool", hello.tool);
}

void visit_fields(auto& archive, Of<LoadRequest> auto& load) {
  archive("name", load.image.name).bytes("ptx", load.image.ptx).bytes("cubin", load.image.cubin);
  archive("architecture", load.image.architecture);
}

void visit_fields(auto& archive, Of<PrepareRequest> auto& prepare) { archive("graph", prepare.call); }
void finish_reading(Reader& reader, const PrepareRequest& prepare);

void visit_fields(auto& archive, Of<AllocateRequest> auto& allocate) {
  archive("name", allocate.name)("bytes", allocate.bytes)("fill", allocate.fill)("read_only", allocate.access);
}
void finish_reading(Reader& reader, const AllocateRequest& allocate);

void visit_fields(auto& archive, Of<FreeRequest> auto& free) { archive("buffer", free.buffer); }

void visit_fields(auto& archive, Of<ReadRequest> auto& read) {
  archive("buffer", read.buffer)("offset", read.offset)("bytes", read.bytes);
}
void finish_reading(Reader& reader, const ReadRequest& read);

void visit_fields(auto& archive, Of<WriteRequest> auto& write) {
  archive("buffer", write.buffer)("offset", write.offset).bytes("data", write.data);
}

void visit_fields(auto& archive, Of<LaunchRequest> auto& launch) {
  archive("launch", launch.launch)("blocks", launch.blocks);
}
void finish_reading(Reader& reader, const LaunchRequest& launch);

Json write_value(const MeasureOptions& options, const DocumentForm&);
void read_value(const Found& found, MeasureOptions& into);

void visit_fields(auto& archive, Of<MeasureRequest> auto& measure) {
  archive("rotations", measure.task.rotations)("cuda_graph", measure.task.cuda_graph);
  archive("options", measure.task.options);
}
void finish_reading(Reader& reader, const MeasureRequest& measure);

/// What every request begins with; its body's fields stand beside them.
void visit_fields(auto& archive, Of<Request> auto& request) { archive("id", request.id)("session", request.session); }

// ---- replies

Json write_value(const DeviceIdentity& identity, const DocumentForm&);
void read_value(const Found& found, DeviceIdentity& into);
Json write_value(const Measurement& measurement, const DocumentForm&);
void read_value(const Found& found, Measurement& into);

void visit_fields(auto&, Of<DoneReply> auto&) {}

void visit_fields(auto& archive, Of<WelcomeReply> auto& welcome) {
  archive("protocol", welcome.protocol)("tool", welcome.tool)("identity", welcome.identity);
}

void visit_fields(auto& archive, Of<OpenedReply> auto& opened) {
  archive("session", opened.session)("samples_blocks", opened.samples_blocks);
}

void visit_fields(auto& archive, Of<LoadedReply> auto& loaded) { archive("kernel", loaded.kernel.id); }
void visit_fields(auto& archive, Of<PreparedReply> auto& reply) {
  auto& prepared = reply.prepared;
  archive("call", prepared.call.id)("library", prepared.library)("copies", prepared.copies);
}
void visit_fields(auto& archive, Of<AllocatedReply> auto& allocated) { archive("buffer", allocated.buffer); }
void visit_fields(auto& archive, Of<DataReply> auto& data) { archive.bytes("data", data.data); }

/// Offsets and lengths in turns: a launch may have written thousands of runs.
struct FlatRanges {
  std::vector<std::int64_t> numbers;
  FlatRanges() = default;
  explicit FlatRanges(const std::vector<WrittenRange>& ranges);
  explicit operator std::vector<WrittenRange>() &&;
};
Json write_value(const FlatRanges& ranges, const DocumentForm& form);
void read_value(const Found& found, FlatRanges& into);

void visit_fields(auto& archive, Of<std::pair<int, std::vector<WrittenRange>>> auto& written) {
  archive("buffer", written.first).as("ranges", written.second, type<FlatRanges>);
}

void visit_fields(auto& archive, Of<LaunchedReply> auto& launched) {
  archive("findings", launched.result.findings).optional("counters", launched.result.counters);
  archive("written", launched.written);
}

void visit_fields(auto& archive, Of<MeasuredReply> auto& measured) { archive("measurement", measured.measurement); }

/// What every reply begins with.
void visit_fields(auto& archive, Of<Reply> auto& reply) { archive("id", reply.id)("lost", reply.lost); }

}  // namespace stitch::profiler

namespace stitch::graph::fields {

template <>
inline constexpr bool written_as_list<emulator::GlobalTraffic> = true;
template <>
inline constexpr bool written_as_list<emulator::InstructionCount> = true;
template <>
inline constexpr bool written_as_list<profiler::InputSource::Range> = true;

}  // namespace stitch::graph::fields
