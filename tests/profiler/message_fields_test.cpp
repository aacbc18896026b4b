// Every field of every request and reply of the runner's protocol goes over and comes back.
#include "profiler/runner/message_fields.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/graph/filled_record.h"

namespace stitch::graph {

/// For the filler: any graph with one result.
static void fill_value(Graph& call, int number) {
  Builder builder;
  call = *builder.finish({builder.unary(Op::exp, builder.parameter(DType::f32, {number}))});
}

}  // namespace stitch::graph

namespace stitch::profiler {

// What is written as something else, for the filler.

static void fill_value(Access& access, int) { access = Access::read_only; }
static void fill_value(LaunchValue& value, int number) {
  value = number % 2 == 0 ? LaunchValue(std::int64_t{number}) : LaunchValue(BufferHandle{number, 8, 16});
}
static void fill_value(Poison& poison, int number) { poison.pattern = static_cast<std::byte>(number); }
static void fill_value(Zero&, int) {}
static void fill_value(Distribution& distribution, int) { distribution = Distribution::offset; }
static void fill_value(InputSource::Range& range, int number) { range = {number, number + 1}; }
static void fill_value(FlatRanges& ranges, int number) { ranges.numbers = {number, 1, number + 8, 2}; }
static void fill_value(MeasureOptions& options, int number) { options.stopping.max_samples = number; }
static void fill_value(DeviceIdentity& identity, int number) {
  identity = {"GPU-1", "gpu", "H100", "sm_90a", "580", number, 85899345920};
}
static void fill_value(Measurement& measurement, int number) { measurement.samples = {1.5, 2.0 + number}; }

namespace {

template <class Message, std::size_t... I>
std::vector<Message> one_of_each(std::index_sequence<I...>) {
  std::vector<Message> all;
  const auto add = [&](auto body) {
    Message message;
    message.id = std::ssize(all) + 1;
    message.body = std::move(body);
    all.push_back(std::move(message));
  };
  (add(graph::filled<std::variant_alternative_t<I, decltype(Message::body)>>()), ...);
  return all;
}

TEST(RunnerMessageFields, EveryFieldOfEveryRequestComesBack) {
  for (Request& request :
       one_of_each<Request>(std::make_index_sequence<std::variant_size_v<decltype(Request::body)>>())) {
    if (auto* allocate = std::get_if<AllocateRequest>(&request.body))
      allocate->fill = std::string(allocate->bytes, 'x');
    if (auto* launch = std::get_if<LaunchRequest>(&request.body)) launch->launch.shape = {6, 32, 2, 64, true};
    if (auto* measure = std::get_if<MeasureRequest>(&request.body)) {
      auto launch = graph::filled<PlannedLaunch>();
      launch.shape = {6, 32, 2, 64, true};
      measure->task.rotations = {
          {PlanStep(launch), PlanStep(graph::filled<PlannedCopy>()), PlanStep(graph::filled<PlannedCall>())}};
    }
    const std::string bytes = encode(request);
    const auto back = decode_request(bytes);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(encode(*back), bytes) << name_of(request);
  }
}

TEST(RunnerMessageFields, EveryFieldOfEveryReplyComesBack) {
  for (const Reply& reply :
       one_of_each<Reply>(std::make_index_sequence<std::variant_size_v<decltype(Reply::body)>>())) {
    const std::string bytes = encode(reply);
    const auto back = decode_reply(bytes);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(encode(*back), bytes) << reply.body.index();
  }
}

TEST(RunnerMessageFields, EveryFillComesBack) {
  for (int number = 0; number < 4; ++number) {
    int from = number;
    SentFill fill;
    graph::Filler::fill_record(fill, from);
    const auto document = graph::fields::document_of(fill);
    SentFill back;
    ASSERT_TRUE(graph::fields::read_document(document, back)) << document;
    EXPECT_EQ(back.index(), fill.index());
    EXPECT_EQ(graph::fields::document_of(back), document);
  }
}

}  // namespace
}  // namespace stitch::profiler
