#include "import/hlo/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "import/hlo/attribute.h"
#include "import/hlo/scanner.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::DType;
using testing::ElementsAre;
using testing::HasSubstr;

Shape shape_of(std::string_view text) {
  Scanner scanner(text);
  const Result<Shape> shape = parse_shape(scanner);
  EXPECT_TRUE(shape.ok()) << text;
  EXPECT_TRUE(scanner.at_end()) << text;
  return shape.ok() ? *shape : Shape{};
}

TEST(HloShape, ArraysWithAndWithoutLayouts) {
  struct Row {
    std::string_view text;
    std::optional<DType> dtype;
    Dims dims;
    Dims minor_to_major;
    bool dynamic;
  };
  const Row rows[] = {
      {"f32[]", DType::f32, {}, {}, false},
      {"f32[4,8]", DType::f32, {4, 8}, {}, false},
      {"bf16[4,8]{1,0}", DType::bf16, {4, 8}, {1, 0}, false},
      {"bf16[4,8]{0,1}", DType::bf16, {4, 8}, {0, 1}, false},
      {"f32[4,8]{1,0:T(8,128)}", DType::f32, {4, 8}, {1, 0}, false},
      {"f32[4,8]{0,1:T(8,128)(2,1)S(1)}", DType::f32, {4, 8}, {0, 1}, false},
      {"pred[3]{0:E(32)}", DType::pred, {3}, {0}, false},
      {"u64[2, 3]{ 1, 0 }", DType::u64, {2, 3}, {1, 0}, false},
      {"f32[<=10,5]{1,0}", DType::f32, {10, 5}, {1, 0}, true},
      {"f32[?,5]", DType::f32, {1, 5}, {}, true},
      {"f8e4m3fn[2]", DType::f8e4m3, {2}, {}, false},
      {"f8e4m3[2]", std::nullopt, {2}, {}, false},
      {"f8e5m2[2]", DType::f8e5m2, {2}, {}, false},
      {"c64[2]", std::nullopt, {2}, {}, false},
      {"s4[2]{0:E(4)}", std::nullopt, {2}, {0}, false},
      {"f32[0,7]", DType::f32, {0, 7}, {}, false},
  };
  for (const Row& row : rows) {
    const Shape shape = shape_of(row.text);
    EXPECT_TRUE(shape.is_array()) << row.text;
    EXPECT_EQ(shape.dtype, row.dtype) << row.text;
    EXPECT_EQ(shape.dims, row.dims) << row.text;
    EXPECT_EQ(shape.minor_to_major, row.minor_to_major) << row.text;
    EXPECT_EQ(shape.dynamic, row.dynamic) << row.text;
  }
}

TEST(HloShape, TuplesNestAndTokensHaveNoElements) {
  const Shape shape = shape_of("(f32[2]{0}, (s32[], /*index=1*/token[]), ())");
  ASSERT_EQ(shape.kind, Shape::Kind::tuple);
  ASSERT_EQ(shape.elements.size(), 3U);
  EXPECT_EQ(shape.elements[0].dims, Dims{2});
  ASSERT_EQ(shape.elements[1].elements.size(), 2U);
  EXPECT_EQ(shape.elements[1].elements[1].kind, Shape::Kind::other);
  EXPECT_EQ(shape.elements[2].kind, Shape::Kind::tuple);
  EXPECT_TRUE(shape.elements[2].elements.empty());
}

TEST(HloParser, ReadsWhatJaxPrints) {
  const Result<Module> module = parse_module(
      R"(HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[]}, frontend_attributes={xla.sdy.meshes={empty_mesh = #sdy.mesh<[]>}}

region_0.1 {
  reduce_sum.3 = f32[] parameter(0)
  reduce_sum.4 = f32[] parameter(1)
  ROOT reduce_sum.5 = f32[] add(reduce_sum.3, reduce_sum.4)
}

ENTRY main.2 {
  x.1 = f32[4]{0} parameter(0), sharding={replicated}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@empty_mesh, [{}]>"}
  constant.1 = f32[] constant(0)
  ROOT reduce_sum.7 = f32[] reduce(x.1, constant.1), dimensions={0}, to_apply=region_0.1
}

)");
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_EQ(module->name, "jit_f");
  ASSERT_EQ(module->computations.size(), 2U);
  EXPECT_EQ(module->entry, 1);
  const Computation& entry = module->computations[1];
  EXPECT_EQ(entry.name, "main.2");
  EXPECT_EQ(entry.root, 2);
  const Instruction& reduce = entry.instructions[2];
  EXPECT_EQ(reduce.name, "reduce_sum.7");
  EXPECT_EQ(reduce.opcode, "reduce");
  EXPECT_THAT(reduce.operands, ElementsAre(0, 1));
  EXPECT_EQ(reduce.at.line, 12);
  EXPECT_EQ(reduce.at.column, 8);
  EXPECT_EQ(text_attribute(reduce, "to_apply"), "region_0.1");
  EXPECT_EQ(text_attribute(entry.instructions[0], "sharding"), "{replicated}");
  EXPECT_EQ(entry.instructions[1].payload, "0");
}

