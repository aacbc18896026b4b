#include "costmodel/machine_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/costmodel/listing.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

/// Features of a listing.
Result<MachineCodeFeatures> parse_machine_code(const std::string& listing, const CodeLatencies& latencies = {}) {
  stitch::test::ListingReader read(listing);
  STITCH_TRY(read.read());
  return code_features(std::move(read.code), latencies);
}

std::string row_sum() {
  std::ifstream file(STITCH_SOURCE_DIR "/tests/data/sass/row_sum.sass");
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- a real listing (tests/data/sass) -----------------------------------------------------------------------------

TEST(MachineCode, ARealLoopIsRead) {
  const auto code = parse_machine_code(row_sum(), {600, 30, 20});
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->loops, 1) << "the trap behind the end is none";
  EXPECT_EQ(code->loads, 4);
  EXPECT_EQ(code->load_bytes, 64);
  EXPECT_EQ(code->load_widths, (std::array<int, 5>{0, 0, 0, 0, 4}));
  EXPECT_EQ(code->stores, 1);
  EXPECT_EQ(code->store_bytes, 4);
  EXPECT_EQ(code->barriers, 1);
  EXPECT_EQ(code->local_accesses, 0);
  EXPECT_EQ(code->by_pipe[Pipe::other], 0) << "every operation is known";
  EXPECT_TRUE(code->loop.loop);
  EXPECT_EQ(code->loop.instructions, 23);
  EXPECT_EQ(code->loop.loads, 4);
  EXPECT_EQ(code->loop.by_pipe[Pipe::special], 1);
  EXPECT_EQ(code->loop.by_pipe[Pipe::floating], 13);
  // By hand from the encodings: the stall counts of the 23 instructions, and when the first use of each load is.
  EXPECT_EQ(code->loop.stall_cycles, 67);
  EXPECT_EQ(code->loop.cycles, 664);
  EXPECT_EQ(code->loop.load_bytes, 64);
  EXPECT_GT(code->cycles, code->loop.cycles) << "all of the code once";
  EXPECT_GE(code->cycles, code->stall_cycles);
  EXPECT_EQ(code->loads_before_wait, 4) << "all four are on their way before the first is used";
  EXPECT_EQ(code->bytes_before_wait, 64);
}

TEST(MachineCode, ASlowerMemoryMakesALoopSlowerByAsMuch) {
  const auto fast = parse_machine_code(row_sum(), {600, 30, 20}), slow = parse_machine_code(row_sum(), {800, 30, 20});
  ASSERT_TRUE(fast && slow);
  EXPECT_EQ(warp_cycles(*slow), warp_cycles(*fast) + 200);
  EXPECT_EQ(slow->loop.stall_cycles, fast->loop.stall_cycles);
}

// ---- small listings -----------------------------------------------------------------------------------------------

/// An instruction with the control fields given, as a listing has it.
std::string line(int address, const std::string& text, int stall, int sets = 7, unsigned waits = 0) {
  const std::uint64_t control = (std::uint64_t(waits) << 52) | (std::uint64_t(7) << 49) | (std::uint64_t(sets) << 46) |
                                (std::uint64_t(stall) << 41);
  return fmt::format("        /*{:04x}*/   {} ;   /* 0x{:016x} */\n                /* 0x{:016x} */\n", address, text, 1,
                     control);
}

TEST(MachineCode, LoadsThatAreUsedAtOnceAreNotInFlightTogether) {
  const std::string apart = line(0, "LDG.E R0, desc[UR4][R2.64]", 1, 0) + line(16, "FADD R1, R0, R0", 4, 7, 1) +
                            line(32, "LDG.E.64 R4, desc[UR4][R2.64]", 1, 0) + line(48, "FADD R1, R4, R5", 4, 7, 1) +
                            line(64, "EXIT", 5);
  const std::string together = line(0, "LDG.E R0, desc[UR4][R2.64]", 1, 0) +
                               line(16, "LDG.E.64 R4, desc[UR4][R2.64]", 1, 1) + line(32, "FADD R1, R0, R0", 4, 7, 1) +
                               line(48, "FADD R1, R4, R5", 4, 7, 2) + line(64, "EXIT", 5);
  const auto first = parse_machine_code(apart, {100, 30, 20}), second = parse_machine_code(together, {100, 30, 20});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->loads_before_wait, 1);
  EXPECT_EQ(first->bytes_before_wait, 8);
  EXPECT_EQ(second->loads_before_wait, 2);
  EXPECT_EQ(second->bytes_before_wait, 12);
  EXPECT_FALSE(first->loop.loop);
  EXPECT_EQ(first->loop.cycles, 100 + 4 + 100 + 4 + 5);
  EXPECT_EQ(second->loop.cycles, 100 + 4 + 4 + 5);
}

