#include "tuning/cost_models/cost_model_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "codegen/generator_version.h"
#include "costmodel/analytical.h"
#include "costmodel/combined.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "kernel/program/schedule_hash.h"
#include "tests/costmodel/synthetic_times.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/db/sample_records.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/kernels/kernel_space.h"
#include "tuning/kernels/training_samples.h"
#include "tuning/plans/tuner.h"

// Stores with candidates whose times are made up (tests/costmodel/synthetic_times.h): what models of them are good for
// is known.
namespace stitch::tuning {
namespace {

using costmodel::TrainedCostModel;
using costmodel::TrainingSample;
using testing::HasSubstr;
using testing::SizeIs;
using Kind = TrainedCostModel::Kind;
using daemon::RunningService;
using nlohmann::json;

namespace raw = daemon::raw;

CandidateFacts facts_of(const TrainingSample& sample) {
  return {"h100", sample.kernel, sample.family, costmodel::feature_set_hash(), {sample.analytical_us, sample.features}};
}

class ModelTrainingTest : public testing::Test {
 protected:
  ModelTrainingTest() {
    store_ = db::samples::opened(folder_ / "stitch.db", clock_);
    EXPECT_TRUE(store_->put_device(db::samples::gpu()).ok());
    EXPECT_TRUE(store_->put_device(db::samples::emulated()).ok());
    EXPECT_TRUE(store_->put_fragment(fragment_).ok());
  }

  /// A candidate with one measurement; numbers keep candidates apart.
  void put(const CandidateFacts& facts, double us, int number, std::string target = "h100",
           const std::function<void(db::MeasurementRecord&)>& change = {}) {
    db::Candidate candidate = db::samples::candidate(fragment_, number, db::Outcome::correct);
    candidate.key.target.device = std::move(target);
    ASSERT_OK(store_->record_candidates(std::span(&candidate, 1)));
    db::MeasurementRecord measurement =
        db::samples::measurement(db::MeasurementRecord::Subject::schedule, candidate.schedule_hash, {us, us, us});
    measurement.conditions = with_facts(measurement.conditions, facts);
    if (change) change(measurement);
    ASSERT_OK(store_->record_measurement(measurement));
  }
  /// The synthetic set's samples from `from` on.
  void put_samples(std::size_t from, std::size_t count) {
    const auto& samples = costmodel::test::all_synthetic().samples;
    for (std::size_t i = from; i < from + count; ++i)
      put(facts_of(samples.at(i)), samples.at(i).measured, static_cast<int>(i));
  }
  static costmodel::TrainingOptions quick(Kind kind = Kind::combined) {
    costmodel::TrainingOptions options;
    options.kind = kind;
    options.trees.rounds = 40;
    options.pretraining_rounds = 20;
    return options;
  }
  TrainedAndStored train(const costmodel::TrainingSet& set, Kind kind = Kind::combined) {
    auto done = train_and_store(*store_, set, quick(kind), clock_, "in a test");
    EXPECT_TRUE(done.ok()) << (done ? "" : done.error().message);
    return done ? *std::move(done) : TrainedAndStored();
  }

