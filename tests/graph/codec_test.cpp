#include "graph/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/codec/codec_constant.h"
#include "graph/literal.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "tests/graph/random_graph.h"

namespace stitch::graph {
namespace {

using test::random_graph;
using test::RandomGraphOptions;
using ::testing::HasSubstr;

/// Constants hold the same elements: a dense one of equal elements is read back as a splat.
bool same_attributes(const Attributes& a, const Attributes& b) {
  const auto *x = std::get_if<ConstantAttributes>(&a), *y = std::get_if<ConstantAttributes>(&b);
  if (x == nullptr || y == nullptr || x->data == y->data) return a == b;
  return x->type == y->type && expanded(*x) == expanded(*y);
}

bool same_graph(const Graph& a, const Graph& b) {
  if (a.name != b.name || a.constraints != b.constraints || a.size() != b.size()) return false;
  if (!std::equal(a.results().begin(), a.results().end(), b.results().begin(), b.results().end())) return false;
  for (NodeId id = 0; id < a.size(); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    if (x.op != y.op || x.operands != y.operands || !same_attributes(x.attributes, y.attributes) ||
        x.results != y.results || x.name != y.name || x.line != y.line || x.regions.size() != y.regions.size()) {
      return false;
    }
    for (std::size_t i = 0; i < x.regions.size(); ++i) {
      if (!same_graph(*x.regions[i], *y.regions[i])) return false;
    }
  }
  return true;
}

Graph random_of_everything(std::uint64_t seed) {
  RandomGraphOptions options;
  options.seed = seed;
  options.dtypes = {DType::f32,    DType::bf16, DType::f16, DType::f64, DType::f8e4m3,
                    DType::f8e5m2, DType::pred, DType::s8,  DType::u8,  DType::s16,
                    DType::u16,    DType::s32,  DType::u32, DType::s64, DType::u64};
  options.arg_reduce = options.max_exp_sum = options.scan = options.sort = options.reduce_window = options.scatter =
      options.dot = 1;
  return random_graph(options);
}

/// x while x[0] < 10: x + 1, inside a conditional.
Graph with_regions() {
  Builder body("body");
  const Value carried = body.parameter(DType::s32, {});
  const Graph step = *body.finish({body.binary(Op::add, carried, body.scalar(DType::s32, 1))});
  Builder condition("condition");
  const Value checked = condition.parameter(DType::s32, {});
  const Graph decide =
      *condition.finish({condition.compare(Comparison::lt, checked, condition.scalar(DType::s32, 10))});
  Builder loops("loops");
  const Value x = loops.parameter(DType::s32, {}, "x");
  loops.at("while", 7);
  const Value end = loops.add(Op::loop, {x}, LoopAttributes{10},
                              {std::make_shared<const Graph>(step), std::make_shared<const Graph>(decide)});
  const Graph looping = *loops.finish({end});
  Builder same("same");
  const Value y = same.parameter(DType::s32, {});
  const Graph keeping = *same.finish({y});
  Builder outer("outer");
  const Value p = outer.parameter(DType::pred, {}), q = outer.parameter(DType::s32, {});
  const Value result = outer.add(Op::conditional, {p, q}, NoAttributes{},
                                 {std::make_shared<const Graph>(looping), std::make_shared<const Graph>(keeping)});
  return *outer.finish({result, result});
}

/// One node of every operator that needs no region, with attributes that are not the defaults.
Graph one_of_each() {
  Builder b("each");
  const Value x = b.parameter(DType::f32, {2, 4, 6, 6}, "x"), w = b.parameter(DType::bf16, {3, 4, 2, 2});
  const Value k = b.parameter(DType::u32, {5}), i = b.parameter(DType::s64, {});
  b.at("line \"two\"\n", 2);
  const Value t = b.add(Op::threefry2x32, {k, k, k, k});
  ReduceWindowAttributes window{ReduceKind::max, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 1},
                                {0, 0, 0, 1},    {1, 1, 1, 1}, {1, 1, 1, 2}};
  const Value pooled = b.add(Op::reduce_window, {x}, window);
  const Value simple =
      b.add(Op::reduce_window, {x},
            ReduceWindowAttributes{
                ReduceKind::max, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  const Value unpooled =
      b.add(Op::select_and_scatter, {x, simple},
            SelectAndScatterAttributes{ReduceKind::max, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 0}, {0, 0, 0, 0}});
  ConvolutionAttributes c;
  c.input_spatial = c.kernel_spatial = c.output_spatial = {2, 3};
  c.strides = {2, 1};
  c.low = {0, 1};
  c.high = {1, 0};
  c.input_dilation = {1, 2};
  c.kernel_dilation = {1, 1};
  c.window_reversal = {false, true};
  const Value convolved = b.add(Op::convolution, {b.convert(x, DType::bf16), w}, c);
  const Value updated =
      b.add(Op::dynamic_update_slice, {x, b.slice(x, {0, 0, 0, 0}, {1, 4, 6, 3}), i, i, i, i}, UpdateAttributes{});
  OpaqueAttributes opaque{"topk\xC3\xA9", "k=5", {{DType::f32, {5}}, {DType::s32, {5}}}};
  const Value top = b.add(Op::opaque, {k}, opaque);
  const Value scanned = b.add(Op::scan, {x}, ScanAttributes{ReduceKind::product, 2, true, true});
  const Value bits = b.bitcast(x, DType::s32);
  Result<Graph> graph = b.finish({{t.node, 1}, pooled, unpooled, convolved, updated, {top.node, 1}, scanned, bits});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return *graph;
}

void expect_round_trip(const Graph& graph, const std::string& what) {
  for (const Encoding encoding : {Encoding::json, Encoding::cbor}) {
    const std::string bytes = encode(graph, encoding);
    const Result<Graph> back = decode(bytes, encoding);
    ASSERT_TRUE(back.ok()) << what << ": " << back.error().message;
    EXPECT_TRUE(same_graph(graph, *back)) << what << "\n" << to_text(graph) << to_text(*back);
    EXPECT_EQ(encode(*back, encoding), bytes) << what;
  }
  const Result<Graph> indented = decode(encode(graph, Encoding::json, 2), Encoding::json);
  ASSERT_TRUE(indented.ok()) << what;
  EXPECT_TRUE(same_graph(graph, *indented)) << what;
}

TEST(Codec, RandomGraphsSurvive) {
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    expect_round_trip(random_of_everything(seed), fmt::format("seed {}", seed));
}

TEST(Codec, RegionsNamesAndLinesSurvive) { expect_round_trip(with_regions(), "regions"); }

TEST(Codec, EveryKindOfAttributeSurvives) { expect_round_trip(one_of_each(), "attributes"); }

TEST(Codec, ConstraintsSurvive) {
  Graph graph = with_regions();
  EXPECT_FALSE(to_document(graph, Encoding::json).contains("constraints"));
  graph.constraints.batch_invariant = true;
  expect_round_trip(graph, "one");
  EXPECT_EQ(decode(encode(graph, Encoding::cbor), Encoding::cbor)->constraints, graph.constraints);
  graph.constraints.deterministic = true;
  EXPECT_EQ(decode(encode(graph, Encoding::json), Encoding::json)->constraints, graph.constraints);
  EXPECT_EQ(to_document(graph, Encoding::json)["constraints"], (nlohmann::json{"deterministic", "batch_invariant"}));
}

TEST(Codec, EncodingsAgree) {
  const Graph graph = with_regions();
  EXPECT_EQ(to_document(graph, Encoding::json), to_document(graph, Encoding::cbor));
  EXPECT_LT(encode(graph, Encoding::cbor).size(), encode(graph, Encoding::json).size());
}

// ---- constants

Graph constant_graph(ConstantAttributes constant) {
  Builder b;
  return *b.finish({b.constant(std::move(constant))});
}

struct ElementCase {
  DType dtype;
  std::uint64_t bits;
  std::string json;
};

class CodecElements : public ::testing::TestWithParam<ElementCase> {};

TEST_P(CodecElements, AreExactToTheBit) {
  const ElementCase& c = GetParam();
  ConstantAttributes constant{{c.dtype, {}}, std::vector<std::byte>(static_cast<std::size_t>(byte_size(c.dtype)))};
  std::memcpy(constant.data.data(), &c.bits, constant.data.size());
  const Graph graph = constant_graph(constant);
  EXPECT_EQ(to_document(graph, Encoding::json)["nodes"][0]["attributes"]["data"].dump(),
            fmt::format("{{\"values\":[{}]}}", c.json));
  expect_round_trip(graph, c.json);
}

INSTANTIATE_TEST_SUITE_P(
    Table, CodecElements,
    ::testing::Values(
        ElementCase{DType::f32, 0x3dcccccd, "0.10000000149011612"}, ElementCase{DType::f32, 0x80000000, "-0.0"},
        ElementCase{DType::f32, 0x7f800000, R"("inf")"}, ElementCase{DType::f32, 0xff800000, R"("-inf")"},
        ElementCase{DType::f32, 0x7fc00000, R"("nan")"}, ElementCase{DType::f32, 0x7fc00001, R"("0x7fc00001")"},
        ElementCase{DType::f32, 0xffc00000, R"("0xffc00000")"}, ElementCase{DType::f32, 1, "1.401298464324817e-45"},
        ElementCase{DType::f64, 0x7ff0000000000001, R"("0x7ff0000000000001")"},
        ElementCase{DType::f64, 0x0000000000000001, "5e-324"}, ElementCase{DType::f64, 0x3fb999999999999a, "0.1"},
        ElementCase{DType::bf16, 0x3dcd, "0.10009765625"}, ElementCase{DType::bf16, 0x7fc1, R"("0x7fc1")"},
        ElementCase{DType::f16, 0x7bff, "65504.0"}, ElementCase{DType::f16, 0x0001, "5.960464477539063e-08"},
        ElementCase{DType::f8e4m3, 0x7f, R"("nan")"}, ElementCase{DType::f8e4m3, 0xff, R"("0xff")"},
        ElementCase{DType::f8e4m3, 0x7e, "448.0"}, ElementCase{DType::f8e5m2, 0x7c, R"("inf")"},
        ElementCase{DType::f8e5m2, 0x7d, R"("0x7d")"}, ElementCase{DType::pred, 1, "true"},
        ElementCase{DType::pred, 0, "false"}, ElementCase{DType::pred, 2, R"("0x02")"},
        ElementCase{DType::s8, 0x80, "-128"}, ElementCase{DType::u8, 0xff, "255"},
        ElementCase{DType::s64, 0x8000000000000000, "-9223372036854775808"},
        ElementCase{DType::u64, 0xffffffffffffffff, "18446744073709551615"},
        ElementCase{DType::u32, 0xffffffff, "4294967295"}));

TEST(CodecConstants, EveryNarrowFloatIsExact) {
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16}) {
    const std::int64_t count = std::int64_t{1} << (8 * byte_size(dtype));
    for (std::int64_t first = 0; first < count; first += 64) {
      ConstantAttributes constant{{dtype, {64}}, {}};
      for (std::int64_t bits = first; bits < first + 64; ++bits) {
        for (int byte = 0; byte < byte_size(dtype); ++byte)
          constant.data.push_back(static_cast<std::byte>(bits >> (8 * byte)));
      }
      const Graph graph = constant_graph(constant);
      const Result<Graph> back = decode(encode(graph, Encoding::json), Encoding::json);
      ASSERT_TRUE(back.ok()) << back.error().message;
      ASSERT_EQ(back->node(0).as<ConstantAttributes>().data, constant.data) << to_string(dtype) << " from " << first;
    }
  }
}

