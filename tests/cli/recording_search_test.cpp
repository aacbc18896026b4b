#include "lab/spaces/recording_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"
#include "costmodel/kernel_features.h"
#include "graph/builder.h"
#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "tests/cli/run_stitch.h"

// Searching the schedules of recorded kernels. No GPU has been recorded, so the kernels here are made up.
namespace stitch::cli {
namespace {

using namespace lab;

using nlohmann::json;
using profiler::RecordedCandidate;
using profiler::RecordedKernel;
using profiler::Recording;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

void set(RecordedCandidate& candidate, std::string_view column, double value) {
  static const std::vector<std::string> names = costmodel::feature_names();
  const auto at = std::ranges::find(names, column);
  ASSERT_NE(at, names.end()) << column;
  candidate.features[at - names.begin()] = value;
}

/// 400 candidates. Wide loads are fast, and so are many bytes in flight, but not both; of that the predictions know
/// nothing, and they err by up to a tenth besides. Every sixteenth fails.
RecordedKernel made_up(std::string name) {
  RecordedKernel kernel;
  kernel.key = {1, hash_bytes(name).low};
  kernel.name = std::move(name);
  Random random(7);
  for (const double threads : {64, 128, 256, 512, 1024}) {
    for (const double width : {2, 4, 8, 16}) {
      for (const double flight : {16, 32, 64, 128}) {
        for (const double waves : {1, 2, 3, 5, 9}) {
          RecordedCandidate& candidate = kernel.candidates.emplace_back();
          candidate.schedule = {2, kernel.candidates.size()};
          candidate.features.assign(costmodel::feature_names().size(), 0);
          for (const costmodel::FeatureColumn& column : costmodel::feature_columns()) {
            if (column.compiled) set(candidate, column.name, -1);
          }
          set(candidate, "threads", threads), set(candidate, "load_width", width);
          set(candidate, "bytes_in_flight_thread", flight), set(candidate, "waves", waves);
          const double side = std::log2(threads / 256), wide = std::log2(16 / width), few = std::log2(128 / flight);
          const double alone = 0.1 * side * side + 0.25 * wide + 0.2 * few + 0.15 * std::log2(waves);
          const double together = wide + few - 3;
          candidate.predicted_us = 10 * std::exp2(alone) * (1 + 0.1 * random.uniform());
          if (kernel.candidates.size() % 16 == 3) {
            candidate.failure = make_error(ErrorKind::compile, "too many registers");
          } else {
            candidate.median = 12 * std::exp2(alone + 0.3 * together * together);
            candidate.samples = {candidate.median};
          }
        }
      }
    }
  }
  kernel.legal = kernel.wanted = static_cast<std::int64_t>(kernel.candidates.size());
  return kernel;
}

Recording recorded(std::vector<RecordedKernel> kernels) {
  Recording recording;
  recording.scorer = "analytical v12";
  recording.device.name = "made-up GPU";
  recording.feature_names = costmodel::feature_names();
  recording.kernels = std::move(kernels);
  return recording;
}

SpaceSearchOptions with_seeds(int seeds) {
  SpaceSearchOptions options;
  options.seeds = seeds;
  return options;
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "fine" : fmt::format("{}: {}", to_string(result.error().kind), result.error().message);
}

std::vector<std::vector<double>> curves_of(const RecordingSearchReport& report) {
  std::vector<std::vector<double>> curves;
  for (const KernelReplay& kernel : report.kernels) {
    for (const SpaceSearchRun& run : kernel.search.runs) curves.push_back(run.curve);
  }
  return curves;
}

TEST(RecordingSearch, DescribesSchedulesByWhatIsKnownBeforeCompilation) {
  const Recording plain = recorded({made_up("softmax")});
  Recording compiled = plain;
  double number = 0;
  for (RecordedCandidate& candidate : compiled.kernels[0].candidates) {
    number += 1;
    set(candidate, "registers", std::fmod(37 * number, 255));
    set(candidate, "sass_stall_share", 1 / number);
    set(candidate, "sm_count", number);
  }
  const auto one = recorded_candidates(plain, plain.kernels[0]);
  const auto two = recorded_candidates(compiled, compiled.kernels[0]);
  ASSERT_TRUE(one && two);
  const auto &features = one->recorded.space.features().list, &same = two->recorded.space.features().list;
  ASSERT_EQ(features.size(), 4U) << "threads, load_width, bytes_in_flight_thread, waves";
  ASSERT_EQ(same.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(features[i].values, same[i].values) << i;
  EXPECT_EQ(curves_of(*search_recording(plain, {}, with_seeds(2))),
            curves_of(*search_recording(compiled, {}, with_seeds(2))));
}

TEST(RecordingSearch, SizesAreComparedByLogarithmAndSharesAreNot) {
  Recording recording = recorded({made_up("softmax")});
  recording.kernels[0].candidates.resize(3);
  const struct {
    const char* column;
    std::array<double, 3> values;
    float middle;
  } cases[] = {
      {"elements", {1, 63, 2047}, 0.5F}, {"last_wave", {0.25, 0.5, 1}, 1.0F / 3}, {"sweeps", {1, 2, 5}, 0.25F}};
  for (const auto& each : cases) {
    for (std::size_t i = 0; i < 3; ++i) {
      RecordedCandidate& candidate = recording.kernels[0].candidates[i];
      candidate.failure.reset(), candidate.median = 1;
      candidate.features.assign(candidate.features.size(), 0);
      set(candidate, each.column, each.values[i]);
    }
    const auto space = recorded_candidates(recording, recording.kernels[0]);
    ASSERT_TRUE(space) << error_of(space);
    ASSERT_EQ(space->recorded.space.features().list.size(), 1U) << each.column;
    EXPECT_NEAR(space->recorded.space.features().list[0].values[1], each.middle, 1e-6) << each.column;
  }
}

TEST(RecordingSearch, TakesOverFailuresTimesAndPredictions) {
  const Recording recording = recorded({made_up("softmax")});
  const auto space = recorded_candidates(recording, recording.kernels[0]);
  ASSERT_TRUE(space) << error_of(space);
  EXPECT_EQ(space->recorded.device, "made-up GPU");
  EXPECT_EQ(space->recorded.kernel, "softmax");
  EXPECT_EQ(space->recorded.failures(), 25U);
  ASSERT_EQ(space->recorded.trials.size(), 400U);
  ASSERT_EQ(space->predicted.log_time.size(), 400U);
  EXPECT_THAT(space->predicted.failed, AllOf(testing::SizeIs(400), Each(0))) << "what fails was not predicted";
  for (std::size_t i = 0; i < 400; ++i) {
    const RecordedCandidate& candidate = recording.kernels[0].candidates[i];
    const RecordedTrial& trial = space->recorded.trials[i];
    EXPECT_EQ(trial.failure, i % 16 == 2 ? std::optional(ErrorKind::compile) : std::nullopt) << i;
    EXPECT_EQ(trial.time_us, candidate.median) << i;
    EXPECT_FLOAT_EQ(space->predicted.log_time[i], static_cast<float>(std::log(candidate.predicted_us))) << i;
  }
}

TEST(RecordingSearch, SaysWhyAKernelCannotBeSearched) {
  const struct {
    std::function<void(RecordedKernel&)> change;
    const char* message;
  } cases[] = {
      {[](RecordedKernel& k) { k.candidates[16].features.clear(); },
       "candidate 00000000000000020000000000000011 was recorded without its features"},
      {[](RecordedKernel& k) { k.candidates.resize(1); }, "1 recorded candidates"},
      {[](RecordedKernel& k) { k.candidates.clear(); }, "0 recorded candidates"},
      {[](RecordedKernel& k) { std::erase_if(k.candidates, [](const auto& c) { return !c.failure; }); },
       "no candidate is right"},
      {[](RecordedKernel& k) { k.candidates[0].predicted_us = std::nan(""); },
       "candidate 00000000000000020000000000000001 is predicted at nan"},
      {[](RecordedKernel& k) { k.candidates[1].median = 0; },
       "candidate 00000000000000020000000000000002 is recorded at 0"},
      {[](RecordedKernel& k) { set(k.candidates[5], "waves", std::numeric_limits<double>::infinity()); },
       "candidate 5 has a feature that is not finite"},
  };
  for (const auto& each : cases) {
    Recording recording = recorded({made_up("softmax")});
    each.change(recording.kernels[0]);
    EXPECT_EQ(error_of(recorded_candidates(recording, recording.kernels[0])),
              fmt::format("invalid_argument: {}", each.message));
    EXPECT_EQ(error_of(search_recording(recording, {}, {})),
              fmt::format("invalid_argument: softmax: {}", each.message));
  }
  EXPECT_EQ(error_of(search_recording(recorded({}), {}, {})), "invalid_argument: no kernel is recorded");
}

TEST(RecordingSearch, FindsWhatTheOrderOfPredictionsDoesNot) {
  const Recording recording = recorded({made_up("softmax")});
  const auto report = search_recording(recording, {}, with_seeds(60));
  ASSERT_TRUE(report) << error_of(report);
  const KernelReplay& kernel = report->kernels.at(0);
  EXPECT_EQ(kernel.search.budget, 20U);
  EXPECT_GE(kernel.search.mean(), 0.99);
  EXPECT_GE(std::ranges::count_if(kernel.search.runs, [](const auto& run) { return run.found() >= 0.99; }), 55);
  ASSERT_EQ(kernel.by_prediction.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(kernel.by_prediction));
  EXPECT_LT(kernel.by_prediction.back(), 0.95);
  EXPECT_EQ(trials_to(kernel.by_prediction, 0.99), std::nullopt);
  for (const SpaceSearchRun& run : kernel.search.runs) {
    EXPECT_EQ(run.curve[0], kernel.by_prediction[0]) << "both begin with the best prediction";
  }
}

TEST(RecordingSearch, ANeighbourCorrectsThePredictions) {
  const Recording recording = recorded({made_up("softmax")});
  Recording elsewhere = recording;
  elsewhere.device.key = "GPU-other";
  for (RecordedCandidate& candidate : elsewhere.kernels[0].candidates) candidate.median *= 3;
  const auto alone = search_recording(recording, {}, with_seeds(4));
  const auto near = search_recording(recording, {.neighbour = &elsewhere}, with_seeds(4));
  ASSERT_TRUE(near) << error_of(near);
  EXPECT_EQ(near->kernels[0].transferred, 375U) << "those that did not fail";
  EXPECT_LT(alone->kernels[0].search.runs[0].curve[0], 0.9);
  for (const SpaceSearchRun& run : near->kernels[0].search.runs) EXPECT_GE(run.curve[0], 0.95) << "the first trial";
  EXPECT_EQ(near->kernels[0].by_prediction, alone->kernels[0].by_prediction);
  // The same kernel on the same device is what is to be found out; a kernel of another key and no graph is a stranger.
  elsewhere.device.key = recording.device.key;
  EXPECT_EQ(search_recording(recording, {.neighbour = &elsewhere}, with_seeds(1))->kernels[0].transferred, 0U);
  elsewhere.device.key = "GPU-other", elsewhere.kernels[0].key = {5, 6};
  const auto stranger = search_recording(recording, {.neighbour = &elsewhere}, with_seeds(4));
  EXPECT_EQ(stranger->kernels[0].transferred, 0U);
  EXPECT_EQ(curves_of(*stranger), curves_of(*alone));
  elsewhere.feature_names.back() = "another";
  EXPECT_EQ(error_of(search_recording(recording, {.neighbour = &elsewhere}, {})),
            "invalid_argument: the neighbour was recorded with other features");
}

TEST(RecordingSearch, OtherShapesOfTheSameFileAreNeighbours) {
  const auto graph_of = [](std::int64_t rows) {
    graph::Builder builder("sum");
    const graph::Value x = builder.parameter(graph::DType::f32, {rows, 640}, "x");
    return graph::canonicalise(*builder.finish({builder.reduce(graph::ReduceKind::sum, x, {1})}));
  };
  Recording recording = recorded({made_up("small"), made_up("large"), made_up("stranger")});
  for (std::size_t i = 0; i < 2; ++i) {
    const auto form = graph_of(i == 0 ? 64 : 512);
    recording.kernels[i].key = form->key;
    recording.kernels[i].graph = graph::encode(form->graph, graph::Encoding::cbor);
  }
  const auto report = search_recording(recording, {.neighbour = &recording}, with_seeds(1));
  ASSERT_TRUE(report) << error_of(report);
  EXPECT_EQ(report->kernels[0].transferred, 375U);
  EXPECT_EQ(report->kernels[1].transferred, 375U);
  EXPECT_EQ(report->kernels[2].transferred, 0U);
  EXPECT_THAT(to_table(*report), HasSubstr("small (375 trials of neighbours)\n"));
}

TEST(RecordingSearch, OrderOfPredictionsCountsFailuresAsTrials) {
  Recording recording = recorded({made_up("softmax")});
  RecordedKernel& kernel = recording.kernels[0];
  kernel.candidates.resize(3);
  const std::array<double, 3> predicted = {3, 1, 2}, median = {10, 0, 40};
  for (std::size_t i = 0; i < 3; ++i) {
    RecordedCandidate& candidate = kernel.candidates[i];
    candidate.predicted_us = predicted[i], candidate.median = median[i];
    candidate.failure = i == 1 ? std::optional(make_error(ErrorKind::timeout, "")) : std::nullopt;
  }
  const auto report = search_recording(recording, {}, {});
  ASSERT_TRUE(report) << error_of(report);
  EXPECT_THAT(report->kernels[0].by_prediction, testing::ElementsAre(0, 0.25, 1));
  EXPECT_EQ(trials_to(report->kernels[0].by_prediction, 0.99), 3U);
}

TEST(RecordingSearch, CandidatesThatLookAlikeAreSearchedByPredictionAlone) {
  Recording recording = recorded({made_up("softmax")});
  for (RecordedCandidate& candidate : recording.kernels[0].candidates) candidate.features.assign(97, 1);
  recording.feature_names.assign(97, "a column that this program does not have");
  for (const bool predictions : {true, false}) {
    const auto report = search_recording(recording, {.predictions = predictions}, with_seeds(2));
    ASSERT_TRUE(report) << error_of(report);
    EXPECT_GT(report->kernels[0].search.worst(), 0.5) << predictions;
  }
}

TEST(RecordingSearch, PassesOverKernelsThatCannotBeSearched) {
  Recording recording = recorded({made_up("sum"), made_up("softmax"), made_up("norm")});
  recording.kernels[0].candidates[3].features.clear();
  const auto report = search_recording(recording, {}, with_seeds(1));
  ASSERT_TRUE(report) << error_of(report);
  EXPECT_EQ(report->searched(), 2U);
  ASSERT_EQ(report->kernels.size(), 3U);
  EXPECT_THAT(report->kernels[0].skipped, HasSubstr("without its features"));
  EXPECT_TRUE(report->kernels[0].search.runs.empty());
  EXPECT_EQ(report->kernels[1].skipped, "");
  EXPECT_EQ(report->kernels[2].search.runs.size(), 1U);
}

/// The program, on a file of two kernels, one of which has no candidate that is right.
class SearchOfRecording : public testing::Test {
 protected:
  SearchOfRecording() {
    recording.kernels[1].candidates.resize(2);
    for (RecordedCandidate& candidate : recording.kernels[1].candidates) {
      candidate.median = 0, candidate.samples.clear();
      candidate.failure = make_error(ErrorKind::runtime, "illegal address");
    }
    write();
  }
  void write() {
    RealFileSystem files;
    ASSERT_TRUE(profiler::write_recording(files, file, recording));
  }
  [[nodiscard]] Outcome search(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"search", file});
    return stitch(std::move(options));
  }