  TestFolder folder_;
  SystemClock clock_;
  std::unique_ptr<db::Store> store_;
  db::FragmentRecord fragment_ = db::samples::fragment(1);
};

// ---- samples ------------------------------------------------------------------------------------------------------

TEST_F(ModelTrainingTest, SamplesAreTheTimesThatWereMeasured) {
  const TrainingSample& sample = costmodel::test::all_synthetic().samples[3];
  const CandidateFacts facts = facts_of(sample);
  put(facts, 12, 1);
  put(facts, 14, 1, "h100", [](db::MeasurementRecord& m) { m.provenance.wall_us += 1; });  // later: it counts
  put(facts, 900, 2, "h100",
      [](db::MeasurementRecord& m) { m.kind = db::MeasurementRecord::Kind::event_count, m.device = "emulated"; });
  put(facts, 15, 3, "a100");
  CandidateFacts other = facts;
  other.feature_set.low ^= 1;
  put(other, 16, 4);
  put(facts, 17, 5, "h100", [](db::MeasurementRecord& m) { m.conditions = "{}"; });  // of an older version
  const auto set = samples_of_store(*store_, "h100");
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->unit, "us");
  EXPECT_EQ(set->device, "h100");
  ASSERT_THAT(set->samples, SizeIs(1));
  const TrainingSample& read = set->samples[0];
  EXPECT_EQ(read.measured, 14);
  EXPECT_EQ(read.kernel, sample.kernel);
  EXPECT_EQ(read.family, sample.family);
  EXPECT_EQ(read.analytical_us, sample.analytical_us);
  EXPECT_EQ(read.device, db::samples::gpu().key);
  TrainingSample same = sample;
  same.measured = 14;
  same.device = read.device;
  EXPECT_EQ(costmodel::hash_of({"h100", "us", {}, {read}}), costmodel::hash_of({"h100", "us", {}, {same}}))
      << "the row is the same, what is missing included";
}

TEST_F(ModelTrainingTest, FactsThatMakeNoSenseAreNamed) {
  const TrainingSample& sample = costmodel::test::all_synthetic().samples[3];
  EXPECT_FALSE(*facts_in("{}"));
  const json whole = json::parse(with_facts(R"({"graph":false})", facts_of(sample)));
  EXPECT_EQ(whole["graph"], false) << "what was there stays";
  for (const auto& [field, value] : std::vector<std::pair<std::string, json>>{
           {"kernel", "xyz"}, {"analytical_us", "long"}, {"features", json::array({1, 2})}, {"family", 7}}) {
    json damaged = whole;
    damaged["candidate"][field] = value;
    const auto facts = facts_in(damaged.dump());
    ASSERT_FALSE(facts) << field;
    EXPECT_EQ(facts.error().kind, ErrorKind::corrupt);
  }
  put(facts_of(sample), 12, 1, "h100",
      [](db::MeasurementRecord& m) { m.conditions = R"({"candidate":{"kernel":"x"}})"; });
  const auto set = samples_of_store(*store_, "h100");
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message, HasSubstr("measurement "));
}

// ---- models -------------------------------------------------------------------------------------------------------

TEST_F(ModelTrainingTest, ATrainedModelIsStoredWithItsAccuracyAndFoundAgain) {
  EXPECT_EQ(*newest_fit_cost_model(*store_, "h100", nullptr), nullptr);
  const TrainedAndStored first = train(costmodel::test::all_synthetic());
  EXPECT_EQ(first.version, 1);
  EXPECT_EQ(train(costmodel::test::all_synthetic()).version, 2);
  const auto stored = store_->get_model("combined", "h100", 1);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->bytes, encode(first.training.model));
  EXPECT_EQ(stored->bytes, store_->get_model("combined", "h100", 2)->bytes) << "the same set, the same bytes";
  EXPECT_EQ(stored->training_set, costmodel::hash_of(costmodel::test::all_synthetic()));
  EXPECT_EQ(stored->seed, 1U);
  const json accuracy = json::parse(stored->accuracy);
  EXPECT_EQ(accuracy["better"], true);
  EXPECT_EQ(accuracy["families"].size(), 5U);
  EXPECT_GT(accuracy["model"]["spearman"], accuracy["analytical"]["spearman"]);
  std::string why;
  const auto found = newest_fit_cost_model(*store_, "h100", &why);
  ASSERT_TRUE(found.ok());
  ASSERT_NE(*found, nullptr) << why;
  EXPECT_EQ(encode(**found), stored->bytes);
  EXPECT_EQ(*newest_fit_cost_model(*store_, "a100", &why), nullptr);
  EXPECT_EQ(why, "no cost model was trained for a100");
}