TEST(HloParser, ReadsWhatOtherVersionsPrint) {
  const Result<Module> module = parse_module(R"(// a comment
HloModule %m.1, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=2

FileNames
1 "a file.py"

FunctionNames
1 "f"
2 "<lambda>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=2 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(f32[] %a, f32[] %b), metadata={op_type="Add" op_name="jit(f)/\"add\" } {" source_line=3}
}

ENTRY %main (p: (f32[8]{0}, s32[])) -> (f32[8]{0}, f32[]) {
  %p = (f32[8]{0:T(256)}, s32[]) parameter(0), parameter_replication={false,false}
  %x = f32[8]{0} get-tuple-element((f32[8]{0}, s32[]) %p), index=0
  %c = f32[] constant(0), backend_config={"a": [1, {"b": "}"}]}
  %r = f32[] reduce(f32[8]{0} %x, f32[] %c), dimensions={0}, to_apply=%add
  %g = f32[8]{0} all-reduce(f32[8]{0} %x), replica_groups=[1,2]<=[2]T(0), channel_id=1, to_apply=%add
  ROOT %t = (f32[8]{0}, /*index=1*/ f32[]) tuple(%g, %r), control-predecessors={%c}
}, execution_thread="main"
)");
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_EQ(module->name, "m.1");
  const Computation& entry = module->computations[1];
  ASSERT_EQ(entry.instructions.size(), 6U);
  EXPECT_THAT(entry.instructions[3].operands, ElementsAre(1, 2));
  EXPECT_EQ(text_attribute(entry.instructions[4], "replica_groups"), "[1,2]<=[2]T(0)");
  EXPECT_EQ(text_attribute(entry.instructions[2], "backend_config"), R"({"a": [1, {"b": "}"}]})");
  EXPECT_THAT(entry.parameters, ElementsAre(0));
}

TEST(HloParser, ReadsWhichResultsTakeTheMemoryOfParameters) {
  const Result<Module> module = parse_module(
      "HloModule m, input_output_alias={ {}: (1, {0, 2}, must-alias), {3}: (0, {}, may-alias), {1, 0}: (2, {}) }\n"
      "ENTRY e {\n  ROOT c = s32[2] parameter(0)\n}");
  ASSERT_TRUE(module.ok()) << module.error().message;
  ASSERT_EQ(module->aliases.size(), 3U);
  EXPECT_THAT(module->aliases[0].result, ElementsAre());
  EXPECT_EQ(module->aliases[0].parameter, 1);
  EXPECT_THAT(module->aliases[0].element, ElementsAre(0, 2));
  EXPECT_THAT(module->aliases[1].result, ElementsAre(3));
  EXPECT_THAT(module->aliases[2].result, ElementsAre(1, 0));
  EXPECT_EQ(module->aliases[2].at.line, 1);
}

TEST(HloParser, ParametersMayStandInAnyOrder) {
  const Result<Module> module = parse_module(R"(HloModule m
ENTRY e {
  b = s32[2] parameter(1)
  a = f32[] parameter(0)
  ROOT c = s32[2] parameter(2)
})");
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_THAT(module->computations[0].parameters, ElementsAre(1, 0, 2));
}