  Folder folder;
  std::string file = folder.at("made-up.rec");
  Recording recording = recorded({made_up("softmax"), made_up("broken")});
};

TEST_F(SearchOfRecording, IsOneObject) {
  const Outcome outcome = search({"--seeds", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json report = outcome.json();
  EXPECT_EQ(report["device"], "made-up GPU");
  EXPECT_EQ(report["unit"], "us");
  EXPECT_EQ(report["scorer"], "analytical v12");
  EXPECT_EQ(report["searched"], 1);
  ASSERT_EQ(report["kernels"].size(), 2U);
  const json &kernel = report["kernels"][0], &broken = report["kernels"][1];
  EXPECT_EQ(kernel["name"], "softmax");
  EXPECT_EQ(kernel["key"], recording.kernels[0].key.hex());
  EXPECT_FALSE(kernel.contains("skipped"));
  EXPECT_EQ(kernel["search"]["configurations"], 400);
  EXPECT_EQ(kernel["search"]["failures"], 25);
  EXPECT_EQ(kernel["search"]["budget"], 20);
  EXPECT_EQ(kernel["search"]["runs"].size(), 3U);
  EXPECT_GE(kernel["search"]["worst"].get<double>(), 0.99);
  EXPECT_EQ(kernel["by_prediction"]["curve"].size(), 20U);
  EXPECT_EQ(kernel["by_prediction"]["curve"].back(), kernel["by_prediction"]["found"]);
  EXPECT_LT(kernel["by_prediction"]["found"], kernel["search"]["worst"]);
  EXPECT_EQ(broken["skipped"], "no candidate is right");
  EXPECT_FALSE(broken.contains("search"));
}

TEST_F(SearchOfRecording, IsATable) {
  const Outcome outcome = search({"--seeds", "3"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1 of 2 kernels recorded on made-up GPU, in us; predictions by analytical v12"),
                    HasSubstr("       400     20  "), HasSubstr("  softmax\n"),
                    HasSubstr("broken: not searched: no candidate is right"), HasSubstr("in the order of the pred")));
}

TEST_F(SearchOfRecording, BlindKnowsNoPredictions) {
  const json seeing = search({"--json"}).json()["kernels"][0],
             blind = search({"--json", "--blind"}).json()["kernels"][0];
  EXPECT_NE(seeing["search"]["curve"], blind["search"]["curve"]);
  EXPECT_EQ(seeing["by_prediction"], blind["by_prediction"]) << "for comparison";
  // Of wrong predictions nothing is left.
  for (RecordedCandidate& candidate : recording.kernels[0].candidates) candidate.predicted_us = 1;
  write();
  EXPECT_EQ(search({"--json", "--blind"}).json()["kernels"][0]["search"]["curve"], blind["search"]["curve"]);
}

TEST_F(SearchOfRecording, RefusesWhatMakesNoSense) {
  const std::string space = STITCH_SOURCE_DIR "/bench/spaces/convolution_a100.json.gz";
  Outcome outcome = search({"--transfer", space});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr(space)) << "no recording";
  outcome = search({"--transfer", file, "--blind"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("--blind and --transfer"));
  outcome = stitch({"search", space, "--blind"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--blind is for recordings"), HasSubstr(space)));
  outcome = stitch({"search", space, "--transfer", file});
  EXPECT_EQ(outcome.code, 3) << "a recording is no neighbour";
  EXPECT_THAT(outcome.err, HasSubstr(file));

  const std::string whole = read_file(file);
  for (const std::size_t size : {std::size_t{7}, std::size_t{8}, std::size_t{40}, whole.size() / 2, whole.size() - 1}) {
    const std::string cut = folder.write("cut.rec", std::string_view(whole).substr(0, size));
    outcome = stitch({"search", cut, "--json"});
    EXPECT_EQ(outcome.code, 3) << size;
    EXPECT_THAT(outcome.json()["error"]["message"].get<std::string>(), HasSubstr("cut.rec: ")) << size;
  }
}

TEST_F(SearchOfRecording, NoKernelThatCanBeSearchedIsAnError) {
  recording.kernels.erase(recording.kernels.begin());
  write();
  const Outcome outcome = search();
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr(file + ": broken: no candidate is right"));
}

TEST_F(SearchOfRecording, NamesNeedNotBeUtf8) {
  recording.kernels[0].name = "soft\xffmax";
  write();
  EXPECT_EQ(search({"--json"}).json()["kernels"][0]["name"], "soft\xEF\xBF\xBDmax");
}

}  // namespace
}  // namespace stitch::cli
