// The operator table: one row per operator, in the order of the numbers of Op. graph/op.h makes the enumeration of it,
// graph/op.cpp the rows that info() returns; Row in graph/op.cpp has the meaning of every column.
//
//   STITCH_OP(enumerator, "name in formats", kind of row, then the columns that differ from the kind's defaults)
//
// An element-wise operator that has a `spelling` needs nothing in codegen/, one with `instructions` (or the defaults of
// its kind) nothing in costmodel/; its float64 function stands in graph/reference/evaluate_functions.h,
// evaluate_exponential.h or evaluate_trigonometric.h. tests/graph/op_test.cpp names an operator that any of the tables
// lacks.

// sources
STITCH_OP(parameter, "parameter", source(Free))
STITCH_OP(constant, "constant", source(Free))
STITCH_OP(iota, "iota", source(Light).takes(Number))

// element-wise, one operand
STITCH_OP(negate, "negate", light(1, Number))
STITCH_OP(abs, "abs", light(1, Number).never_negative())
STITCH_OP(sign, "sign", light(1, Number))
STITCH_OP(floor, "floor", light(1, Floating).spelling("floor{f}({x})").keeps_sign())
STITCH_OP(ceil, "ceil", light(1, Floating).spelling("ceil{f}({x})").keeps_sign())
STITCH_OP(round_even, "round-even", light(1, Floating).spelling("rint{f}({x})").keeps_sign())
STITCH_OP(round_away, "round-away", light(1, Floating).spelling("round_away({x})").keeps_sign())
STITCH_OP(exp, "exp",
          function(1).spelling("exponential({x})").instructions(2, 30).error(2, 1).range(0, infinity).never_negative())
STITCH_OP(expm1, "expm1", function(1).spelling("expm1{f}({x})").instructions(16, 45).error(3, 1).keeps_sign())
STITCH_OP(log, "log", function(1).spelling("log{f}({x})").instructions(12, 40).error(3).defined(0, infinity))
STITCH_OP(log1p, "log1p",
          function(1).spelling("log1p{f}({x})").instructions(18, 50).error(3).defined(-1, infinity).keeps_sign())
STITCH_OP(sqrt, "sqrt",
          function(1)
              .spelling("sqrt{f}({x})")
              .instructions(2, 20)
              .error(2)
              .defined(0, infinity)
              .range(0, infinity)
              .never_negative())
STITCH_OP(rsqrt, "rsqrt",
          function(1).spelling("rsqrt{f}({x})").instructions(1, 20).error(2).defined(0, infinity).never_negative())
STITCH_OP(cbrt, "cbrt", function(1).spelling("cbrt{f}({x})").instructions(20, 60).error(2))
STITCH_OP(logistic, "logistic",
          function(1).spelling("logistic({x})").instructions(6, 45).error(4, 1).range(0, 1).never_negative())
STITCH_OP(erf, "erf", function(1).spelling("erf{f}({x})").instructions(22, 80).error(4).range(-1, 1).keeps_sign())
STITCH_OP(
    erfc, "erfc",
    function(1).spelling("complementary_error({x})").instructions(20, 120).error(8, 2).range(0, 2).never_negative())
STITCH_OP(sin, "sin",
          function(1).spelling("sine({x})").instructions(25, 80).error(2, 0.5).defined(-most, most).range(-1, 1))
STITCH_OP(cos, "cos",
          function(1).spelling("cosine({x})").instructions(25, 80).error(2, 0.5).defined(-most, most).range(-1, 1))
STITCH_OP(tan, "tan", function(1).spelling("tan{f}({x})").instructions(40, 100).error(4, 0.5).defined(-most, most))
STITCH_OP(asin, "asin", function(1).spelling("asin{f}({x})").error(4).defined(-1, 1))
STITCH_OP(acos, "acos", function(1).spelling("acos{f}({x})").error(4).defined(-1, 1).never_negative())
STITCH_OP(atan, "atan", function(1).spelling("atan{f}({x})").error(3))
STITCH_OP(sinh, "sinh", function(1).spelling("sinh{f}({x})").error(4, 1))
STITCH_OP(cosh, "cosh", function(1).spelling("cosh{f}({x})").error(4, 1).never_negative())
STITCH_OP(tanh, "tanh", function(1).spelling("tanh{f}({x})").instructions(14, 60).error(4).range(-1, 1).keeps_sign())
STITCH_OP(asinh, "asinh", function(1).spelling("asinh{f}({x})").error(4))
STITCH_OP(acosh, "acosh", function(1).spelling("acosh{f}({x})").error(4).defined(1, infinity).never_negative())
STITCH_OP(atanh, "atanh", function(1).spelling("atanh{f}({x})").error(4).defined(-1, 1))
STITCH_OP(is_finite, "is-finite", light(1, Floating).spelling("isfinite({x})"))
STITCH_OP(is_nan, "is-nan", light(1, Floating).spelling("{x} != {x}"))
STITCH_OP(is_inf, "is-inf", light(1, Floating).spelling("isinf({x})"))
STITCH_OP(bit_not, "not", light(1, Bits))
STITCH_OP(popcount, "popcount", light(1, Integer))
STITCH_OP(convert, "convert", light(1, Any))
STITCH_OP(bitcast_convert, "bitcast-convert", light(1, Any).costs(Free).instructions(0, 0))