TEST(CodecConstants, FormsBySizeAndEncoding) {
  const auto form = [](const ConstantAttributes& constant, Encoding encoding) {
    const nlohmann::json document = encode_data(constant, encoding);
    std::string keys;
    for (const auto& [key, value] : document.items()) keys += fmt::format("{} ", key);
    return keys;
  };
  std::vector<double> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const ConstantAttributes big = dense({DType::f32, {100}}, values);
  EXPECT_EQ(form(splat({DType::f32, {100}}, 2), Encoding::json), "splat ");
  EXPECT_EQ(form(splat({DType::f32, {}}, 2), Encoding::json), "values ");
  EXPECT_EQ(form(ConstantAttributes{{DType::f32, {0, 3}}, {}}, Encoding::json), "values ");
  EXPECT_EQ(form(big, Encoding::json), "base64 hash ");
  EXPECT_EQ(form(big, Encoding::cbor), "bytes hash ");
  expect_round_trip(constant_graph(big), "big");
  expect_round_trip(constant_graph(ConstantAttributes{{DType::s32, {0}}, {}}), "empty");
}

TEST(CodecConstants, Base64) {
  const std::pair<std::string, std::string> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* wrong : {"Z", "Zg", "Zg=", "Zh==", "Zg==Zg==", "Z===", "====", "Zm9 ", "Zm9vYm\n="}) {
    EXPECT_EQ(from_base64(wrong), std::nullopt) << wrong;
  }
}