TEST(HloParser, SaysWhatIsWrongAndWhere) {
  struct Row {
    std::string_view text, message;
  };
  const Row rows[] = {
      {"", "line 1, column 1: expected 'HloModule'"},
      {"HloModule m, input_output_alias={ {0}: (0, {}, shall-alias) }\nENTRY e {",
       "line 1, column 48: 'shall-alias' is neither may-alias nor must-alias"},
      {"HloModule m, input_output_alias={ {0}: 0 }\nENTRY e {", "line 1, column 40: expected '('"},
      {"HloModul m", "line 1, column 1: expected 'HloModule'"},
      {"HloModule", "line 1, column 10: expected the module's name, found the end of the text"},
      {"HloModule m", "line 1, column 12: the module has no ENTRY computation, found the end of the text"},
      {"HloModule m\nENTRY e {", "line 2, column 10: computation 'e' is not closed"},
      {"HloModule m\nENTRY e {}", "line 2, column 10: the computation has no instructions"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1)\n", "line 4, column 1: computation 'e' is not closed"},
      {"HloModule m\nENTRY e {\n  x f32[] constant(1)\n}",
       "line 3, column 5: expected '=' after the instruction's name"},
      {"HloModule m\nENTRY e {\n  x = [] constant(1)\n}", "line 3, column 7: expected a shape, found '['"},
      {"HloModule m\nENTRY e {\n  x = f32 constant(1)\n}", "line 3, column 11: expected '[' after the element type"},
      {"HloModule m\nENTRY e {\n  x = f32[-1] constant(1)\n}", "line 3, column 11: an extent is negative"},
      {"HloModule m\nENTRY e {\n  x = f32[2 3] constant(1)\n}", "line 3, column 13: expected ',' between extents"},
      {"HloModule m\nENTRY e {\n  x = f32[1099511627776,2] iota()\n}",
       "line 3, column 25: the shape has too many elements"},
      {"HloModule m\nENTRY e {\n  x = f32[9999999999999] iota()\n}", "line 3, column 11: an extent is out of range"},
      {"HloModule m\nENTRY e {\n  x = f32[99999999999999999999] iota()\n}", "line 3, column 11: expected an extent"},
      {"HloModule m\nENTRY e {\n  x = f32[] negate(y)\n}", "line 3, column 20: operand 'y' is not defined before"},
      {"HloModule m\nENTRY e {\n  x = f32[] negate(x)\n}", "line 3, column 20: operand 'x' is not defined before"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1)\n  x = f32[] constant(1)\n}",
       "line 4, column 3: 'x' is defined twice"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1\n}", "line 4, column 1: found '}' where ')' should close"},
      {"HloModule m\nENTRY e {\n  x = f32[] parameter(1)\n}", "line 2, column 7: computation 'e' lacks parameter 0"},
      {"HloModule m\nENTRY e {\n  x = f32[] parameter(9999999)\n}", "line 3, column 23: there is no parameter 9999999"},
      {"HloModule m\nENTRY e {\n  x = f32[] parameter(-1)\n}", "line 3, column 23: there is no parameter -1"},
      {"HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  y = f32[] parameter(0)\n}",
       "line 4, column 3: parameter 0 appears twice"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1), a={b]\n}",
       "line 3, column 30: found ']' where '}' should close"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1), a=\"b\n}", "line 3, column 28: the string does not end"},
      {"HloModule m\nENTRY e {\n  x = f32[] constant(1), =b\n}", "line 3, column 26: expected an attribute, found '='"},
      {"HloModule m\nENTRY e {\n  ROOT x = f32[] constant(1)\n  ROOT y = f32[] constant(1)\n}",
       "line 4, column 8: the computation has two roots"},
      {"HloModule m\na {\n  x = f32[] constant(1)\n}\na {\n  x = f32[] constant(1)\n}",
       "line 5, column 1: computation 'a' is defined twice"},
      {"HloModule m\na {\n  x = f32[] constant(1)\n}\nb {\n  x = f32[] constant(1)\n}",
       "the module has no ENTRY computation"},
      {"HloModule m\nENTRY a {\n  x = f32[] constant(1)\n}\nENTRY b {\n  x = f32[] constant(1)\n}",
       "line 5, column 1: the module has two entries"},
      {"HloModule m /* open", "the module has no ENTRY computation, found the end of the text"},
  };
  for (const Row& row : rows) {
    const Result<Module> module = parse_module(row.text);
    ASSERT_FALSE(module.ok()) << row.text;
    EXPECT_EQ(module.error().kind, ErrorKind::parse) << row.text;
    EXPECT_THAT(module.error().message, HasSubstr(row.message)) << row.text;
  }
}

TEST(HloParser, DeepNestingIsAnErrorNotACrash) {
  const auto nested = [](char bracket) { return std::string(100000, bracket); };
  EXPECT_FALSE(parse_module(fmt::format("HloModule m\nENTRY e {{\n  x = {}", nested('('))).ok());
  EXPECT_FALSE(parse_module(fmt::format("HloModule m\nENTRY e {{\n  x = f32[] constant(1), a={}", nested('{'))).ok());
}

Instruction with(std::string_view key, std::string_view value) {
  Instruction instruction;
  instruction.opcode = "op";
  instruction.name = "x";
  instruction.attributes.push_back({key, value, {7, 5}});
  return instruction;
}

