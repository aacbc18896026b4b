// Row by row of a lock on two machines whose timings differ: each has a store, a tuner and a server of its own, times
// are a law × a factor of each machine's for each candidate, so that they choose unlike plans; with a lock they run the
// same plans to the same bits. Kernels are really made, compiled, verified and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>

#include "api/program_lock.h"
#include "client/client.h"
#include "client/emulated_executor.h"
#include "client/program.h"
#include "graph/codec/codec.h"
#include "kernel/program/schedule_hash.h"
#include "tests/base/rounds.h"
#include "tests/client/program_values.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/programs/locked_plan.h"
#include "tuning/programs/model_program.h"

namespace stitch::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Every candidate takes what the law says, times a factor from 1/8 to 8 that the draw gives it.
tuning::LawTimer::Law scaled(std::uint64_t draw) {
  return [draw](const search::StitchCandidate& candidate) -> Result<double> {
    const Hash128 schedule = kernel::schedule_hash(candidate.schedule);
    return tuning::by_threads(candidate) * std::exp2(6 * Random(mix(draw, schedule.low)).uniform() - 3);
  };
}

using Bits = std::vector<std::vector<std::byte>>;

class LockedProgram : public testing::Test {
 protected:
  /// A machine with a store of its own. Whatever is compiled on either is kept for both, which is quick.
  struct Machine {
    Machine(LockedProgram& test, const std::string& name) : test(test), database(test.folder / (name + ".db")) {
      db::SqliteOptions storage;
      storage.path = database;
      store = *db::open_sqlite_store(storage, test.clock);
    }

    /// A tuner as a new process has one, whose timings are multiplied by the draw's factors; without a draw it has
    /// none.
    void begin(std::optional<std::uint64_t> draw) {
      memory.reset();
      if (draw) timer.law = scaled(*draw);
      tuning::TunerOptions options;
      options.stitch.keep = tuning::locked_candidates();
      options.verify.distributions.resize(1);
      options.measured_candidates = 4;
      options.artifact_folder = test.folder / "code";
      tuner = *tuning::Tuner::create(options, tuning::shared_device(), draw ? &timer : nullptr, test.files, test.clock);
      memory = *tuning::RememberingTuner::open(*store, *tuner, test.clock);
    }
    /// With the plans that are served, tuned where there is none; or those of a lock, and no others.
    Result<api::Program> program(std::span<const api::LockedProgram> lock = {}) const {
      import::Imported model;
      model.graph = test.model;
      return tuning::make_program(model, *tuner,
                                  {.name = "layers", .tunes = lock.empty(), .memory = memory.get(), .lock = lock});
    }
    /// Tunes whatever it has, too: a challenger that is found faster is promoted.
    void tune_again() const {
      const Result<api::Program> known = program();
      ASSERT_TRUE(known.ok()) << known.error().message;
      for (const api::ProgramFragment& fragment : known->fragments) {
        const auto tuned = memory->tune({.fragment = fragment.graph, .name = "layers"});
        ASSERT_TRUE(tuned.ok()) << tuned.error().message;
        ASSERT_TRUE(memory->keep(*tuned).ok());
      }
    }

    LockedProgram& test;
    std::filesystem::path database;
    tuning::LawTimer timer;
    std::unique_ptr<db::Store> store;
    std::unique_ptr<tuning::Tuner> tuner;
    std::unique_ptr<tuning::RememberingTuner> memory;
  };

  static Bits run(const api::Program& program) {
    EmulatedExecutor executor(tuning::shared_device());
    const auto runner = ProgramRunner::open(program, executor);
    EXPECT_TRUE(runner.ok()) << (runner ? "" : runner.error().message);
    if (!runner) return {};
    const std::vector<Memory> inputs = random_inputs(program);
    Bits results;
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (const Memory& input : inputs) from.emplace_back(input.span());
    std::vector<Memory> outputs;
    for (const api::ProgramPort& port : program.results)
      to.emplace_back(outputs.emplace_back(port.type.bytes()).span());
    const Status ran = (*runner)->run(from, to);
    EXPECT_TRUE(ran.ok()) << (ran ? "" : ran.error().message);
    for (const Memory& output : outputs) results.emplace_back(output.span().begin(), output.span().end());
    return results;
  }