// ---- what must fail

struct BadCase {
  std::string json;
  ErrorKind kind;
  std::string message;
};

std::string with_node(const std::string& node) {
  return R"({"format":"stitch-graph","version":1,"nodes":[{"op":"parameter","attributes":{"type":"f32[4]"}},)" + node +
         R"(],"results":[1]})";
}

class CodecErrors : public ::testing::TestWithParam<BadCase> {};

TEST_P(CodecErrors, NameThePlace) {
  const Result<Graph> graph = decode(GetParam().json, Encoding::json);
  ASSERT_FALSE(graph.ok()) << GetParam().json;
  EXPECT_EQ(to_string(graph.error().kind), to_string(GetParam().kind)) << graph.error().message;
  EXPECT_THAT(graph.error().message, HasSubstr(GetParam().message)) << GetParam().json;
}

INSTANTIATE_TEST_SUITE_P(
    Table, CodecErrors,
    ::testing::Values(
        BadCase{"", ErrorKind::parse, "byte 1"}, BadCase{"{", ErrorKind::parse, "byte 2"},
        BadCase{"{} x", ErrorKind::parse, "byte 4"}, BadCase{"[1e999]", ErrorKind::parse, "number overflow"},
        BadCase{"{\"a\":1,\"a\":2}", ErrorKind::parse, "key 'a' appears twice"},
        BadCase{"[]", ErrorKind::invalid_argument, "expected an object"},
        BadCase{"{}", ErrorKind::version_mismatch, "not a stitch-graph document"},
        BadCase{R"({"format":"stitch-graph","version":2,"nodes":[],"results":[]})", ErrorKind::version_mismatch,
                "stitch-graph version 2, this is version 1"},
        BadCase{R"({"format":"stitch-graph","nodes":[],"results":[]})", ErrorKind::version_mismatch, "version missing"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":[],"results":[],"constraints":["fast"]})",
                ErrorKind::invalid_argument, "constraints[0]: 'fast' is no constraint"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":[],"results":[],"constraints":"deterministic"})",
                ErrorKind::invalid_argument, "constraints: expected an array of constraints"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":[]})", ErrorKind::invalid_argument,
                "field 'results' is missing"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":{},"results":[]})", ErrorKind::invalid_argument,
                "nodes: expected an array"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":[],"results":[],"extra":1})",
                ErrorKind::invalid_argument, "unknown field 'extra'"},
        BadCase{R"({"format":"stitch-graph","version":1,"nodes":[],"results":[0]})", ErrorKind::invalid_argument,
                "results[0]: value 0.0 does not exist"},
        BadCase{with_node(R"(3)"), ErrorKind::invalid_argument, "nodes[1]: expected an object"},
        BadCase{with_node(R"({"operands":[0]})"), ErrorKind::invalid_argument, "nodes[1]: field 'op' is missing"},
        BadCase{with_node(R"({"op":"gelu","operands":[0]})"), ErrorKind::invalid_argument,
                "nodes[1].op: 'gelu' is not an operator"},
        BadCase{with_node(R"({"op":"exp","operands":[0],"shape":1})"), ErrorKind::invalid_argument,
                "nodes[1]: unknown field 'shape'"},
        BadCase{with_node(R"({"op":"exp","operands":0})"), ErrorKind::invalid_argument,
                "nodes[1].operands: expected an array"},
        BadCase{with_node(R"({"op":"exp","operands":["x"]})"), ErrorKind::invalid_argument,
                "nodes[1].operands[0]: expected a node's number or [number, result]"},
        BadCase{with_node(R"({"op":"exp","operands":[-1]})"), ErrorKind::invalid_argument,
                "nodes[1].operands[0]: -1 is no index"},
        BadCase{with_node(R"({"op":"exp","operands":[1]})"), ErrorKind::invalid_argument, "operand 0 does not exist"},
        BadCase{with_node(R"({"op":"exp","operands":[[0,1]]})"), ErrorKind::invalid_argument,
                "operand 0 does not exist"},
        BadCase{with_node(R"({"op":"exp","operands":[99999999999999999999]})"), ErrorKind::invalid_argument,
                "nodes[1].operands[0]: expected"},
        BadCase{with_node(R"({"op":"exp","operands":[0],"attributes":{"x":1}})"), ErrorKind::invalid_argument,
                "nodes[1].attributes: unknown field 'x'"},
        BadCase{with_node(R"({"op":"reshape","operands":[0]})"), ErrorKind::invalid_argument,
                "nodes[1].attributes: field 'dims' is missing"},
        BadCase{with_node(R"({"op":"reshape","operands":[0],"attributes":{"dims":[2,"2"]}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.dims[1]: expected an integer"},
        BadCase{with_node(R"({"op":"reshape","operands":[0],"attributes":{"dims":[2,2.0]}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.dims[1]: expected an integer"},
        BadCase{with_node(R"({"op":"reshape","operands":[0],"attributes":{"dims":[18446744073709551615]}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.dims[0]: expected an integer"},
        BadCase{with_node(R"({"op":"reshape","operands":[0],"attributes":{"dims":[3]}})"), ErrorKind::invalid_argument,
                "nodes[1]: reshape #1: attribute 'dims': [3] has 3 elements"},
        BadCase{with_node(R"({"op":"convert","operands":[0],"attributes":{"dtype":"f31"}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.dtype: 'f31' is not an element type"},
        BadCase{with_node(R"({"op":"reduce","operands":[0],"attributes":{"kind":"mean","dimensions":[0]}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.kind: 'mean' is not a combiner"},
        BadCase{with_node(R"({"op":"compare","operands":[0,0],"attributes":{"direction":7}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.direction: expected the name of a comparison"},
        BadCase{
            with_node(
                R"({"op":"scan","operands":[0],"attributes":{"kind":"sum","dimension":0,"reverse":0,"exclusive":false}})"),
            ErrorKind::invalid_argument, "nodes[1].attributes.reverse: expected true or false"},
        BadCase{with_node(R"({"op":"parameter","attributes":{"type":"f32[4"}})"), ErrorKind::invalid_argument,
                "nodes[1].attributes.type: bad tensor type 'f32[4'"},
        BadCase{with_node(R"({"op":"exp","operands":[0],"line":-1})"), ErrorKind::invalid_argument,
                "nodes[1]: line -1"},
        BadCase{with_node(R"({"op":"exp","operands":[0],"name":1})"), ErrorKind::invalid_argument,
                "nodes[1].name: expected a string"},
        BadCase{with_node(R"({"op":"exp","operands":[0],"regions":[{"nodes":[],"results":[]}]})"),
                ErrorKind::invalid_argument, "has regions, which exp does not take"},
        BadCase{
            with_node(
                R"({"op":"loop","operands":[0],"attributes":{"trip_count":-1},"regions":[{"nodes":[{"op":"x"}],"results":[]}]})"),
            ErrorKind::invalid_argument, "nodes[1].regions[0].nodes[0].op: 'x' is not an operator"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[4]"}})"), ErrorKind::invalid_argument,
                "nodes[1].attributes: field 'data' is missing"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[4]","data":{}}})"), ErrorKind::invalid_argument,
                "nodes[1].attributes.data: expected 'splat'"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[4]","data":{"values":[1,2,3]}}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.data.values: 3 values for f32[4]"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[1]","data":{"values":["big"]}}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.data.values[0]: expected a number"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[1]","data":{"values":[0.1]}}})"),
                ErrorKind::invalid_argument, "nodes[1].attributes.data.values[0]: 0.1 is not a value of f32"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f8e4m3[]","data":{"values":["inf"]}}})"),
                ErrorKind::invalid_argument, "expected a number"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"u8[]","data":{"values":[256]}}})"),
                ErrorKind::invalid_argument, "256 is out of the range of u8"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"u64[]","data":{"values":[-1]}}})"),
                ErrorKind::invalid_argument, "-1 is out of the range of u64"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"s64[]","data":{"values":[9223372036854775808]}}})"),
                ErrorKind::invalid_argument, "out of the range of s64"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"pred[]","data":{"values":[1]}}})"),
                ErrorKind::invalid_argument, "expected true or false"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[]","data":{"values":["0x7fc0"]}}})"),
                ErrorKind::invalid_argument, "expected 8 hexadecimal digits"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[1]","data":{"base64":"AAAA","hash":"0"}}})"),
                ErrorKind::invalid_argument, "3 bytes, f32[1] needs 4"},
        BadCase{
            with_node(R"({"op":"constant","attributes":{"type":"f32[1]","data":{"base64":"AAAAAA==","hash":"0"}}})"),
            ErrorKind::corrupt, "nodes[1].attributes.data: the bytes do not match their hash"},
        BadCase{with_node(R"({"op":"constant","attributes":{"type":"f32[1099511627777]","data":{"splat":0}}})"),
                ErrorKind::invalid_argument, "too many elements"},
        BadCase{with_node(
                    R"({"op":"constant","attributes":{"type":"f32[1099511627776]","data":{"base64":"","hash":"0"}}})"),
                ErrorKind::resource_exhausted, "constants of more than"}));