// element-wise, two operands
STITCH_OP(add, "add", light(2, Number).commutes().error(0.5))
STITCH_OP(subtract, "subtract", light(2, Number).error(0.5))
STITCH_OP(multiply, "multiply", light(2, Number).commutes().error(0.5))
STITCH_OP(divide, "divide", function(2).takes(Number).instructions(6, 20).error(2))
STITCH_OP(remainder, "remainder", function(2).takes(Number).instructions(40, 40).keeps_sign())
STITCH_OP(power, "power",
          function(2).takes(Number).spelling("power({x}, {y})").instructions(45, 150).error(16, 1).keeps_sign())
STITCH_OP(maximum, "maximum", light(2, Any).commutes())
STITCH_OP(minimum, "minimum", light(2, Any).commutes())
STITCH_OP(atan2, "atan2", function(2).spelling("atan2{f}({x}, {y})").error(4))
STITCH_OP(bit_and, "and", light(2, Bits).commutes())
STITCH_OP(bit_or, "or", light(2, Bits).commutes())
STITCH_OP(bit_xor, "xor", light(2, Bits).commutes())
STITCH_OP(shift_left, "shift-left", light(2, Integer).spelling("shift_left({x}, {y})"))
STITCH_OP(shift_right_logical, "shift-right-logical", light(2, Integer).spelling("shift_right_logical({x}, {y})"))
STITCH_OP(shift_right_arithmetic, "shift-right-arithmetic",
          light(2, Integer).spelling("shift_right_arithmetic({x}, {y})"))
STITCH_OP(compare, "compare", light(2, Any))

// element-wise, more operands
STITCH_OP(select, "select", light(3, Any).spelling("{x} ? {y} : {z}"))
STITCH_OP(clamp, "clamp", light(3, Number).spelling("minimum(maximum({y}, {x}), {z})"))
STITCH_OP(threefry2x32, "threefry2x32", light(4, Integer).costs(Expensive).instructions(75, 75))

// layout: where elements go
STITCH_OP(broadcast, "broadcast", layout(Free, 1, 1))
STITCH_OP(reshape, "reshape", layout(Free, 1, 1))
STITCH_OP(transpose, "transpose", layout(Free, 1, 1))
STITCH_OP(slice, "slice", layout(Free, 1, 1))
STITCH_OP(dynamic_slice, "dynamic-slice", layout(Light, 1, any_number))
STITCH_OP(dynamic_update_slice, "dynamic-update-slice", layout(Light, 2, any_number))
STITCH_OP(concatenate, "concatenate", layout(Light, 1, any_number))
STITCH_OP(pad, "pad", layout(Light, 2, 2))
STITCH_OP(reverse, "reverse", layout(Free, 1, 1))
STITCH_OP(gather, "gather", layout(Light, 2, 2))
STITCH_OP(scatter, "scatter", layout(Expensive, 3, 3).error(0.5))

// reductions; the error is that of one addition
STITCH_OP(reduce, "reduce", reduction(Light, 1).error(0.5))
STITCH_OP(arg_reduce, "arg-reduce", reduction(Light, 1).takes(Number))
STITCH_OP(reduce_window, "reduce-window", reduction(Expensive, 1).error(0.5))
STITCH_OP(select_and_scatter, "select-and-scatter", reduction(Expensive, 2).takes(Number).error(0.5))
STITCH_OP(scan, "scan", reduction(Expensive, 1).error(0.5))

// contractions and boundaries
STITCH_OP(dot, "dot", other(OpCategory::contraction, 2, 2).takes(Number).error(0.5))
STITCH_OP(convolution, "convolution", other(OpCategory::contraction, 2, 2).takes(Number).error(0.5))
STITCH_OP(opaque, "opaque", other(OpCategory::boundary, 0, any_number))

// control flow; the bodies are regions of the node
STITCH_OP(loop, "loop", other(OpCategory::control, 0, any_number))
STITCH_OP(conditional, "conditional", other(OpCategory::control, 1, any_number))

// What came later stands here whatever its kind: hashes of kernels' groups count on the numbers of those above.
STITCH_OP(erf_inv, "erf-inv",
          function(1).spelling("erfinv{f}({x})").instructions(24, 110).error(4).defined(-1, 1).keeps_sign())
STITCH_OP(nextafter, "nextafter",
          function(2).spelling("next_after<{type}>({x}, {y})").instructions(14, 28))
STITCH_OP(associative_scan, "associative-scan", other(OpCategory::reduction, 1, any_number))
STITCH_OP(max_exp_sum, "max-exp-sum", reduction(Expensive, 1).takes(Floating).error(0.5))
STITCH_OP(sort, "sort", other(OpCategory::reduction, 1, any_number))
STITCH_OP(philox4x32, "philox4x32", light(6, Integer).costs(Expensive).instructions(42, 42))
