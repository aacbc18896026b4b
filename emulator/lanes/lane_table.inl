// The rows of the lane-operation table: one call per operation, one function template per family of types.

constexpr InstructionClass kInteger = InstructionClass::integer;
constexpr InstructionClass kSpecial = InstructionClass::special_function;
constexpr InstructionClass kConvert = InstructionClass::conversion;
constexpr InstructionClass kMove = InstructionClass::move;
constexpr InstructionClass kF16 = InstructionClass::f16;
constexpr Width kPredicate = Width::predicate;

template <class T>
constexpr Width width = WidthOf<T>::value;
template <class T>
constexpr const char* name_of = Traits<T>::name;
template <>
constexpr const char* name_of<f32> = "f32";
template <>
constexpr const char* name_of<f64> = "f64";
template <class T>
constexpr InstructionClass float_class = sizeof(T) == 4 ? InstructionClass::f32 : InstructionClass::f64;
template <bool Ftz>
constexpr const char* ftz_name = Ftz ? "ftz" : "";
template <Rounding R>
constexpr const char* rounding_name = R == Rounding::nearest ? "" : R == Rounding::zero ? "rz" : R == Rounding::down ? "rm" : "rp";
template <Rounding R>
constexpr const char* whole_name = R == Rounding::nearest ? "rni" : R == Rounding::zero ? "rzi" : R == Rounding::down ? "rmi" : "rpi";
constexpr const char* relation_names[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class F, class D, class A>
void row1(LaneTable& t, LaneName name, InstructionClass kind) {
  add_lane_op(t, name, &map1<F, D, A>, kind, width<D>, width<A>);
}
template <class F, class D, class A, class B = A>
void row2(LaneTable& t, LaneName name, InstructionClass kind) {
  add_lane_op(t, name, &map2<F, D, A, B>, kind, width<D>, width<A>, width<B>);
}
template <class F, class D, class A, class B = A, class C = A>
void row3(LaneTable& t, LaneName name, InstructionClass kind) {
  add_lane_op(t, name, &map3<F, D, A, B, C>, kind, width<D>, width<A>, width<B>, width<C>);
}
template <class F, class A>
void test_row(LaneTable& t, LaneName name, InstructionClass kind) {
  add_lane_op(t, name, &test2<F, A>, kind, kPredicate, width<A>, width<A>);
}

template <class T, Relation R>
void integer_compare(LaneTable& t) {
  test_row<Compare<T, R>, T>(t, {"setp", relation_names[static_cast<int>(R)], name_of<T>}, kInteger);
}
template <class T>
void integer_rows(LaneTable& t) {
  constexpr const char* n = name_of<T>;
  row2<Add<T>, T, T>(t, {"add", n}, kInteger);
  row2<Sub<T>, T, T>(t, {"sub", n}, kInteger);
  row2<MulLow<T>, T, T>(t, {"mul", "lo", n}, kInteger);
  row2<MulHigh<T>, T, T>(t, {"mul", "hi", n}, kInteger);
  row3<MadLow<T>, T, T>(t, {"mad", "lo", n}, kInteger);
  row3<MadHigh<T>, T, T>(t, {"mad", "hi", n}, kInteger);
  row2<Div<T>, T, T>(t, {"div", n}, kSpecial);
  row2<Rem<T>, T, T>(t, {"rem", n}, kSpecial);
  row2<Min<T>, T, T>(t, {"min", n}, kInteger);
  row2<Max<T>, T, T>(t, {"max", n}, kInteger);
  row3<Sad<T>, T, T>(t, {"sad", n}, kInteger);
  row2<ShiftRight<T>, T, T, u32>(t, {"shr", n}, kInteger);
  integer_compare<T, Relation::eq>(t);
  integer_compare<T, Relation::ne>(t);
  integer_compare<T, Relation::lt>(t);
  integer_compare<T, Relation::le>(t);
  integer_compare<T, Relation::gt>(t);
  integer_compare<T, Relation::ge>(t);
  if constexpr (Traits<T>::is_signed) {
    row1<Neg<T>, T, T>(t, {"neg", n}, kInteger);
    row1<Abs<T>, T, T>(t, {"abs", n}, kInteger);
  }
  if constexpr (Traits<T>::bits < 64) {
    using W = typename Traits<T>::Wide;
    row2<MulWide<T>, W, T>(t, {"mul", "wide", n}, kInteger);
    row3<MadWide<T>, W, T, T, W>(t, {"mad", "wide", n}, kInteger);
  }
}
template <class T>
void bit_rows(LaneTable& t, const char* b) {
  row2<And<T>, T, T>(t, {"and", b}, kInteger);
  row2<Or<T>, T, T>(t, {"or", b}, kInteger);
  row2<Xor<T>, T, T>(t, {"xor", b}, kInteger);
  row1<Not<T>, T, T>(t, {"not", b}, kInteger);
  row1<CNot<T>, T, T>(t, {"cnot", b}, kInteger);
  row1<Copy<T>, T, T>(t, {"mov", b}, kMove);
  row2<ShiftLeft<T>, T, T, u32>(t, {"shl", b}, kInteger);
  add_lane_op(t, {"selp", b}, &choose<Select<T>, T, T>, kInteger, width<T>, width<T>, width<T>, kPredicate);
  row3<SelectBySign<T, s32>, T, T, T, s32>(t, {"slct", b, "s32"}, kInteger);
  row3<SelectBySign<T, f32>, T, T, T, f32>(t, {"slct", b, "f32"}, kInteger);
  row3<SelectBySignFtz<T>, T, T, T, f32>(t, {"slct", "ftz", b, "f32"}, kInteger);
}
template <class U, class S>
void field_rows(LaneTable& t, const char* b) {
  row3<FieldExtract<U>, U, U, u32, u32>(t, {"bfe", name_of<U>}, kInteger);
  row3<FieldExtract<S>, S, S, u32, u32>(t, {"bfe", name_of<S>}, kInteger);
  add_lane_op(t, {"bfi", b}, &map4<FieldInsert<U>, U, U, U, u32, u32>, kInteger, width<U>, width<U>, width<U>, Width::b32,
              Width::b32);
  row1<PopulationCount<U>, u32, U>(t, {"popc", b}, kInteger);
  row1<LeadingZeros<U>, u32, U>(t, {"clz", b}, kInteger);
  row1<FindLeading<U, false>, u32, U>(t, {"bfind", name_of<U>}, kInteger);
  row1<FindLeading<S, false>, u32, S>(t, {"bfind", name_of<S>}, kInteger);
  row1<FindLeading<U, true>, u32, U>(t, {"bfind", "shiftamt", name_of<U>}, kInteger);
  row1<FindLeading<S, true>, u32, S>(t, {"bfind", "shiftamt", name_of<S>}, kInteger);
  // Extended precision: the sum, and the carry that goes into the condition code.
  add_lane_op(t, {"addc", b}, &choose<AddCarry<U>, U, U>, kInteger, width<U>, width<U>, width<U>, kPredicate);
  add_lane_op(t, {"subc", b}, &choose<SubBorrow<U>, U, U>, kInteger, width<U>, width<U>, width<U>, kPredicate);
  add_lane_op(t, {"carry", "addc", b}, &test_choose<CarryOfAdd<U>, U>, kInteger, kPredicate, width<U>, width<U>, kPredicate);
  add_lane_op(t, {"carry", "subc", b}, &test_choose<BorrowOfSub<U>, U>, kInteger, kPredicate, width<U>, width<U>, kPredicate);
}

void add_integer_rows(LaneTable& t) {
  integer_rows<u16>(t);
  integer_rows<s16>(t);
  integer_rows<u32>(t);
  integer_rows<s32>(t);
  integer_rows<u64>(t);
  integer_rows<s64>(t);
  bit_rows<u16>(t, "b16");
  bit_rows<u32>(t, "b32");
  bit_rows<u64>(t, "b64");
  field_rows<u32, s32>(t, "b32");
  field_rows<u64, s64>(t, "b64");
  row2<AddSat, s32, s32>(t, {"add", "sat", "s32"}, kInteger);
  row2<SubSat, s32, s32>(t, {"sub", "sat", "s32"}, kInteger);
  row2<Mul24Low<u32>, u32, u32>(t, {"mul24", "lo", "u32"}, kInteger);
  row2<Mul24Low<s32>, s32, s32>(t, {"mul24", "lo", "s32"}, kInteger);
  row3<Mad24Low<u32>, u32, u32>(t, {"mad24", "lo", "u32"}, kInteger);
  row3<Mad24Low<s32>, s32, s32>(t, {"mad24", "lo", "s32"}, kInteger);
  row2<Relu<s32, Min<s32>>, s32, s32>(t, {"min", "relu", "s32"}, kInteger);
  row2<Relu<s32, Max<s32>>, s32, s32>(t, {"max", "relu", "s32"}, kInteger);
}

template <class T>
void packed16_rows(LaneTable& t, const char* n) {
  const auto row = [&t](LaneName name, LaneFunction function) {
    add_lane_op(t, name, function, kInteger, Width::b32, Width::b32, Width::b32);
  };
  row({"add", n}, &map2<Add<T>, T, T, T, 64>);
  row({"min", n}, &map2<Min<T>, T, T, T, 64>);
  row({"max", n}, &map2<Max<T>, T, T, T, 64>);
  if constexpr (Traits<T>::is_signed) {
    row({"min", "relu", n}, &map2<Relu<T, Min<T>>, T, T, T, 64>);
    row({"max", "relu", n}, &map2<Relu<T, Max<T>>, T, T, T, 64>);
  }
}
template <bool A, bool B>
void dot_rows(LaneTable& t) {
  constexpr const char* a = A ? "s32" : "u32";
  constexpr const char* b = B ? "s32" : "u32";
  row3<Dot4<A, B>, u32, u32>(t, {"dp4a", a, b}, kInteger);
  row3<Dot2<A, B, false>, u32, u32>(t, {"dp2a", "lo", a, b}, kInteger);
  row3<Dot2<A, B, true>, u32, u32>(t, {"dp2a", "hi", a, b}, kInteger);
}

void add_word_rows(LaneTable& t) {
  row1<Reverse32, u32, u32>(t, {"brev", "b32"}, kInteger);
  row1<Reverse64, u64, u64>(t, {"brev", "b64"}, kInteger);
  row3<FindNthSet, u32, u32, u32, s32>(t, {"fns", "b32"}, kInteger);
  row3<FunnelLeft<false>, u32, u32>(t, {"shf", "l", "wrap", "b32"}, kInteger);
  row3<FunnelLeft<true>, u32, u32>(t, {"shf", "l", "clamp", "b32"}, kInteger);
  row3<FunnelRight<false>, u32, u32>(t, {"shf", "r", "wrap", "b32"}, kInteger);
  row3<FunnelRight<true>, u32, u32>(t, {"shf", "r", "clamp", "b32"}, kInteger);
  row3<Permute, u32, u32>(t, {"prmt", "b32"}, kInteger);
  row3<PermuteF4e, u32, u32>(t, {"prmt", "b32", "f4e"}, kInteger);
  row3<PermuteB4e, u32, u32>(t, {"prmt", "b32", "b4e"}, kInteger);
  row3<PermuteRc8, u32, u32>(t, {"prmt", "b32", "rc8"}, kInteger);
  row3<PermuteEcl, u32, u32>(t, {"prmt", "b32", "ecl"}, kInteger);
  row3<PermuteEcr, u32, u32>(t, {"prmt", "b32", "ecr"}, kInteger);
  row3<PermuteRc16, u32, u32>(t, {"prmt", "b32", "rc16"}, kInteger);
  dot_rows<false, false>(t);
  dot_rows<false, true>(t);
  dot_rows<true, false>(t);
  dot_rows<true, true>(t);
  row2<BitMask<true>, u32, u32>(t, {"bmsk", "clamp", "b32"}, kInteger);
  row2<BitMask<false>, u32, u32>(t, {"bmsk", "wrap", "b32"}, kInteger);
  row2<SignExtend<true, true>, u32, u32>(t, {"szext", "clamp", "s32"}, kInteger);
  row2<SignExtend<false, true>, u32, u32>(t, {"szext", "clamp", "u32"}, kInteger);
  row2<SignExtend<true, false>, u32, u32>(t, {"szext", "wrap", "s32"}, kInteger);
  row2<SignExtend<false, false>, u32, u32>(t, {"szext", "wrap", "u32"}, kInteger);
  packed16_rows<u16>(t, "u16x2");
  packed16_rows<s16>(t, "s16x2");
  add_lane_op(t, {"lop3", "b32"}, &lop3, kInteger, Width::b32, Width::b32, Width::b32, Width::b32);
  add_lane_op(t, {"and", "pred"}, &logic2<And<u32>>, kInteger, kPredicate, kPredicate, kPredicate);
  add_lane_op(t, {"or", "pred"}, &logic2<Or<u32>>, kInteger, kPredicate, kPredicate, kPredicate);
  add_lane_op(t, {"xor", "pred"}, &logic2<Xor<u32>>, kInteger, kPredicate, kPredicate, kPredicate);
  add_lane_op(t, {"not", "pred"}, &logic1<Not<u32>>, kInteger, kPredicate, kPredicate);
  add_lane_op(t, {"mov", "pred"}, &logic1<Copy<u32>>, kMove, kPredicate, kPredicate);
}

// Registers of one width seen as another: what loads, conversions and vector moves are made of.
void add_move_rows(LaneTable& t) {
  row1<Resize<u16, u32>, u16, u32>(t, {"resize", "b16", "b32"}, kMove);
  row1<Resize<u16, u64>, u16, u64>(t, {"resize", "b16", "b64"}, kMove);
  row1<Resize<u32, u64>, u32, u64>(t, {"resize", "b32", "b64"}, kMove);
  row1<Resize<u32, u16>, u32, u16>(t, {"resize", "b32", "u16"}, kMove);
  row1<Resize<u64, u16>, u64, u16>(t, {"resize", "b64", "u16"}, kMove);
  row1<Resize<u64, u32>, u64, u32>(t, {"resize", "b64", "u32"}, kMove);
  row1<Resize<s32, s16>, s32, s16>(t, {"resize", "b32", "s16"}, kMove);
  row1<Resize<s64, s16>, s64, s16>(t, {"resize", "b64", "s16"}, kMove);
  row1<Resize<s64, s32>, s64, s32>(t, {"resize", "b64", "s32"}, kMove);
  row1<Extract<u16, u32, 0>, u16, u32>(t, {"extract", "0", "b16", "b32"}, kMove);
  row1<Extract<u16, u32, 16>, u16, u32>(t, {"extract", "1", "b16", "b32"}, kMove);
  row1<Extract<u16, u64, 0>, u16, u64>(t, {"extract", "0", "b16", "b64"}, kMove);
  row1<Extract<u16, u64, 16>, u16, u64>(t, {"extract", "1", "b16", "b64"}, kMove);
  row1<Extract<u16, u64, 32>, u16, u64>(t, {"extract", "2", "b16", "b64"}, kMove);
  row1<Extract<u16, u64, 48>, u16, u64>(t, {"extract", "3", "b16", "b64"}, kMove);
  row1<Extract<u32, u64, 0>, u32, u64>(t, {"extract", "0", "b32", "b64"}, kMove);
  row1<Extract<u32, u64, 32>, u32, u64>(t, {"extract", "1", "b32", "b64"}, kMove);
  row2<Pack16, u32, u16>(t, {"pack", "b32", "b16"}, kMove);
  row2<Pack32, u64, u32>(t, {"pack", "b64", "b32"}, kMove);
  row2<Low64, Wide128, u64>(t, {"pack", "b128", "b64"}, kMove);
  row1<Half128<0>, u64, Wide128>(t, {"extract", "0", "b64", "b128"}, kMove);
  row1<Half128<1>, u64, Wide128>(t, {"extract", "1", "b64", "b128"}, kMove);
  row1<Copy<Wide128>, Wide128, Wide128>(t, {"mov", "b128"}, kMove);
}

template <class T, FRelation R, bool Ftz>
void float_compare(LaneTable& t) {
  test_row<FCompare<T, R, Ftz>, T>(t, {"setp", relation_names[static_cast<int>(R)], ftz_name<Ftz>, name_of<T>}, float_class<T>);
}
template <class T, bool Ftz>
void float_compares(LaneTable& t) {
  float_compare<T, FRelation::eq, Ftz>(t);
  float_compare<T, FRelation::ne, Ftz>(t);
  float_compare<T, FRelation::lt, Ftz>(t);
  float_compare<T, FRelation::le, Ftz>(t);
  float_compare<T, FRelation::gt, Ftz>(t);
  float_compare<T, FRelation::ge, Ftz>(t);
  float_compare<T, FRelation::equ, Ftz>(t);
  float_compare<T, FRelation::neu, Ftz>(t);
  float_compare<T, FRelation::ltu, Ftz>(t);
  float_compare<T, FRelation::leu, Ftz>(t);
  float_compare<T, FRelation::gtu, Ftz>(t);
  float_compare<T, FRelation::geu, Ftz>(t);
  float_compare<T, FRelation::num, Ftz>(t);
  float_compare<T, FRelation::nan, Ftz>(t);
}
template <class T, bool Ftz>
void float_rows(LaneTable& t) {
  constexpr const char* n = name_of<T>;
  constexpr const char* f = ftz_name<Ftz>;
  constexpr InstructionClass k = float_class<T>;
  row2<FAdd<T, Ftz>, T, T>(t, {"add", f, n}, k);
  row2<FSub<T, Ftz>, T, T>(t, {"sub", f, n}, k);
  row2<FMul<T, Ftz>, T, T>(t, {"mul", f, n}, k);
  row3<FFma<T, Ftz>, T, T>(t, {"fma", f, n}, k);
  row2<FDiv<T, Ftz>, T, T>(t, {"div", f, n}, kSpecial);
  row1<FRcp<T, Ftz>, T, T>(t, {"rcp", f, n}, kSpecial);
  row1<FSqrt<T, Ftz>, T, T>(t, {"sqrt", f, n}, kSpecial);
  row2<FMax<T, Ftz, false>, T, T>(t, {"max", f, n}, k);
  row2<FMin<T, Ftz, false>, T, T>(t, {"min", f, n}, k);
  row1<Whole<T, Rounding::nearest, Ftz>, T, T>(t, {"cvt.rni", f, n, n}, kConvert);
  row1<Whole<T, Rounding::zero, Ftz>, T, T>(t, {"cvt.rzi", f, n, n}, kConvert);
  row1<Whole<T, Rounding::down, Ftz>, T, T>(t, {"cvt.rmi", f, n, n}, kConvert);
  row1<Whole<T, Rounding::up, Ftz>, T, T>(t, {"cvt.rpi", f, n, n}, kConvert);
  float_compares<T, Ftz>(t);
}
template <bool Ftz>
void f32_rows(LaneTable& t) {
  constexpr const char* f = ftz_name<Ftz>;
  constexpr InstructionClass k = InstructionClass::f32;
  using MaxNumber = FMax<f32, Ftz, false>;
  using MinNumber = FMin<f32, Ftz, false>;
  using MaxNaN = FMax<f32, Ftz, true>;
  using MinNaN = FMin<f32, Ftz, true>;
  float_rows<f32, Ftz>(t);
  row2<MaxNaN, f32, f32>(t, {"max", f, "NaN", "f32"}, k);
  row2<MinNaN, f32, f32>(t, {"min", f, "NaN", "f32"}, k);
  row2<XorSign32<MaxNumber>, f32, f32>(t, {"max", f, "xorsign.abs", "f32"}, k);
  row2<XorSign32<MinNumber>, f32, f32>(t, {"min", f, "xorsign.abs", "f32"}, k);
  row2<XorSign32<MaxNaN>, f32, f32>(t, {"max", f, "NaN.xorsign.abs", "f32"}, k);
  row2<XorSign32<MinNaN>, f32, f32>(t, {"min", f, "NaN.xorsign.abs", "f32"}, k);
  row1<FAbs32<Ftz>, f32, f32>(t, {"abs", f, "f32"}, k);
  row1<FNeg32<Ftz>, f32, f32>(t, {"neg", f, "f32"}, k);
  row2<FDivApprox<Ftz>, f32, f32>(t, {"div.approx", f, "f32"}, kSpecial);
  row1<FRsqrt<Ftz>, f32, f32>(t, {"rsqrt.approx", f, "f32"}, kSpecial);
  row1<Ex2<Ftz>, f32, f32>(t, {"ex2.approx", f, "f32"}, kSpecial);
  row1<Lg2<Ftz>, f32, f32>(t, {"lg2.approx", f, "f32"}, kSpecial);
  row1<Sine<Ftz, 0>, f32, f32>(t, {"sin.approx", f, "f32"}, kSpecial);
  row1<Sine<Ftz, 1>, f32, f32>(t, {"cos.approx", f, "f32"}, kSpecial);
  row1<WidenFloat<Ftz>, f64, f32>(t, {"cvt", f, "f64.f32"}, kConvert);
  row1<NarrowFloat<Ftz>, f32, f64>(t, {"cvt", f, "f32.f64"}, kConvert);
}
template <class T, bool Ftz, Rounding R>
void directed_rows(LaneTable& t) {
  constexpr const char* n = name_of<T>;
  constexpr const char* f = ftz_name<Ftz>;
  constexpr const char* r = rounding_name<R>;
  constexpr InstructionClass k = float_class<T>;
  constexpr Width w = width<T>;
  add_lane_op(t, {"add", r, f, n}, &rounded2<R, FAdd<T, Ftz>, T, T>, k, w, w, w);
  add_lane_op(t, {"sub", r, f, n}, &rounded2<R, FSub<T, Ftz>, T, T>, k, w, w, w);
  add_lane_op(t, {"mul", r, f, n}, &rounded2<R, FMul<T, Ftz>, T, T>, k, w, w, w);
  add_lane_op(t, {"fma", r, f, n}, &rounded3<R, FFma<T, Ftz>, T, T>, k, w, w, w, w);
  add_lane_op(t, {"div", r, f, n}, &rounded2<R, FDiv<T, Ftz>, T, T>, kSpecial, w, w, w);
  add_lane_op(t, {"rcp", r, f, n}, &rounded1<R, FRcp<T, Ftz>, T, T>, kSpecial, w, w);
  add_lane_op(t, {"sqrt", r, f, n}, &rounded1<R, FSqrt<T, Ftz>, T, T>, kSpecial, w, w);
}
template <Rounding R>
void all_directed_rows(LaneTable& t) {
  constexpr const char* r = rounding_name<R>;
  directed_rows<f32, false, R>(t);
  directed_rows<f32, true, R>(t);
  directed_rows<f64, false, R>(t);
  add_lane_op(t, {"cvt", r, "f32.f64"}, &rounded1<R, NarrowFloat<false>, f32, f64>, kConvert, Width::b32, Width::b64);
  add_lane_op(t, {"cvt", r, "ftz.f32.f64"}, &rounded1<R, NarrowFloat<true>, f32, f64>, kConvert, Width::b32, Width::b64);
}
template <class T, FloatClass C>
void float_class_row(LaneTable& t, const char* name) {
  add_lane_op(t, {"testp", name, name_of<T>}, &test1<TestFloat<T, C>, T>, float_class<T>, kPredicate, width<T>);
}
template <class T>
void float_class_rows(LaneTable& t) {
  float_class_row<T, FloatClass::finite>(t, "finite");
  float_class_row<T, FloatClass::infinite>(t, "infinite");
  float_class_row<T, FloatClass::number>(t, "number");
  float_class_row<T, FloatClass::notanumber>(t, "notanumber");
  float_class_row<T, FloatClass::normal>(t, "normal");
  float_class_row<T, FloatClass::subnormal>(t, "subnormal");
}

void add_float_rows(LaneTable& t) {
  f32_rows<false>(t);
  f32_rows<true>(t);
  float_rows<f64, false>(t);
  all_directed_rows<Rounding::zero>(t);
  all_directed_rows<Rounding::down>(t);
  all_directed_rows<Rounding::up>(t);
  float_class_rows<f32>(t);
  float_class_rows<f64>(t);
  row1<FAbs64, f64, f64>(t, {"abs", "f64"}, InstructionClass::f64);
  row1<FNeg64, f64, f64>(t, {"neg", "f64"}, InstructionClass::f64);
  row1<RcpApproxF64, f64, f64>(t, {"rcp.approx.ftz.f64"}, kSpecial);
  row1<RsqrtApproxF64, f64, f64>(t, {"rsqrt.approx.f64"}, kSpecial);
  row1<RsqrtApproxFtzF64, f64, f64>(t, {"rsqrt.approx.ftz.f64"}, kSpecial);
  row1<Tanh, f32, f32>(t, {"tanh.approx.f32"}, kSpecial);
  row2<CopySign32, u32, u32>(t, {"copysign.f32"}, InstructionClass::f32);
  row2<CopySign64, u64, u64>(t, {"copysign.f64"}, InstructionClass::f64);
  row1<Saturate32, f32, f32>(t, {"saturate.f32"}, InstructionClass::f32);
  row1<Saturate64, f64, f64>(t, {"saturate.f64"}, InstructionClass::f64);
  row1<Relu32, f32, f32>(t, {"relu.f32"}, InstructionClass::f32);
  row1<Flush32, f32, f32>(t, {"cvt.ftz.f32.f32"}, kConvert);
}

// A half operation and its packed form, whose row is 64 halves.
template <class F>
void half1(LaneTable& t, LaneName name, const char* type, const char* packed, InstructionClass kind = kF16) {
  add_lane_op(t, name.then(type), &map1<F, u16, u16>, kind, Width::b16, Width::b16);
  add_lane_op(t, name.then(packed), &map1<F, u16, u16, 64>, kind, Width::b32, Width::b32);
}
template <class F>
void half2(LaneTable& t, LaneName name, const char* type, const char* packed) {
  add_lane_op(t, name.then(type), &map2<F, u16, u16>, kF16, Width::b16, Width::b16, Width::b16);
  add_lane_op(t, name.then(packed), &map2<F, u16, u16, u16, 64>, kF16, Width::b32, Width::b32, Width::b32);
}
template <class F>
void half3(LaneTable& t, LaneName name, const char* type, const char* packed) {
  add_lane_op(t, name.then(type), &map3<F, u16, u16>, kF16, Width::b16, Width::b16, Width::b16, Width::b16);
  add_lane_op(t, name.then(packed), &map3<F, u16, u16, u16, u16, 64>, kF16, Width::b32, Width::b32, Width::b32, Width::b32);
}
template <class H, FRelation R, bool Ftz>
void half_compare(LaneTable& t) {
  test_row<HalfCompare<H, R, Ftz>, u16>(t, {"setp", relation_names[static_cast<int>(R)], ftz_name<Ftz>, H::name}, kF16);
}
template <class H, bool Ftz>
void half_compares(LaneTable& t) {
  half_compare<H, FRelation::eq, Ftz>(t);
  half_compare<H, FRelation::ne, Ftz>(t);
  half_compare<H, FRelation::lt, Ftz>(t);
  half_compare<H, FRelation::le, Ftz>(t);
  half_compare<H, FRelation::gt, Ftz>(t);
  half_compare<H, FRelation::ge, Ftz>(t);
  half_compare<H, FRelation::equ, Ftz>(t);
  half_compare<H, FRelation::neu, Ftz>(t);
  half_compare<H, FRelation::ltu, Ftz>(t);
  half_compare<H, FRelation::leu, Ftz>(t);
  half_compare<H, FRelation::gtu, Ftz>(t);
  half_compare<H, FRelation::geu, Ftz>(t);
  half_compare<H, FRelation::num, Ftz>(t);
  half_compare<H, FRelation::nan, Ftz>(t);
}
template <class H, bool Ftz>
void half_rows(LaneTable& t) {
  constexpr const char* n = H::name;
  constexpr const char* p = H::packed_name;
  constexpr const char* f = ftz_name<Ftz>;
  half2<HalfBinary<H, FAdd<f32, false>, Ftz>>(t, {"add", f}, n, p);
  half2<HalfBinary<H, FSub<f32, false>, Ftz>>(t, {"sub", f}, n, p);
  half2<HalfBinary<H, FMul<f32, false>, Ftz>>(t, {"mul", f}, n, p);
  half3<HalfFma<H, Ftz>>(t, {"fma", f}, n, p);
  half2<HalfBinary<H, FMax<f32, false, false>, Ftz>>(t, {"max", f}, n, p);
  half2<HalfBinary<H, FMin<f32, false, false>, Ftz>>(t, {"min", f}, n, p);
  half2<HalfBinary<H, FMax<f32, false, true>, Ftz>>(t, {"max", f, "NaN"}, n, p);
  half2<HalfBinary<H, FMin<f32, false, true>, Ftz>>(t, {"min", f, "NaN"}, n, p);
  half1<HalfNeg<H, Ftz>>(t, {"neg", f}, n, p);
  half1<HalfAbs<H, Ftz>>(t, {"abs", f}, n, p);
  half1<HalfUnary<H, Ex2<false>, Ftz>>(t, {"ex2.approx", f}, n, p, kSpecial);
  half_compares<H, Ftz>(t);
}
template <class H, Rounding R>
void half_from(LaneTable& t) {
  constexpr const char* n = H::name;
  constexpr const char* r = rounding_name<R>;
  row1<FloatToHalf<H, f32, R>, u16, f32>(t, {"cvt", r, n, "f32"}, kConvert);
  row1<FloatToHalf<H, f64, R>, u16, f64>(t, {"cvt", r, n, "f64"}, kConvert);
  row1<IntegerToHalf<H, u8, R>, u16, u16>(t, {"cvt", r, n, "u8"}, kConvert);
  row1<IntegerToHalf<H, s8, R>, u16, s16>(t, {"cvt", r, n, "s8"}, kConvert);
  row1<IntegerToHalf<H, u16, R>, u16, u16>(t, {"cvt", r, n, "u16"}, kConvert);
  row1<IntegerToHalf<H, s16, R>, u16, s16>(t, {"cvt", r, n, "s16"}, kConvert);
  row1<IntegerToHalf<H, u32, R>, u16, u32>(t, {"cvt", r, n, "u32"}, kConvert);
  row1<IntegerToHalf<H, s32, R>, u16, s32>(t, {"cvt", r, n, "s32"}, kConvert);
  row1<IntegerToHalf<H, u64, R>, u16, u64>(t, {"cvt", r, n, "u64"}, kConvert);
  row1<IntegerToHalf<H, s64, R>, u16, s64>(t, {"cvt", r, n, "s64"}, kConvert);
  row2<PackHalves<H, R, false>, u32, f32>(t, {"cvt", r, H::packed_name, "f32"}, kConvert);
  row2<PackHalves<H, R, true>, u32, f32>(t, {"cvt", r, "relu", H::packed_name, "f32"}, kConvert);
}
template <class H, Rounding R>
void half_to(LaneTable& t) {
  constexpr const char* n = H::name;
  constexpr const char* r = whole_name<R>;
  row1<HalfToInteger<u8, H, R>, u16, u16>(t, {"cvt", r, "u8", n}, kConvert);
  row1<HalfToInteger<s8, H, R>, s16, u16>(t, {"cvt", r, "s8", n}, kConvert);
  row1<HalfToInteger<u16, H, R>, u16, u16>(t, {"cvt", r, "u16", n}, kConvert);
  row1<HalfToInteger<s16, H, R>, s16, u16>(t, {"cvt", r, "s16", n}, kConvert);
  row1<HalfToInteger<u32, H, R>, u32, u16>(t, {"cvt", r, "u32", n}, kConvert);
  row1<HalfToInteger<s32, H, R>, s32, u16>(t, {"cvt", r, "s32", n}, kConvert);
  row1<HalfToInteger<u64, H, R>, u64, u16>(t, {"cvt", r, "u64", n}, kConvert);
  row1<HalfToInteger<s64, H, R>, s64, u16>(t, {"cvt", r, "s64", n}, kConvert);
  row1<HalfUnary<H, Whole<f32, R, false>, false>, u16, u16>(t, {"cvt", r, n, n}, kConvert);
}
template <class H>
void all_half_rows(LaneTable& t) {
  constexpr const char* n = H::name;
  constexpr const char* p = H::packed_name;
  half_rows<H, false>(t);
  half_rows<H, true>(t);
  half1<HalfSaturate<H>>(t, {"saturate"}, n, p);
  half1<HalfRelu<H>>(t, {"relu"}, n, p);
  half1<HalfUnary<H, Tanh, false>>(t, {"tanh.approx"}, n, p, kSpecial);
  row1<HalfToFloat<H, f32>, f32, u16>(t, {"cvt", "f32", n}, kConvert);
  row1<HalfToFloat<H, f64>, f64, u16>(t, {"cvt", "f64", n}, kConvert);
  half_from<H, Rounding::nearest>(t);
  half_from<H, Rounding::zero>(t);
  half_from<H, Rounding::down>(t);
  half_from<H, Rounding::up>(t);
  half_to<H, Rounding::nearest>(t);
  half_to<H, Rounding::zero>(t);
  half_to<H, Rounding::down>(t);
  half_to<H, Rounding::up>(t);
}
template <class E, bool Rectify>
void f8_rows(LaneTable& t) {
  constexpr const char* n = E::name;
  constexpr const char* relu = Rectify ? "relu" : "";
  row2<PackF8<E, Rectify>, u16, f32>(t, {"cvt.satfinite", relu, n, "f32"}, kConvert);
  row1<PackF8FromHalves<E, Rectify>, u16, u32>(t, {"cvt.satfinite", relu, n, "f16x2"}, kConvert);
  row1<UnpackF8<E, Rectify>, u32, u16>(t, {"cvt", relu, "f16x2", n}, kConvert);
}

void add_half_rows(LaneTable& t) {
  all_half_rows<F16>(t);
  all_half_rows<BF16>(t);
  row1<HalfToHalf<BF16, F16>, u16, u16>(t, {"cvt.bf16.f16"}, kConvert);
  row1<HalfToHalf<F16, BF16>, u16, u16>(t, {"cvt.f16.bf16"}, kConvert);
  f8_rows<E4M3, false>(t);
  f8_rows<E4M3, true>(t);
  f8_rows<E5M2, false>(t);
  f8_rows<E5M2, true>(t);
  row1<ToTf32<TensorRounding::nearest_even>, u32, u32>(t, {"cvt.tf32.f32"}, kConvert);
  row1<ToTf32<TensorRounding::away>, u32, u32>(t, {"cvt.rna.tf32.f32"}, kConvert);
  row1<ToTf32<TensorRounding::zero>, u32, u32>(t, {"cvt.rz.tf32.f32"}, kConvert);
}

template <class D, class S>
void integer_conversion(LaneTable& t) {
  row1<IntegerToInteger<D, S, false>, Storage<D>, Storage<S>>(t, {"cvt", name_of<D>, name_of<S>}, kConvert);
  row1<IntegerToInteger<D, S, true>, Storage<D>, Storage<S>>(t, {"cvt.sat", name_of<D>, name_of<S>}, kConvert);
}
template <class D, Rounding R>
void float_to_integer_rows(LaneTable& t) {
  constexpr const char* r = whole_name<R>;
  row1<FloatToInteger<D, f32, R, false>, Storage<D>, f32>(t, {"cvt", r, name_of<D>, "f32"}, kConvert);
  row1<FloatToInteger<D, f32, R, true>, Storage<D>, f32>(t, {"cvt", r, "ftz", name_of<D>, "f32"}, kConvert);
  row1<FloatToInteger<D, f64, R, false>, Storage<D>, f64>(t, {"cvt", r, name_of<D>, "f64"}, kConvert);
}
template <class S, Rounding R>
void integer_to_float_rows(LaneTable& t) {
  row1<IntegerToFloat<f32, S, R>, f32, Storage<S>>(t, {"cvt", rounding_name<R>, "f32", name_of<S>}, kConvert);
  row1<IntegerToFloat<f64, S, R>, f64, Storage<S>>(t, {"cvt", rounding_name<R>, "f64", name_of<S>}, kConvert);
}
template <class T>
void conversions_of(LaneTable& t) {
  integer_conversion<T, u8>(t);
  integer_conversion<T, s8>(t);
  integer_conversion<T, u16>(t);
  integer_conversion<T, s16>(t);
  integer_conversion<T, u32>(t);
  integer_conversion<T, s32>(t);
  integer_conversion<T, u64>(t);
  integer_conversion<T, s64>(t);
  float_to_integer_rows<T, Rounding::nearest>(t);
  float_to_integer_rows<T, Rounding::zero>(t);
  float_to_integer_rows<T, Rounding::down>(t);
  float_to_integer_rows<T, Rounding::up>(t);
  integer_to_float_rows<T, Rounding::nearest>(t);
  integer_to_float_rows<T, Rounding::zero>(t);
  integer_to_float_rows<T, Rounding::down>(t);
  integer_to_float_rows<T, Rounding::up>(t);
}

void add_conversion_rows(LaneTable& t) {
  conversions_of<u8>(t);
  conversions_of<s8>(t);
  conversions_of<u16>(t);
  conversions_of<s16>(t);
  conversions_of<u32>(t);
  conversions_of<s32>(t);
  conversions_of<u64>(t);
  conversions_of<s64>(t);
  row3<PackSaturated8<u8>, u32, s32, s32, u32>(t, {"cvt.pack.sat.u8.s32.b32"}, kConvert);
  row3<PackSaturated8<s8>, u32, s32, s32, u32>(t, {"cvt.pack.sat.s8.s32.b32"}, kConvert);
  row2<PackSaturated16<u16>, u32, s32>(t, {"cvt.pack.sat.u16.s32"}, kConvert);
  row2<PackSaturated16<s16>, u32, s32>(t, {"cvt.pack.sat.s16.s32"}, kConvert);
}

void fill(LaneTable& t) {
  add_integer_rows(t);
  add_word_rows(t);
  add_move_rows(t);
  add_float_rows(t);
  add_half_rows(t);
  add_conversion_rows(t);
}