  /// Fragments of which the two have unlike plans.
  static int unlike(const api::Program& a, const api::Program& b) {
    int count = 0;
    for (std::size_t f = 0; f < a.fragments.size(); ++f) count += a.fragments[f].plan->id != b.fragments[f].plan->id;
    return count;
  }

  TestFolder folder;
  SystemClock clock;
  RealFileSystem files;
  graph::Graph model = tuning::samples::layered_model(3);
};

class LockedProgramEmulated : public LockedProgram {};

// The row that this is for: with a lock, timings that are multiplied by random factors change nothing.
TEST_F(LockedProgramEmulated, ScaledTimingsOnTwoMachinesGiveTheSameBits) {
  const int draws = rounds(12);
  int unlike_plans = 0, unlike_bits = 0;
  for (int draw = 0; draw < draws; ++draw) {
    SCOPED_TRACE(draw);
    Machine here(*this, fmt::format("here {}", draw)), there(*this, fmt::format("there {}", draw));
    here.begin(2 * draw);
    there.begin(2 * draw + 1);
    const auto ours = here.program(), theirs = there.program();
    ASSERT_TRUE(ours.ok() && theirs.ok());
    ASSERT_EQ(ours->id, theirs->id);
    unlike_plans += unlike(*ours, *theirs) > 0;
    unlike_bits += run(*ours) != run(*theirs);

    // The lock is written; later either machine is another process, and the one that wrote it has better plans by then.
    const std::string text = api::lock_of(*ours);
    const auto lock = *api::parse_lock(text);
    here.begin(1000 + 2 * draw);
    here.tune_again();
    there.begin(1001 + 2 * draw);
    // A third one has no GPU, and nothing is known there.
    Machine elsewhere(*this, fmt::format("elsewhere {}", draw));
    elsewhere.begin({});
    const Bits results = run(*ours);
    for (const Machine* machine : {&here, &there, &elsewhere}) {
      const auto locked = machine->program(lock);
      ASSERT_TRUE(locked.ok()) << locked.error().message;
      EXPECT_EQ(api::lock_of(*locked), text);
      EXPECT_EQ(run(*locked), results);
    }
  }
  EXPECT_GT(unlike_plans, draws / 2) << "nearly all draws choose unlike plans without a lock";
  EXPECT_GT(unlike_bits, 0) << "and plans sum in unlike orders: the bits tell them apart";
}

TEST_F(LockedProgramEmulated, WhatIsServedIsNotWhatIsLocked) {
  Machine machine(*this, "machine");
  machine.begin(0);
  const auto before = machine.program();
  ASSERT_TRUE(before.ok()) << before.error().message;
  const auto lock = *api::parse_lock(api::lock_of(*before));
  // Until some plan has made way for another.
  api::Program after = *before;
  for (std::uint64_t draw = 1; draw < 20 && unlike(*before, after) == 0; ++draw) {
    machine.begin(draw);
    machine.tune_again();
    after = *machine.program();
  }
  ASSERT_GT(unlike(*before, after), 0);
  const auto locked = machine.program(lock);
  ASSERT_TRUE(locked.ok()) << locked.error().message;
  EXPECT_EQ(unlike(*before, *locked), 0) << "it is still stored, though it is not served";
  EXPECT_EQ(unlike(after, *machine.program()), 0) << "and what is served stays";
}