TEST(HloAttribute, Windows) {
  const Instruction plain =
      with("window", "{size=3x2 stride=2x1 pad=1_0x-1_2 lhs_dilate=1x2 rhs_dilate=3x1 rhs_reversal=1x0}");
  const Result<WindowText> window = window_attribute(plain, 2);
  ASSERT_TRUE(window.ok()) << window.error().message;
  EXPECT_THAT(window->sizes, ElementsAre(3, 2));
  EXPECT_THAT(window->strides, ElementsAre(2, 1));
  EXPECT_THAT(window->low, ElementsAre(1, -1));
  EXPECT_THAT(window->high, ElementsAre(0, 2));
  EXPECT_THAT(window->base_dilation, ElementsAre(1, 2));
  EXPECT_THAT(window->window_dilation, ElementsAre(3, 1));
  EXPECT_THAT(window->reversal, ElementsAre(true, false));
  const Result<WindowText> absent = window_attribute(Instruction{}, 1);
  ASSERT_TRUE(absent.ok());
  EXPECT_THAT(absent->sizes, ElementsAre(1));
}

TEST(HloAttribute, BadWindowsSayWhere) {
  struct Row {
    std::string_view value, message;
  };
  const Row rows[] = {
      {"{size=3}", "line 7, column 11: 1 dimensions where 2 are"},
      {"{size=3x3 pad=1x1}", "expected LOW_HIGH per dimension"},
      {"{size=3xx}", "expected a number"},
      {"{sise=3x3}", "line 7, column 6: the window has an unknown field 'sise'"},
      {"{size=3x3", "expected '=' in the window"},
      {"{size=3x3_1}", "expected one number per dimension"},
      {"{size=99999999999x1}", "the number is out of range"},
      {"3x3", "expected '{' in attribute 'window'"},
  };
  for (const Row& row : rows) {
    const Result<WindowText> window = window_attribute(with("window", row.value), 2);
    ASSERT_FALSE(window.ok()) << row.value;
    EXPECT_THAT(window.error().message, HasSubstr(row.message)) << row.value;
  }
}

TEST(HloAttribute, SlicesPaddingListsAndFlags) {
  const Result<SliceText> slice = slice_attribute(with("slice", "{[0:4], [2:9:3]}"));
  ASSERT_TRUE(slice.ok());
  EXPECT_THAT(slice->starts, ElementsAre(0, 2));
  EXPECT_THAT(slice->limits, ElementsAre(4, 9));
  EXPECT_THAT(slice->strides, ElementsAre(1, 3));
  const Result<PaddingText> padding = padding_attribute(with("padding", "1_2x-3_4_5"));
  ASSERT_TRUE(padding.ok());
  EXPECT_THAT(padding->low, ElementsAre(1, -3));
  EXPECT_THAT(padding->high, ElementsAre(2, 4));
  EXPECT_THAT(padding->interior, ElementsAre(0, 5));
  EXPECT_THAT(*list_attribute(with("dimensions", "{2,0, 1}"), "dimensions"), ElementsAre(2, 0, 1));
  EXPECT_THAT(*list_attribute(Instruction{}, "dimensions"), ElementsAre());
  EXPECT_TRUE(*flag_attribute(with("unique_indices", "true"), "unique_indices"));
  EXPECT_FALSE(*flag_attribute(Instruction{}, "unique_indices"));
  EXPECT_FALSE(flag_attribute(with("unique_indices", "yes"), "unique_indices").ok());
  EXPECT_FALSE(slice_attribute(with("slice", "{[0:4:1:2]}")).ok());
  EXPECT_FALSE(padding_attribute(with("padding", "1")).ok());
  EXPECT_FALSE(list_attribute(with("dimensions", "{1,,2}"), "dimensions").ok());
  EXPECT_EQ(integer_attribute(Instruction{}, "index").error().message,
            "line 1, column 1:  '' lacks the attribute 'index'");
}

TEST(HloAttribute, DimLabels) {
  const Result<DimLabels> labels = dim_labels_attribute(with("dim_labels", "b01f_io10->f01b"));
  ASSERT_TRUE(labels.ok()) << labels.error().message;
  EXPECT_EQ(labels->input.batch, 0);
  EXPECT_EQ(labels->input.feature, 3);
  EXPECT_THAT(labels->input.spatial, ElementsAre(1, 2));
  EXPECT_EQ(labels->kernel.batch, 0);
  EXPECT_EQ(labels->kernel.feature, 1);
  EXPECT_THAT(labels->kernel.spatial, ElementsAre(3, 2));
  EXPECT_EQ(labels->output.batch, 3);
  EXPECT_EQ(labels->output.feature, 0);
  for (const std::string_view bad :
       {"b01f", "b01f_01io", "b0f_0ii->b0f", "b0_0io->b0f", "b2f_0io->b0f", "b_io->bf", "->_"}) {
    EXPECT_FALSE(dim_labels_attribute(with("dim_labels", bad)).ok()) << bad;
  }
}

}  // namespace
}  // namespace stitch::import::hlo