TEST(MachineCode, LocalMemoryIsCountedApart) {
  const std::string listing = line(0, "STL.64 [R1], R2", 1) + ".L_x_0:\n" + line(16, "LDL.128 R4, [R1]", 1, 0) +
                              line(32, "LDG.E R0, desc[UR4][R2.64]", 1, 1) + line(48, "FADD R4, R4, R0", 4, 7, 3) +
                              line(64, "@P0 BRA `(.L_x_0)", 5) + line(80, "EXIT", 5);
  const auto code = parse_machine_code(listing, {100, 30, 20});
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->local_accesses, 2);
  EXPECT_EQ(code->local_bytes, 24);
  EXPECT_EQ(code->loop.local_bytes, 16);
  EXPECT_EQ(code->local_loops, (std::vector<MachineCodeFeatures::LocalLoop>{{16, 4}}));
  EXPECT_EQ(local_trips(*code, 40, 100), (8 + 16 * 10) / 24.0) << "ten iterations load what the schedule does";
  EXPECT_EQ(local_trips(*code, 40, 4), (8 + 16 * 4) / 24.0);
  EXPECT_EQ(local_trips(*code, 0, 4), 1);
  EXPECT_EQ(code->load_bytes, 4);
  EXPECT_EQ(code->stall_cycles, 1 + 1 + 1 + 4 + 5 + 5);
  EXPECT_EQ(code->cycles, 1 + 1 + 100 + 4 + 5 + 5);
}

TEST(MachineCode, LocalMemoryBelongsToTheInnermostLoopAroundIt) {
  const std::string nested = ".L_x_0:\n" + line(0, "LDL R0, [R1]", 2, 0) + ".L_x_1:\n" +
                             line(16, "LDG.E.64 R2, desc[UR4][R2.64]", 2, 0) + line(32, "STL.64 [R1], R2", 2, 7, 1) +
                             line(48, "@P0 BRA `(.L_x_1)", 5) + line(64, "LDG.E R4, desc[UR4][R2.64]", 2, 0) +
                             line(80, "@P1 BRA `(.L_x_0)", 5) + line(96, "LDL.128 R4, [R1]", 2, 0) +
                             line(112, "EXIT", 5);
  const auto code = parse_machine_code(nested);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->local_bytes, 4 + 8 + 16);
  EXPECT_THAT(code->local_loops, testing::UnorderedElementsAre(MachineCodeFeatures::LocalLoop{8, 8},
                                                               MachineCodeFeatures::LocalLoop{4, 12}));
}

TEST(MachineCode, AKernelAwaitsItsPredecessorBeforeItTouchesMemory) {
  const std::string load = "LDG.E R0, desc[UR4][R2.64]", past_l1 = "LDG.E.128.STRONG.GPU R4, desc[UR4][R2.64]",
                    wait = "ACQBULK", constant = "LDC R1, c[0x0][0x28]";
  const struct {
    std::vector<std::string> code;
    bool awaits;
    int unwaited = 0;
  } table[] = {
      {{constant, wait, load}, true},
      {{wait, "PREEXIT", load}, true},
      {{"STL [R1], R0", wait, load}, true},
      {{load, wait}, false},
      {{"STG.E desc[UR4][R2.64], R0", wait}, false},
      {{"UTMALDG.2D [UR8], [UR4]", wait}, false},
      {{"LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", wait}, false},
      {{"@P0 ACQBULK", load}, false},
      {{constant, load}, false},
      {{past_l1, past_l1, wait, past_l1}, true, 2},
      {{past_l1, load, wait}, false},
      {{past_l1, "STG.E desc[UR4][R2.64], R0", wait}, false},
      {{past_l1, load}, false},
  };
  for (const auto& row : table) {
    std::string listing;
    for (std::size_t i = 0; i < row.code.size(); ++i) listing += line(static_cast<int>(16 * i), row.code[i], 1);
    const auto code = parse_machine_code(listing + line(static_cast<int>(16 * row.code.size()), "EXIT", 5));
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->awaits, row.awaits) << row.code.front();
    EXPECT_EQ(code->unwaited_loads, row.unwaited) << row.code.front();
  }
}