TEST_F(LockedProgramEmulated, WhatCannotBeMadeAgainIsRefusedByItsLine) {
  Machine machine(*this, "machine");
  machine.begin(0);
  const api::Program program = *machine.program();
  const auto lock = *api::parse_lock(api::lock_of(program));
  const auto refusal = [&](const std::vector<api::LockedProgram>& of, Machine& by) {
    const auto refused = by.program(of);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(refused ? ErrorKind::internal : refused.error().kind, ErrorKind::constraint);
    return refused ? std::string() : refused.error().message;
  };
  const std::string plan = lock[0].fragments[1].plan->hex(), fragment = lock[0].fragments[1].key.hex();
  const std::string place = "line 5 of the lock: plan " + plan + " of fragment " + fragment + ": ";

  Machine elsewhere(*this, "elsewhere");
  elsewhere.begin(1);
  auto other = lock;
  other[0].fragments[1].code[0] = sha256("code of nobody");
  EXPECT_THAT(refusal(other, elsewhere),
              AllOf(HasSubstr(place), HasSubstr("it is not stored, and it cannot be made again: kernel "),
                    HasSubstr("candidates has that code")));
  EXPECT_TRUE(elsewhere.store->list_candidates({}, {})->items.empty()) << "no candidate was tried for being another";
  EXPECT_THAT(refusal(other, machine), HasSubstr(place + "its code is not what the lock says"));
  other = lock;
  other[0].fragments[1].plan = hash_bytes("a plan of nobody");
  EXPECT_THAT(refusal(other, elsewhere), HasSubstr("of that code plan " + plan + " is made here"));
  other[0].fragments[1].plan = lock[0].fragments[0].plan;
  EXPECT_THAT(refusal(other, machine), HasSubstr("it is one of fragment " + lock[0].fragments[0].key.hex()));
  ASSERT_TRUE(
      machine.store->withdraw(*lock[0].fragments[1].plan, "it is wrong", machine.memory->provenance("verification"))
          .ok());
  EXPECT_THAT(refusal(lock, machine), HasSubstr(place + "it was withdrawn"));

  other = lock;
  other[0].fragments[1].plan.reset();
  const auto without = elsewhere.program(other);
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_FALSE(without->fragments[1].plan);
  EXPECT_EQ(without->fragments[1].why_none, "the lock has no plan for it");
  EXPECT_EQ(without->fragments[0].plan->id, *lock[0].fragments[0].plan);
}

// The same of two servers: what a server does not have it cannot make again, and says so.
class LockedProgramDaemon : public LockedProgram {
 protected:
  static std::unique_ptr<Client> client_of(const daemon::RunningService& running) {
    return *Client::open({.server = "unix://" + running.socket.string(), .cache = {}});
  }
};

TEST_F(LockedProgramDaemon, AServerIsAskedForPlansByTheirIds) {
  Machine here(*this, "here"), there(*this, "there");
  std::array<std::unique_ptr<daemon::RunningService>, 2> servers;
  std::array<std::unique_ptr<Client>, 2> clients;
  const std::string document = graph::encode(model, graph::Encoding::json);
  std::array<api::Program, 2> programs;
  for (std::size_t i = 0; i < 2; ++i) {
    Machine& machine = i == 0 ? here : there;
    machine.begin(7 + i);
    machine.memory.reset();
    machine.store.reset();  // the server has its own
    servers[i] = std::make_unique<daemon::RunningService>(
        machine.database, daemon::RunningOptions{.serve = true, .tuner = machine.tuner.get()});
    clients[i] = client_of(*servers[i]);
    const auto submitted = clients[i]->submit_model(document, "layers.json");
    ASSERT_TRUE(submitted.ok()) << submitted.error().message;
    ASSERT_EQ(servers[i]->wait_for(submitted->job).state, "done");
    programs[i] = *clients[i]->make_program(document, {.improve = false, .name = "layers.json"});
  }
  ASSERT_GT(unlike(programs[0], programs[1]), 0) << "another pair of draws is wanted";

  const std::string text = api::lock_of(programs[0]);
  FetchOptions locked{.improve = false, .name = "layers.json", .lock = *api::parse_lock(text)};
  const auto refused = clients[1]->make_program(document, locked);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::constraint);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr(" of the lock: plan "), HasSubstr(" of fragment ")));
  // What `stitch export` and `stitch import` do.
  for (const api::ProgramFragment& fragment : programs[0].fragments) {
    const auto bundle = servers[0]->store->get_plan_bundle(fragment.plan->id);
    ASSERT_TRUE(bundle.ok()) << bundle.error().message;
    ASSERT_TRUE(servers[1]->store->put_plan(*bundle, db::Admission::challenger).ok());
  }
  const auto second = clients[1]->make_program(document, locked);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(api::lock_of(*second), text);
  EXPECT_EQ(run(*second), run(programs[0]));
  const auto unlocked = clients[1]->make_program(document, {.improve = false, .name = "layers.json"});
  EXPECT_EQ(unlike(*unlocked, programs[1]), 0) << "what is served stays";
}

}  // namespace
}  // namespace stitch::client
