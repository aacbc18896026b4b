// write_seeds SOURCE_FOLDER OUT: makes OUT/TARGET/* for every target of tests/fuzz from the repository's own test data,
// and from what Stitch itself writes.
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>

#include "api/package_document.h"
#include "base/clock.h"
#include "base/file.h"
#include "db/sqlite.h"
#include "db/sqlite_store.h"
#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "import/import.h"
#include "profiler/runner/protocol.h"
#include "tests/db/sample_records.h"
#include "tests/graph/random_graph.h"

namespace stitch::fuzz {
namespace {

namespace fs = std::filesystem;

/// Longer inputs make a fuzzer slow and find nothing more.
constexpr std::uintmax_t longest_seed = 96 << 10;

std::string contents_of(const fs::path& path) {
  Result<std::string> bytes = RealFileSystem().read(path);
  if (!bytes) throw std::runtime_error(bytes.error().message);
  return *std::move(bytes);
}

class SeedFolder {
 public:
  explicit SeedFolder(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }

  void add(std::string_view name, std::string_view bytes) const {
    const Status written = RealFileSystem().publish(folder_ / name, bytes);
    if (!written) throw std::runtime_error(written.error().message);
  }
  void copy(const fs::path& from) const {
    if (fs::file_size(from) > longest_seed) return;
    std::string name = from.parent_path().filename().string() + "_" + from.filename().string();
    fs::copy_file(from, folder_ / name, fs::copy_options::overwrite_existing);
  }
  /// Every file below `place` whose name ends in `ending`.
  void copy_all(const fs::path& place, std::string_view ending) const {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place)) {
      if (entry.is_regular_file() && entry.path().string().ends_with(ending)) copy(entry.path());
    }
  }

 private:
  fs::path folder_;
};

void write_fragments(const fs::path& golden, const fs::path& out) {
  const SeedFolder json(out / "fragment_json");
  const SeedFolder cbor(out / "fragment_cbor");
  for (const fs::directory_entry& entry : fs::directory_iterator(golden)) {
    for (const fs::directory_entry& file : fs::directory_iterator(entry.path())) {
      if (!file.path().filename().string().starts_with("graph.")) continue;
      const Result<import::Imported> imported = import::import_file(file.path());
      if (!imported) continue;
      const std::string name = entry.path().filename().string();
      json.add(name, graph::encode(imported->graph, graph::Encoding::json));
      cbor.add(name, graph::encode(imported->graph, graph::Encoding::cbor));
    }
  }
}

/// Small graphs of all kinds of operators, many of them squares, whose dimensions meet in more ways than one.
void write_plans(const fs::path& out) {
  const SeedFolder seeds(out / "plan");
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    graph::test::RandomGraphOptions options;
    options.seed = seed;
    options.operators = 8;
    options.most_extent = seed % 2 == 0 ? 2 : 9;
    options.arg_reduce = options.max_exp_sum = options.scan = options.reduce_window = options.scatter = 2;
    options.function = 2;
    seeds.add("random_" + std::to_string(seed),
              graph::encode(graph::test::random_graph(options), graph::Encoding::json));
  }
}

/// Every line of a file: a document of PyTorch's.
void write_aten(const fs::path& documents, const fs::path& out) {
  const SeedFolder seeds(out / "aten");
  std::istringstream lines(contents_of(documents));
  int number = 0;
  for (std::string line; std::getline(lines, line);) seeds.add(fmt::format("graph_{:02}", ++number), line);
}

/// A package has cubins, which these programs have not: bytes that stand for them, since nothing here loads any.
void give_cubins(api::Program& program) {
  for (api::ProgramFragment& fragment : program.fragments) {
    if (!fragment.plan) continue;
    for (api::KernelLaunch& launch : fragment.plan->launches) {
      const std::string bytes = "cubin of " + launch.name;
      launch.cubin = sha256(bytes);
      program.artifacts.push_back({launch.cubin, bytes});
    }
  }
}

void write_programs(const fs::path& programs, const fs::path& out) {
  const SeedFolder seeds(out / "program"), packages(out / "package");
  for (const char* name : {"mlp", "control"}) {
    const std::string bytes = contents_of(programs / (std::string(name) + ".stitch"));
    Result<api::Program> program = api::decode_program(bytes, graph::Encoding::cbor);
    if (!program) throw std::runtime_error(program.error().within(name).message);
    seeds.add(std::string(name) + "_cbor", bytes);
    seeds.add(std::string(name) + "_json", api::encode_program(*program, graph::Encoding::json));
    give_cubins(*program);
    api::Package package{program->model, program->source, {*program}};
    program->target.device = "l4";
    program->target.architecture = "sm_89";
    package.programs.push_back(*program);
    packages.add(name, api::encode_package(package));
  }
}

profiler::LaunchRequest launch_request() {
  profiler::LaunchRequest request;
  request.blocks = {0, 3, 7};
  return request;
}

profiler::InputSource random_values() {
  return {graph::TensorType{graph::DType::f32, {8, 64}}, profiler::Distribution::mixed, 7, std::nullopt};
}

/// A product that a library computes.
profiler::PrepareRequest prepare_request() {
  graph::Builder b;
  const graph::Value x = b.parameter(graph::DType::f16, {8, 16}), w = b.parameter(graph::DType::f16, {16, 8});
  return {*b.finish({b.dot(x, w, {{}, {}, {1}, {0}, graph::DType::f16})})};
}