TEST(MachineCode, TheHotLoopIsTheInnermostThatLoads) {
  const std::string nested = ".L_x_0:\n" + line(0, "IADD3 R0, R0, 0x1, RZ", 2) + ".L_x_1:\n" +
                             line(16, "LDG.E.U8 R2, desc[UR4][R2.64]", 2, 0) + line(32, "@P0 BRA `(.L_x_1)", 5) +
                             ".L_x_2:\n" + line(48, "FADD R1, R1, R1", 4) + line(64, "FMUL R1, R1, R1", 4) +
                             line(80, "FMUL R1, R1, R1", 4) + line(96, "@P1 BRA `(.L_x_2)", 5) +
                             line(112, "@P2 BRA `(.L_x_0)", 5) + line(128, "EXIT", 5);
  const auto code = parse_machine_code(nested);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(code->loops, 3);
  EXPECT_EQ(code->loop.instructions, 2);
  EXPECT_EQ(code->load_widths[0], 1);
}

TEST(MachineCode, ALoopThatWaitsForOtherBlocksIsNotHot) {
  const std::string wait = ".L_x_0:\n" + line(0, "LDG.E.STRONG.GPU R2, desc[UR4][R2.64]", 2, 0) +
                           line(16, "NANOSLEEP R3", 2, 7, 1) + line(32, "@P0 BRA `(.L_x_0)", 5);
  const auto alone = parse_machine_code(wait + line(48, "LDG.E.128 R4, desc[UR4][R2.64]", 2, 0) + line(64, "EXIT", 5));
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_FALSE(alone->loop.loop);
  EXPECT_EQ(alone->loop.load_bytes, 20);
  EXPECT_EQ(alone->loops, 1);
  const auto besides = parse_machine_code(wait + ".L_x_1:\n" + line(48, "LDG.E.128 R4, desc[UR4][R2.64]", 2, 0) +
                                          line(64, "@P0 BRA `(.L_x_1)", 5) + line(80, "EXIT", 5));
  ASSERT_TRUE(besides) << besides.error().message;
  EXPECT_TRUE(besides->loop.loop);
  EXPECT_EQ(besides->loop.load_bytes, 16);
}

TEST(MachineCode, ABranchIntoTheMiddleIsRefused) {
  const std::string listing = line(0, "FADD R1, R0, R0", 4) + line(16, "EXIT", 5);
  stitch::test::ListingReader read(listing);
  ASSERT_TRUE(read.read());
  read.code[1].target = 8;
  const auto code = code_features(read.code);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().kind, ErrorKind::parse);
  EXPECT_THAT(code.error().message, HasSubstr("EXIT at 0x10 goes to 0x8, where no instruction begins"));
}

/// Appends an instruction of one cycle.
void add_instruction(std::vector<MachineInstruction>& code, std::string_view name, int width, int sets) {
  MachineInstruction one;
  one.address = std::ssize(code) * 16;
  one.name = name;
  one.pipe = pipe_of(name);
  one.width = width;
  one.sets_result = sets;
  one.stall = 1;
  code.push_back(one);
}