TEST_F(ModelTrainingTest, ModelsThatAreNotFitArePassedOver) {
  const auto nothing_fit = [&](const std::string& because) {
    std::string why;
    const auto found = newest_fit_cost_model(*store_, "h100", &why);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(*found, nullptr);
    EXPECT_THAT(why, HasSubstr(because));
    const auto chosen = choose_cost_model(*store_, "h100", "combined");
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().kind, ErrorKind::not_found);
  };
  // Counts are no times, however good the model.
  costmodel::TrainingSet counts = costmodel::test::all_synthetic();
  counts.unit = "sectors";
  EXPECT_EQ(train(counts).version, 1);
  EXPECT_TRUE(store_->get_model("combined:sectors", "h100", {}).ok());
  nothing_fit("no cost model was trained for h100");
  // One kernel: nothing could be held out, so nobody knows whether it is better.
  train(costmodel::test::synthetic_set({costmodel::test::sized_kernels().front()}));
  nothing_fit("not better than the analytical model");
  // Bytes that say something else than their record, damaged ones, and those of a newer program.
  db::CostModelRecord record = *store_->get_model("combined:sectors", "h100", {});
  record.name = "combined";
  ASSERT_OK(store_->put_model(record));
  nothing_fit("not what its record says");
  record.bytes[record.bytes.size() / 2] ^= 1;
  ASSERT_OK(store_->put_model(record));
  nothing_fit("do not match their checksum");
  record.bytes[8] = 9;
  ASSERT_OK(store_->put_model(record));
  nothing_fit("version 9; this program reads up to 1");
  // One that is fit is found behind them; a newer one that is not does not hide it.
  train(costmodel::test::all_synthetic());
  ASSERT_OK(store_->put_model(record));
  std::string why;
  EXPECT_NE(*newest_fit_cost_model(*store_, "h100", &why), nullptr) << why;
  EXPECT_NE(*choose_cost_model(*store_, "h100", "auto"), nullptr);
  EXPECT_EQ(*choose_cost_model(*store_, "h100", "analytical"), nullptr);
  EXPECT_EQ(choose_cost_model(*store_, "h100", "oracle").error().kind, ErrorKind::invalid_argument);
}

TEST_F(ModelTrainingTest, TheReportHasModelsAndTheAnalyticalModelByFamily) {
  put_samples(0, 120);
  ASSERT_TRUE(train(*samples_of_store(*store_, "h100"), Kind::learned).version == 1);
  const auto report = cost_model_report(*store_);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_THAT((*report)["cost_models"], SizeIs(1));
  EXPECT_EQ((*report)["cost_models"][0]["name"], "learned");
  ASSERT_THAT((*report)["analytical"], SizeIs(1));
  const json& analytical = (*report)["analytical"][0];
  EXPECT_EQ(analytical["device"], "h100");
  EXPECT_EQ(analytical["samples"], 120);
  std::int64_t groups = 0;
  for (const json& family : analytical["families"]) groups += family["quality"]["groups"].get<std::int64_t>();
  EXPECT_EQ(groups, analytical["quality"]["groups"]);
}

// ---- as measurements arrive ---------------------------------------------------------------------------------------

TEST_F(ModelTrainingTest, TrainsWhenMeasurementsHaveGrown) {
  IncrementalOptions options;
  options.least_samples = 40;
  options.growth = 0.5;
  options.training = quick();
  CostModelTrainer trainer(*store_, "h100", clock_, options);
  put_samples(0, 39);
  EXPECT_FALSE(*trainer.is_due());
  EXPECT_EQ(*trainer.train_if_due({}), 0);
  put_samples(39, 41);
  EXPECT_TRUE(*trainer.is_due());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(CostModelTrainer(*store_, "h100", clock_, options).train_if_due(stop.get_token()).error().kind,
            ErrorKind::cancelled);
  ASSERT_EQ(*trainer.train_if_due({}), 1);
  EXPECT_FALSE(*trainer.is_due());
  EXPECT_EQ(*trainer.train_if_due({}), 0);
  put_samples(80, 39);
  EXPECT_FALSE(*trainer.is_due()) << "119 are not half as many again as 80";
  // Another process: what counts is in the store.
  CostModelTrainer next(*store_, "h100", clock_, options);
  EXPECT_FALSE(*next.is_due());
  put_samples(119, 1);
  EXPECT_TRUE(*next.is_due());
  EXPECT_EQ(*next.train_if_due({}), 1);
  EXPECT_EQ(store_->get_model("combined", "h100", {})->version, 2);
}

