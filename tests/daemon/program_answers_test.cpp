// Programs' answers beside a real database: right after any commit, within their bounds, from many threads.
#include "daemon/jobs/program_answers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/db/sample_records.h"

namespace stitch::daemon {
namespace {

namespace samples = db::samples;

class ProgramAnswersTest : public testing::Test {
 protected:
  void SetUp() override {
    put_model();
    ASSERT_TRUE(store_->put_fragment(fragment_).ok());
  }
  void put_model(std::string_view document = "a program") {
    db::Workload workload;
    workload.key = model_;
    workload.format = "onnx";
    workload.provenance = samples::provenance();
    ASSERT_TRUE(store_->put_workload(workload).ok());
    db::ProgramRecord program;
    program.model = model_;
    program.id = hash_bytes(document);
    program.device = "h100";
    program.document = document;
    program.provenance = samples::provenance();
    ASSERT_TRUE(store_->put_program(program).ok());
  }
  /// Another plan is served of the fragment.
  void promote(int number) {
    const db::PlanBundle bundle = samples::bundle(fragment_, number);
    ASSERT_TRUE(store_->put_plan(bundle, db::Admission::replace).ok());
  }
  [[nodiscard]] std::unique_ptr<db::Store> open() const {
    db::SqliteOptions options;
    options.path = folder_ / "stitch.db";
    auto opened = db::open_sqlite_store(options, clock_);
    EXPECT_TRUE(opened.ok()) << (opened ? "" : opened.error().message);
    return *std::move(opened);
  }
  static ProgramAnswer answer(const std::string& body) {
    return {std::make_shared<const std::string>(body), sha256(body).hex()};
  }
  ProgramQuestion question(bool with_code = false) const {
    return {model_, with_code ? api::CodeInside::all : api::CodeInside::none, graph::Encoding::cbor};
  }
  void keep(ProgramAnswers& answers, const ProgramQuestion& asked, const std::string& body) const {
    answers.keep(asked, store_->version(), {{fragment_.key, samples::target()}}, answer(body));
  }
  void keep(ProgramAnswers& answers, const std::optional<db::StoreVersion>& begun, const std::string& body) const {
    answers.keep(question(), begun, {{fragment_.key, samples::target()}}, answer(body));
  }

  const TestFolder folder_;
  const SystemClock clock_;
  const std::unique_ptr<db::Store> store_ = open();
  const Sha256 model_ = sha256("a model file");
  const db::FragmentRecord fragment_ = samples::fragment(1);
};

TEST_F(ProgramAnswersTest, AnAnswerIsGoneWithWhatItTellsOf) {
  ProgramAnswers answers(*store_, "h100");
  EXPECT_FALSE(answers.find(question()));
  keep(answers, question(), "one");
  ASSERT_TRUE(answers.find(question()));
  EXPECT_EQ(*answers.find(question())->body, "one");
  EXPECT_FALSE(answers.find(question(true))) << "another question";

  const auto other = open();
  ASSERT_TRUE(other->put_device(samples::gpu()).ok());
  EXPECT_TRUE(answers.find(question())) << "nothing of it is another";
  promote(1);
  EXPECT_FALSE(answers.find(question())) << "a plan is served";
  keep(answers, question(), "two");
  EXPECT_EQ(*answers.find(question())->body, "two");
  put_model("a program of later");
  EXPECT_FALSE(answers.find(question())) << "another program";
  EXPECT_EQ(answers.counts().stale, 2);
  EXPECT_EQ(answers.counts().answers, 0);
  EXPECT_EQ(answers.counts().bytes, 0);
}

TEST_F(ProgramAnswersTest, WhatChangedWhileItWasMadeIsNotKept) {
  ProgramAnswers answers(*store_, "h100");
  const auto begun = store_->version();
  promote(1);
  keep(answers, begun, "made of what was before");
  EXPECT_FALSE(answers.find(question()));
}

TEST_F(ProgramAnswersTest, MemoryIsBounded) {
  ProgramAnswers answers(*store_, "h100", {.most_bytes = 100, .largest_bytes = 60});
  keep(answers, question(), std::string(61, 'x'));
  EXPECT_FALSE(answers.find(question())) << "too large";
  keep(answers, question(false), std::string(60, 'a'));
  keep(answers, question(true), std::string(50, 'b'));
  EXPECT_FALSE(answers.find(question(false))) << "made room";
  EXPECT_TRUE(answers.find(question(true)));
  EXPECT_EQ(answers.counts().bytes, 50);
}

TEST_F(ProgramAnswersTest, ManyThreadsNeverSeeAnAnswerOfBefore) {
  ProgramAnswers answers(*store_, "h100");
  std::atomic<int> promoted = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const int before = promoted;
        if (const auto found = answers.find(question())) {
          EXPECT_GE(std::stoi(*found->body), before);
        } else {
          const auto begun = store_->version();
          const auto served = store_->served_plan({fragment_.key, samples::target()});
          if (served && *served) keep(answers, begun, std::to_string(std::lround((*served)->predicted_us - 10.5)));
        }
      }
    });
  }
  for (int i = 1; i <= 50; ++i) {
    promote(i);
    promoted = i;
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace stitch::daemon