TEST(MachineCode, CopiesToSharedMemoryAreWaitedForByGroup) {
  // Two copies of 16 bytes a group, two groups; DEPBAR.LE SB0, 1 waits for the first and leaves the second under way.
  std::vector<MachineInstruction> code;
  const auto add = [&](std::string_view name, int width, int sets) { add_instruction(code, name, width, sets); };
  for (int group = 0; group < 2; ++group) {
    for (int copy = 0; copy < 2; ++copy) add("LDGSTS", 16, no_scoreboard);
    add("LDGDEPBAR", 4, 0);
  }
  add("DEPBAR", 4, no_scoreboard);
  code.back().waits_on = 0;
  code.back().waits_for_all_but = 1;
  add("LDG", 4, 1);
  add("FADD", 4, no_scoreboard);
  code.back().waits = 2;
  const auto partial = code_features(code, {100, 30, 20});
  ASSERT_TRUE(partial);
  EXPECT_EQ(partial->bytes_before_wait, 64);
  EXPECT_EQ(partial->loop.load_waits, 2);
  EXPECT_EQ(partial->loop.waits, 2);
  EXPECT_EQ(partial->cycles, 102 + 1 + 1 + 100) << "the first group is there at 102, the load 100 later";
  code[6].waits_for_all_but = 0;
  const auto whole = code_features(code, {100, 30, 20});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->cycles, 105 + 1 + 1 + 100 - 1 + 1) << "all of both groups";
  EXPECT_EQ(whole->bytes_before_wait, 64);
}

TEST(MachineCode, ALoopOfStagesHasThoseOfSeveralTurnsOnTheirWay) {
  // A turn asks for two copies of 16 bytes and waits for those of `stages` - 1 turns ago.
  for (const int stages : {2, 3, 4}) {
    std::vector<MachineInstruction> code;
    for (int copy = 0; copy < 2; ++copy) add_instruction(code, "LDGSTS", 16, no_scoreboard);
    add_instruction(code, "LDGDEPBAR", 4, 0);
    add_instruction(code, "DEPBAR", 4, no_scoreboard);
    code.back().waits_on = 0;
    code.back().waits_for_all_but = stages - 1;
    add_instruction(code, "FADD", 4, no_scoreboard);
    add_instruction(code, "BRA", 4, no_scoreboard);
    code.back().predicated = true;
    code.back().target = 0;
    add_instruction(code, "EXIT", 4, no_scoreboard);
    const auto features = code_features(code, {100, 30, 20});
    ASSERT_TRUE(features);
    EXPECT_TRUE(features->loop.loop);
    EXPECT_EQ(features->loads_before_wait, 2 * stages);
    EXPECT_EQ(features->bytes_before_wait, 32 * stages);
    EXPECT_EQ(features->loop.load_waits, 1) << "what the turn waits for was asked for before";
    // Of 100 cycles of latency those are waited for that the turns between did not take.
    EXPECT_LE(features->loop.cycles, 100 / (stages - 1) + 6);
  }
}

TEST(Pipe, OperationsGoWhereTheyAreExecuted) {
  for (const auto& [operation, pipe] : std::vector<std::pair<std::string_view, Pipe>>{{"FFMA.FTZ", Pipe::floating},
                                                                                      {"HFMA2.BF16_V2", Pipe::half},
                                                                                      {"DFMA", Pipe::wide},
                                                                                      {"IMAD.WIDE", Pipe::integer},
                                                                                      {"MUFU.EX2", Pipe::special},
                                                                                      {"LDG.E.128", Pipe::memory},
                                                                                      {"LDGSTS.E", Pipe::memory},
                                                                                      {"LDGDEPBAR", Pipe::control},
                                                                                      {"LDS.128", Pipe::shared},
                                                                                      {"LDC.64", Pipe::uniform},
                                                                                      {"SHFL.BFLY", Pipe::shared},
                                                                                      {"REDUX.OR", Pipe::integer},
                                                                                      {"HGMMA.64x64x16", Pipe::tensor},
                                                                                      {"ULDC.64", Pipe::uniform},
                                                                                      {"UBLKCP.S.G", Pipe::memory},
                                                                                      {"BAR.SYNC", Pipe::control},
                                                                                      {"QUUX", Pipe::other}}) {
    EXPECT_EQ(to_string(pipe_of(operation)), to_string(pipe)) << operation;
  }
}

}  // namespace
}  // namespace stitch::costmodel::test