TEST_F(ModelTrainingTest, WhatCannotBeTrainedOnIsNotLookedAtAgainAtOnce) {
  IncrementalOptions options;
  options.least_samples = 4;
  options.training = quick();
  CostModelTrainer trainer(*store_, "a100", clock_, options);
  put_samples(0, 8);  // of another target
  EXPECT_TRUE(*trainer.is_due());
  EXPECT_EQ(*trainer.train_if_due({}), 0);
  EXPECT_FALSE(*trainer.is_due());
}

// ---- in use -------------------------------------------------------------------------------------------------------

TEST_F(ModelTrainingTest, ATunerPredictsByTheModelThatItIsGiven) {
  const TrainedAndStored trained = train(costmodel::test::all_synthetic());
  RealFileSystem files;
  TunerOptions options;
  options.compiles = false;
  options.cost_model = *choose_cost_model(*store_, "h100", "auto");
  const auto tuner = Tuner::create(options, shared_device(), nullptr, files, clock_);
  ASSERT_TRUE(tuner.ok()) << tuner.error().message;
  EXPECT_EQ((*tuner)->scorer_name(), "combined, trained on " + trained.training.model.training_set.hex().substr(0, 8));
  const costmodel::test::Kernel kernel = costmodel::test::best_of(profiler::test::softmax(2048, 1024));
  const auto scorer = costmodel::CombinedScorer::create(options.cost_model, *find_device("h100"));
  EXPECT_EQ((*tuner)->scorer().predict_us(*kernel.graph, kernel.program),
            (*scorer)->predict_us(*kernel.graph, kernel.program));
  EXPECT_NE((*tuner)->scorer().predict_us(*kernel.graph, kernel.program), kernel.predicted_us);
  options.target = "a100";
  EXPECT_EQ(Tuner::create(options, shared_device(), nullptr, files, clock_).error().kind, ErrorKind::invalid_argument);
  options.cost_model = nullptr;
  EXPECT_EQ((*Tuner::create(options, shared_device(), nullptr, files, clock_))->scorer_name(), "analytical v12");
}

// What a daemon does by itself: a fragment is tuned, the store's measurements have grown, models are trained when there
// is nothing else to do, and the API shows them.
TEST_F(ModelTrainingTest, AServiceTrainsAfterTuningAndShowsItsModels) {
  put_samples(0, 120);
  store_.reset();
  RunningService running(folder_ / "stitch.db", {.work = true, .serve = true});
  const auto submitted = running.service->submit_fragment(samples::softmax(8, 64), "softmax");
  ASSERT_TRUE(submitted.ok()) << submitted.error().message;
  ASSERT_EQ(running.wait_for(submitted->job).state, "done");
  const auto jobs = running.store->list_jobs({{}, std::string(daemon::training_job)}, {});
  ASSERT_TRUE(jobs.ok());
  ASSERT_THAT(jobs->items, SizeIs(1));
  ASSERT_EQ(running.wait_for(jobs->items[0].id).state, "done");
  const json models = json::parse(raw::request(running.socket, "GET", "/v1/cost-models").body);
  ASSERT_THAT(models["items"], SizeIs(1)) << "nothing else is trained by itself";
  EXPECT_EQ(models["items"][0]["name"], "combined");
  EXPECT_EQ(models["items"][0]["accuracy"]["samples"], 120);
  const json report = json::parse(raw::request(running.socket, "GET", "/v1/cost-models/report").body);
  EXPECT_EQ(report["cost_models"], models["items"]);
  EXPECT_EQ(report["analytical"][0]["samples"], 120);
  EXPECT_EQ(raw::request(running.socket, "GET", "/v1/cost-models?limit=3").status, 400);
  // Nothing has grown since: tuning another fragment asks for no training.
  const auto again = running.service->submit_fragment(samples::softmax(8, 72), "softmax");
  ASSERT_EQ(running.wait_for(again->job).state, "done");
  EXPECT_THAT(running.store->list_jobs({{}, std::string(daemon::training_job)}, {})->items, SizeIs(1));
}