TEST(Codec, ASplatIsOneElementHoweverManyItStandsFor) {
  const auto read = [](std::string_view type) {
    return decode(
        with_node(fmt::format(R"({{"op":"constant","attributes":{{"type":"{}","data":{{"splat":2.5}}}}}})", type)),
        Encoding::json);
  };
  const Result<Graph> large = read("f32[1099511627776]");
  ASSERT_TRUE(large.ok()) << large.error().message;
  const auto& constant = large->node(1).as<ConstantAttributes>();
  EXPECT_EQ(constant.data.size(), 4U);
  EXPECT_TRUE(is_splat(constant));
  EXPECT_EQ(element(constant, std::int64_t{1} << 39), 2.5);
  const Result<Graph> again = decode(encode(*large, Encoding::cbor), Encoding::cbor);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->node(1).as<ConstantAttributes>(), constant);
  EXPECT_EQ(expanded(read("bf16[3]")->node(1).as<ConstantAttributes>()).size(), 6U);
  EXPECT_TRUE(read("f32[0]")->node(1).as<ConstantAttributes>().data.empty());
}

TEST(CodecLimits, AreEnforced) {
  const std::string nested(200, '[');
  EXPECT_EQ(decode(nested, Encoding::json).error().kind, ErrorKind::resource_exhausted);
  // A million nested CBOR arrays in a megabyte: a recursive parser without a limit would overflow its stack.
  EXPECT_EQ(decode(std::string(1 << 20, '\x81'), Encoding::cbor).error().kind, ErrorKind::resource_exhausted);
  DecodeLimits limits;
  limits.bytes = 10;
  EXPECT_THAT(decode("[1,2,3,4,5,6]", Encoding::json, limits).error().message, HasSubstr("at most 10"));
  limits = {};
  limits.nodes = 3;
  const std::string five = encode(with_regions(), Encoding::json);
  EXPECT_THAT(decode(five, Encoding::json, limits).error().message, HasSubstr("more than 3 nodes"));
  limits = {};
  limits.region_depth = 1;
  EXPECT_THAT(decode(five, Encoding::json, limits).error().message, HasSubstr("nested more than 1 deep"));
  limits = {};
  limits.constant_bytes = 3;
  EXPECT_THAT(decode(five, Encoding::json, limits).error().message, HasSubstr("more than 3 bytes"));
  // Declared lengths that the input does not have are no reason to allocate them.
  EXPECT_FALSE(decode(std::string("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 9), Encoding::cbor).ok());
  EXPECT_FALSE(decode(std::string("\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", 9), Encoding::cbor).ok());
  // Nor are strings of unknown length inside each other one to recurse until the stack ends.
  std::string pieces = "\x81";
  for (int i = 0; i < 1'000'000; ++i) pieces += "\x7f\x61z";
  for (const std::string& bytes : {std::string(5'000'000, '\x7f'), std::string(5'000'000, '\x5f'), pieces}) {
    EXPECT_THAT(decode(bytes, Encoding::cbor).error().message, HasSubstr("a string of unknown length inside another"));
  }
}

// ---- damage: never a crash, and whatever is accepted is a verified graph

void expect_harmless(const std::string& bytes, Encoding encoding) {
  const Result<Graph> graph = decode(bytes, encoding);
  if (graph.ok()) {
    EXPECT_TRUE(verify(*graph).ok());
  } else {
    EXPECT_FALSE(graph.error().message.empty());
  }
}

TEST(CodecDamage, TruncationIsAnError) {
  for (const Encoding encoding : {Encoding::json, Encoding::cbor}) {
    const std::string bytes = encode(with_regions(), encoding);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode(bytes.substr(0, length), encoding).ok()) << length;
    }
  }
}

TEST(CodecDamage, FlippedAndDroppedBytesAreHarmless) {
  Random random(7);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = seed == 0 ? one_of_each() : seed == 1 ? with_regions() : random_of_everything(seed);
    for (const Encoding encoding : {Encoding::json, Encoding::cbor}) {
      const std::string bytes = encode(graph, encoding);
      for (int round = 0; round < 100; ++round) {
        std::string damaged = bytes;
        for (std::uint64_t count = 1 + random.below(3); count > 0; --count) {
          const std::size_t at = random.below(damaged.size());
          switch (random.below(4)) {
            case 0: damaged[at] = static_cast<char>(random.below(256)); break;
            case 1: damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.below(8))); break;
            case 2: damaged.erase(at, 1 + random.below(4)); break;
            default: damaged.insert(at, damaged.substr(random.below(damaged.size()), 1 + random.below(8)));
          }
          if (damaged.empty()) damaged.push_back('x');
        }
        expect_harmless(damaged, encoding);
      }
    }
  }
}

/// Digits replaced by other numbers: documents that parse, and that inference must cope with.
TEST(CodecDamage, WildNumbersAreHarmless) {
  Random random(8);
  const std::vector<std::string> wild = {"-1",
                                         "0",
                                         "1",
                                         "2",
                                         "63",
                                         "64",
                                         "255",
                                         "4294967296",
                                         "1099511627776",
                                         "4611686018427387904",
                                         "9223372036854775807",
                                         "-9223372036854775808"};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = encode(seed == 0 ? one_of_each() : random_of_everything(seed), Encoding::json);
    for (int round = 0; round < 60; ++round) {
      std::string damaged = text;
      for (int tries = 0; tries < 3; ++tries) {
        std::size_t at = damaged.find_first_of("0123456789", random.below(damaged.size()));
        if (at == std::string::npos) continue;
        const std::size_t end = damaged.find_first_not_of("0123456789", at);
        damaged.replace(at, end - at, wild[random.below(wild.size())]);
      }
      expect_harmless(damaged, Encoding::json);
    }
  }
}

}  // namespace
}  // namespace stitch::graph