/// A kernel, a copy and a library's call as one CUDA graph, on two sets of buffers.
profiler::MeasureRequest measure_request() {
  profiler::MeasureRequest request;
  request.task.cuda_graph = true;
  for (int set = 0; set < 2; ++set) {
    const auto buffer = [set](int number) { return profiler::BufferHandle{3 * set + number, 4096, 0}; };
    profiler::PlannedLaunch launch;
    launch.kernel.id = 0;
    launch.arguments = {buffer(0), std::int64_t{-1}};
    request.task.rotations.push_back({launch, profiler::PlannedCopy{buffer(0), buffer(1), 64},
                                      profiler::PlannedCall{{0}, {buffer(0), buffer(1)}, buffer(2)}});
  }
  return request;
}

profiler::AllocateRequest allocate_request(profiler::SentFill fill) {
  return {"x", 4096, std::move(fill), profiler::Access::read_write};
}

void write_messages(const fs::path& out) {
  const SeedFolder seeds(out / "runner");
  int number = 0;
  const auto request = [&](decltype(profiler::Request::body) body) {
    ++number;
    seeds.add("request_" + std::to_string(number), profiler::encode(profiler::Request{number, 1, std::move(body)}));
  };
  const auto reply = [&](decltype(profiler::Reply::body) body) {
    ++number;
    seeds.add("reply_" + std::to_string(number), profiler::encode(profiler::Reply{number, false, std::move(body)}));
  };
  request(profiler::HelloRequest{profiler::protocol_version, "0.1.0"});
  request(profiler::OpenRequest{});
  request(profiler::CloseRequest{});
  request(profiler::LoadRequest{});
  request(allocate_request(profiler::Poison{}));
  request(allocate_request(profiler::Zero{}));
  request(allocate_request(random_values()));
  request(allocate_request(std::string(64, 'x')));
  request(profiler::FreeRequest{});
  request(profiler::ReadRequest{{}, 16, 64});
  request(profiler::WriteRequest{{}, 16, std::string(64, 'y')});
  request(launch_request());
  request(prepare_request());
  request(measure_request());
  request(profiler::MeasureRequest{});
  request(profiler::ShutdownRequest{});
  reply(profiler::DoneReply{});
  reply(profiler::WelcomeReply{profiler::protocol_version, "0.1.0", {}});
  reply(profiler::OpenedReply{1, true});
  reply(profiler::LoadedReply{});
  reply(profiler::AllocatedReply{});
  reply(profiler::DataReply{std::string(64, 'z')});
  reply(profiler::LaunchedReply{});
  reply(profiler::MeasuredReply{});
  reply(profiler::PreparedReply{{{0}, "cuBLASLt 13.0.0", 1}});
  reply(Error{ErrorKind::invalid_argument, "no such buffer"});
}

/// Two plans, one of them measured; pages as they are once the log was taken in.
void write_database(const fs::path& out) {
  const SeedFolder seeds(out / "database");
  const TestFolder folder;
  const fs::path path = folder / "stitch.db";
  const SystemClock clock;
  {
    const auto store = db::samples::opened(path, clock);
    for (const int number : {1, 2}) db::samples::put(*store, number);
  }
  seeds.add("two_plans", contents_of(path));
}

std::string post(std::string_view target, std::string_view type, std::string_view body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", target,
                     type, body.size(), body);
}

void write_requests(const fs::path& out) {
  const SeedFolder seeds(out / "http");
  int number = 0;
  for (const std::string_view target :
       {"/v1/health", "/v1/plans", "/v1/jobs", "/v1/fragments", "/v1/models", "/v1/promotions?after=0&wait_us=1000",
        "/v1/devices", "/v1/cost-models", "/v1/metrics", "/v1/artifacts/00112233445566778899aabbccddeeff",
        "/v1/jobs/1/events?after=0", "/v1/plans/00112233445566778899aabbccddeeff?fields=id"}) {
    seeds.add(fmt::format("get_{:02}", ++number), fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", target));
  }
  constexpr std::string_view graph =
      R"({"format":"stitch-graph","version":1,"nodes":[{"op":"parameter","attributes":{"index":0,"type":"f32[8,64]"}},)"
      R"({"op":"exp","operands":[0]}],"results":[1]})";
  const std::string request = fmt::format(R"({{"fragment":{},"target":"h100","deadline_ms":0}})", graph);
  seeds.add("lookup", post("/v1/lookup", "application/json", request));
  seeds.add("fragments", post("/v1/fragments", "application/json", request));
  seeds.add("models", post("/v1/models?name=a.json&target=h100", "application/octet-stream", graph));
  seeds.add("cancel", post("/v1/jobs/1/cancel", "application/json", "{}"));
  seeds.add("chunked",
            "POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: "
            "chunked\r\n\r\n4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n");
}

}  // namespace

void write_seeds(const fs::path& repository, const fs::path& out) {
  const fs::path tests = repository / "tests";
  write_fragments(tests / "golden" / "kernels", out);
  write_plans(out);
  SeedFolder(out / "hlo").copy_all(tests / "data" / "hlo", ".hlo.txt");
  SeedFolder(out / "onnx").copy_all(tests / "data" / "onnx", ".onnx");
  SeedFolder(out / "ptx").copy_all(tests / "data" / "emulator", ".ptx");
  write_aten(tests / "data" / "aten" / "documents.txt", out);
  write_programs(tests / "data" / "programs", out);
  write_messages(out);
  write_database(out);
  write_requests(out);
}

}  // namespace stitch::fuzz

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "write_seeds SOURCE_FOLDER OUT\n");
    return 2;
  }
  try {
    stitch::fuzz::write_seeds(arguments[1], arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