// ---- recordings ---------------------------------------------------------------------------------------------------

/// A recording of some candidates with times, as a GPU would have made it.
profiler::Recording recording_of(Result<graph::Graph> graph) {
  const auto form = graph::canonicalise(*graph);
  const costmodel::AnalyticalScorer scorer(*find_device("h100"));
  const auto space = kernel_space(form->graph, form->key, scorer, {40, 16});
  profiler::Recording recording;
  recording.generator = codegen::generator_version();
  recording.target = "h100";
  recording.scorer = "analytical v12";
  recording.device.key = "GPU-7";
  recording.feature_names = costmodel::feature_names();
  profiler::RecordedKernel kernel;
  kernel.key = form->key;
  kernel.name = "softmax";
  kernel.wanted = 40;
  kernel.graph = graph::encode(form->graph, graph::Encoding::cbor);
  for (const search::StitchCandidate& candidate : space->kernel->candidates) {
    codegen::ResourceUsage used;
    used.registers = 40;
    used.shared_bytes = 128;
    const costmodel::CompiledFacts compiled = compiled_facts(used, candidate.program.shared_bytes);
    profiler::RecordedCandidate recorded;
    recorded.schedule = kernel::schedule_hash(candidate.schedule);
    recorded.predicted_us = candidate.predicted_us;
    recorded.median = 2 * candidate.predicted_us;
    recorded.registers = 40;
    recorded.shared_bytes = 128 + candidate.program.shared_bytes;
    recorded.features =
        features_for_record(candidate_row(space->kernel->graph, candidate, *find_device("h100"), &compiled).features);
    kernel.candidates.push_back(std::move(recorded));
  }
  kernel.candidates[1].failure = make_error(ErrorKind::runtime, "it faulted");
  recording.kernels = {std::move(kernel)};
  return recording;
}

TEST(SamplesOfRecording, AreTheSameFromRecordedRowsAndFromGraphs) {
  profiler::Recording recording = recording_of(profiler::test::softmax(64, 512));
  const auto recorded = samples_of_recording(recording);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  ASSERT_THAT(recorded->samples, SizeIs(40));
  EXPECT_TRUE(recorded->samples[1].failed);
  EXPECT_EQ(recorded->samples[2].measured, recording.kernels[0].candidates[2].median);
  EXPECT_EQ(recorded->unit, "us");
  recording.feature_names.clear();
  for (profiler::RecordedCandidate& candidate : recording.kernels[0].candidates) candidate.features.clear();
  const auto counted = samples_of_recording(recording);
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  EXPECT_EQ(costmodel::hash_of(*counted), costmodel::hash_of(*recorded));
}

TEST(SamplesOfRecording, CountsKeepTheirUnitAndFitNothing) {
  profiler::Recording recording = recording_of(profiler::test::softmax(64, 512));
  const auto fit = fit_samples_of(recording);
  ASSERT_TRUE(fit.ok()) << fit.error().message;
  EXPECT_THAT(*fit, SizeIs(39)) << "all but the one that failed";
  recording.kind = profiler::Measurement::Kind::event_count;
  recording.unit = "sectors";
  EXPECT_EQ(samples_of_recording(recording)->unit, "sectors");
  const auto refused = fit_samples_of(recording);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no times"));
}

}  // namespace
}  // namespace stitch::tuning
