// Who computes a program's products once kernels of ours and the library's calls were measured: kernels are really made
// and verified, the store is a real one, and the times come from a script.
#include "tuning/programs/product_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/sqlite_store.h"
#include "graph/builder.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/call_timer.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Value;
using testing::ElementsAre;

/// x · w of f16.
stitch::import::Imported one_product(std::int64_t rows = 128, std::int64_t depth = 128, std::int64_t columns = 128) {
  graph::Builder b;
  const Value x = b.parameter(DType::f16, {rows, depth}), w = b.parameter(DType::f16, {depth, columns});
  import::Imported model;
  model.graph = *b.finish({b.dot(x, w, {{}, {}, {1}, {0}, DType::f16})});
  return model;
}

class ProductChoicesEmulated : public testing::Test {
 protected:
  ProductChoicesEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
    open();
  }
  /// A tuner of its own: what an earlier one made would be remembered.
  void open(ProductsBy by = ProductsBy::faster, bool measures = true) {
    TunerOptions options;
    options.products = by;
    options.verify.distributions.resize(1);
    options.measured_candidates = 1;
    memory_.reset();
    tuner_ = *Tuner::create(options, shared_device(), measures ? &timer_ : nullptr, files_, clock_);
    memory_ = *RememberingTuner::open(*store_, *tuner_, clock_);
  }
  api::Program made(bool remembers = false) {
    const ProgramRequest request{.name = "test", .tunes = true, .memory = remembers ? memory_.get() : nullptr};
    auto program = make_program(one_product(), *tuner_, request);
    EXPECT_TRUE(program) << program.error().message;
    return program ? *std::move(program) : api::Program();
  }
  /// "ours", "library"
  static std::vector<std::string> by(const api::Program& program) {
    std::vector<std::string> each;
    for (const api::ProgramStep& step : program.regions.at(0).steps)
      each.emplace_back(std::holds_alternative<api::LibraryStep>(step.work) ? "library" : "ours");
    return each;
  }

  const TestFolder folder_;
  RealFileSystem files_;
  SystemClock clock_;
  CallTimer timer_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Tuner> tuner_;
  std::unique_ptr<RememberingTuner> memory_;
};

TEST_F(ProductChoicesEmulated, TheOneThatWasMeasuredFasterComputesIt) {
  timer_.library_us = [](const graph::Graph&) { return 12.0; };
  EXPECT_THAT(by(made()), ElementsAre("ours"));
  EXPECT_EQ(timer_.calls_measured, 1);
  timer_.library_us = [](const graph::Graph&) { return 8.0; };
  const api::Program program = made();
  EXPECT_THAT(by(program), ElementsAre("library"));
  EXPECT_TRUE(program.fragments.empty());
  ASSERT_EQ(program.calls.size(), 1U);
  EXPECT_EQ(program.calls[0].kind, "dot");
}

TEST_F(ProductChoicesEmulated, WithinTheirNoiseTheLibraryKeepsIt) {
  timer_.library_us = [](const graph::Graph&) { return 10.02; };
  EXPECT_THAT(by(made()), ElementsAre("library"));
}

// What is measured is measured once, whoever asks; a program that is outlined later follows it without a device.
TEST_F(ProductChoicesEmulated, WhatWasMeasuredIsRemembered) {
  timer_.library_us = [](const graph::Graph&) { return 8.0; };
  const api::Program first = made(true);
  EXPECT_THAT(by(first), ElementsAre("library"));
  EXPECT_EQ(timer_.calls_measured, 1);
  open();
  EXPECT_EQ(made(true).id, first.id);
  EXPECT_EQ(timer_.calls_measured, 1);

  open(ProductsBy::faster, false);
  const auto outlined = outline_program(one_product(), *tuner_, {.name = "test", .memory = memory_.get()});
  ASSERT_TRUE(outlined) << outlined.error().message;
  EXPECT_EQ(outlined->id, first.id);
  const auto calls = library_calls_of(one_product().graph);
  ASSERT_TRUE(calls && calls->size() == 1);
  const auto time = memory_->call_time(calls->front());
  ASSERT_TRUE(time && *time);
  EXPECT_EQ((*time)->library, "cuBLASLt 13.0.0");
  EXPECT_NEAR((*time)->us, 8, 0.1);
  // Another product was never measured.
  const auto other = memory_->call_time(library_calls_of(one_product(64).graph)->front());
  EXPECT_TRUE(other && !*other);
}

TEST_F(ProductChoicesEmulated, WhatIsPredictedToBeAboutAsFastIsDecidedByTimes) {
  // Some shape that the library is predicted to be faster for, though not by more than predictions may be off.
  std::optional<import::Imported> close;
  for (std::int64_t rows = 64; rows <= 2048 && !close; rows += 64) {
    for (const std::int64_t columns : {64, 128, 256, 512, 1024}) {
      auto model = one_product(rows, 256, columns);
      if (tuner_->choose_product(canonical(model.graph)) == ProductChoice::contends) close = std::move(model);
    }
  }
  ASSERT_TRUE(close);
  const auto program = [&](bool measures) {
    open(ProductsBy::faster, measures);
    auto made = make_program(*close, *tuner_, {.name = "close", .tunes = measures});
    EXPECT_TRUE(made) << made.error().message;
    return by(*made);
  };
  EXPECT_THAT(program(false), ElementsAre("library")) << "where nothing is measured, as ever";
  timer_.library_us = [](const graph::Graph&) { return 12.0; };
  EXPECT_THAT(program(true), ElementsAre("ours"));
  timer_.library_us = [](const graph::Graph&) { return 8.0; };
  EXPECT_THAT(program(true), ElementsAre("library"));
  timer_.library_us = [](const graph::Graph&) { return make_error(ErrorKind::unavailable, "no cuBLASLt"); };
  EXPECT_THAT(program(true), ElementsAre("library")) << "what cannot be measured is as predicted";
}

TEST_F(ProductChoicesEmulated, ACallThatEndsTheRunnerIsNotMadeAgain) {
  timer_.library_us = [](const graph::Graph&) { return make_error(ErrorKind::runtime, "library call dot(…): died"); };
  const char* const predicted = tuner_->computes_product(canonical(one_product().graph)) ? "ours" : "library";
  EXPECT_THAT(by(made(true)), ElementsAre(predicted));
  EXPECT_EQ(timer_.calls_measured, 1);
  open();
  EXPECT_THAT(by(made(true)), ElementsAre(predicted));
  EXPECT_EQ(timer_.calls_measured, 1) << "the store knows";
  const auto time = memory_->call_time(library_calls_of(one_product().graph)->front());
  ASSERT_TRUE(time && *time && (*time)->failure);
  EXPECT_EQ((*time)->failure->kind, ErrorKind::runtime);
}

TEST_F(ProductChoicesEmulated, OursWhereverThereIsOneAsksForNoTimes) {
  open(ProductsBy::ours);
  timer_.library_us = [](const graph::Graph&) { return 1.0; };
  EXPECT_THAT(by(made()), ElementsAre("ours"));
  open(ProductsBy::library);
  EXPECT_THAT(by(made()), ElementsAre("library"));
  EXPECT_EQ(timer_.calls_measured, 0);
}

}  // namespace
}  // namespace stitch::tuning
