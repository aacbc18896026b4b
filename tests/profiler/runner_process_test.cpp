// stitch-runner as a process: what it says without a GPU, and how its parent fares when it hangs, dies or talks
// nonsense. The emulated device stands behind the very protocol that a GPU stands behind.
#include "profiler/runner/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/random.h"
#include "profiler/runner/device.h"
#include "profiler/runner/server.h"
#include "tests/base/rounds.h"
#include "tests/base/test_folder.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/ptx_kernels.h"
#include "tests/profiler/running_device.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

const LaunchShape small = {2, 32, 1, 0, false};  // 64 words

/// User and system time of a process (proc(5), /proc/PID/stat, fields 14 and 15); endless once it is gone.
double processor_seconds(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string field;
  file.ignore(1000, ')');
  for (int i = 3; i < 14; ++i) file >> field;
  double user = 0, system = 0;
  if (!(file >> user >> system)) return std::numeric_limits<double>::infinity();
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

ProcessOutput run_runner(std::vector<std::string> arguments, const std::string& input = "") {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {runner_program};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  auto output = run_process(launcher, options, input, deadline_in(60));
  EXPECT_TRUE(output) << (output ? "" : output.error().message);
  return output ? *std::move(output) : ProcessOutput{};
}

/// Options that start /bin/sh instead, which reads the greeting's frame and then does as it is told.
RunnerOptions shell(const std::string& script) {
  RunnerOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  options.start_seconds = 10;
  return options;
}

std::string start_error(RunnerOptions options) {
  RealProcessLauncher launcher;
  RunnerProcess process(launcher, std::move(options));
  const auto started = process.start();
  EXPECT_FALSE(process.running());
  return error_of(started);
}

TEST(RunnerProgram, TellsItsVersionAndItsDevice) {
  EXPECT_THAT(run_runner({"--version"}).standard_output, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const ProcessOutput probe = run_runner({"--probe", "--device", "emulated"});
  EXPECT_TRUE(probe.status.success());
  EXPECT_THAT(probe.standard_output, HasSubstr("\"kind\":\"emulated\""));
  const ProcessOutput wrong = run_runner({"--device", "tpu:0"});
  EXPECT_EQ(wrong.status.code, 2);
  EXPECT_THAT(wrong.standard_error, HasSubstr("'tpu:0' is neither gpu:N nor emulated"));
}

TEST(RunnerProgram, WithoutADeviceGivesTheReason) {
  const ProcessOutput probe = run_runner({"--probe"});
  if (probe.status.success()) GTEST_SKIP() << "there is a GPU: " << probe.standard_output;
  EXPECT_EQ(probe.status.code, static_cast<int>(ServeEnd::no_device));
  EXPECT_EQ(probe.standard_output, "");
  // Without a driver the loader's words; with one that finds no GPU, the driver's.
  EXPECT_THAT(probe.standard_error, testing::AnyOf(HasSubstr("no CUDA driver on this machine: libcuda.so.1"),
                                                   HasSubstr("cuInit: CUDA_ERROR_"), HasSubstr("no GPU 0")));
  EXPECT_THAT(start_error(runner_options({"--device", "gpu:0"})),
              AllOf(HasSubstr("unavailable: "), testing::AnyOf(HasSubstr("libcuda.so.1"), HasSubstr("cuInit"))));
}

TEST(RunnerProgram, WithALibraryThatIsNoDriverSaysSo) {
  EXPECT_THAT(run_runner({"--probe", "--driver", "libm.so.6"}).standard_error,
              HasSubstr("the CUDA driver libm.so.6 is too old: it has no cuInit"));
}

TEST(RunnerProgram, GarbageIsAnsweredWithWhatIsWrong) {
  const struct {
    std::string input;
    int code;
    const char* message;  ///< null: no reply
  } cases[] = {
      {"", 0, nullptr},
      {"garbage", 4, "a frame of 1651663207 bytes, at most"},
      {std::string("\0\0\0\0", 4), 4, "a frame of no bytes"},
      {std::string("\2\0", 2), 4, "input ended after 2 bytes of a frame's length"},
      {std::string("\5\0\0\0abc", 7), 4, "input ended after 3 of a frame's 5 bytes"},
      {std::string("\3\0\0\0abc", 7), 4, "stitch-runner: message: byte"},
      {*make_frame("\xA0"), 4, "stitch-runner: request 'unnamed': "},
  };
  for (const auto& [input, code, message] : cases) {
    const ProcessOutput output = run_runner({"--device", "emulated"}, input);
    EXPECT_EQ(output.status, (ExitStatus{code, 0})) << output.status.describe();
    if (message == nullptr) {
      EXPECT_EQ(output.standard_output, "");
      continue;
    }
    ASSERT_GT(output.standard_output.size(), frame_prefix_bytes) << message;
    const auto reply = decode_reply(std::string_view(output.standard_output).substr(frame_prefix_bytes));
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_TRUE(std::holds_alternative<Error>(reply->body));
    EXPECT_THAT(std::get<Error>(reply->body).message, HasSubstr(message));
  }
}

TEST(RunnerProcess, ProgramsThatAreNoRunner) {
  RunnerOptions absent = runner_options({});
  absent.program = "/no/such/stitch-runner";
  EXPECT_THAT(start_error(absent), HasSubstr("not_found: cannot start /no/such/stitch-runner"));
  EXPECT_THAT(start_error(shell("echo out of order >&2; exit 7")),
              AllOf(HasSubstr("runtime: stitch-runner (process "),
                    HasSubstr("ended during hello, exit code 7; its last words: out of order")));
  EXPECT_THAT(
      start_error(shell("head -c 8 >&2; printf '\\000\\000\\000\\000'; sleep 60")),
      AllOf(HasSubstr("corrupt: "), HasSubstr("answered hello with no message (a frame of no bytes) and was killed")));
  EXPECT_THAT(start_error(shell("printf '\\003\\000\\000\\000abc'; sleep 60")),
              AllOf(HasSubstr("corrupt: "), HasSubstr("answered hello with no message (message: byte"),
                    HasSubstr("was killed")));
  EXPECT_THAT(start_error(shell("printf '\\377\\377\\377\\377'; sleep 60")), HasSubstr("a frame of 4294967295 bytes"));
  EXPECT_THAT(start_error(shell("printf '\\010\\000\\000\\000ab'; exit 0")),
              HasSubstr("ended during hello, exit code 0"));
  RunnerOptions silent = shell("exec sleep 60");
  silent.start_seconds = 0.3;
  EXPECT_THAT(start_error(silent),
              AllOf(HasSubstr("timeout: "), HasSubstr("gave no answer to hello within 0.3 s and was killed")));
}

TEST(RunnerProcess, ItIsFoundBesideTheProgramOrWhereItIsSaidToBe) {
  EXPECT_EQ(default_runner_program("/opt/runner"), "/opt/runner");
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_EQ(default_runner_program(unset), runner_program);
  }
}

TEST(RunnerProcess, EndsWithItsParent) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {runner_program, "--device", "emulated"};
  auto process = launcher.start(options);
  ASSERT_TRUE(process);
  EXPECT_TRUE((*process)->running());
  (*process)->close_input();
  const auto status = (*process)->wait(deadline_in(30));
  ASSERT_TRUE(status);
  EXPECT_EQ(*status, (ExitStatus{0, 0}));
}

TEST(RunnerProcess, LeavesWhenItIsAskedTo) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {runner_program, "--device", "emulated"};
  auto process = launcher.start(options);
  ASSERT_TRUE(process);
  // It is asked once it serves, with a session open and a buffer in it.
  for (decltype(Request::body) body : std::initializer_list<decltype(Request::body)>{
           OpenRequest{}, AllocateRequest{"x", 256, Zero{}, Access::read_write}}) {
    ASSERT_TRUE((*process)->write(*make_frame(encode(Request{1, 1, std::move(body)})), deadline_in(10)));
    const auto prefix = (*process)->read_exactly(frame_prefix_bytes, deadline_in(30));
    ASSERT_TRUE(prefix);
    const auto reply = decode_reply(*(*process)->read_exactly(*frame_length(*prefix), deadline_in(30)));
    ASSERT_TRUE(reply);
    ASSERT_FALSE(std::holds_alternative<Error>(reply->body)) << std::get<Error>(reply->body).message;
  }
  EXPECT_TRUE((*process)->running());
  ::kill((*process)->id(), SIGTERM);
  const auto status = (*process)->wait(deadline_in(30));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, (ExitStatus{static_cast<int>(ServeEnd::finished), 0})) << status->describe();
}

class RunnerDeviceEmulated : public testing::Test {
 protected:
  static RunnerOptions options() { return runner_options({"--device", "emulated", "--counts"}); }
  RunnerDeviceEmulated() : running_(options()) {}
  void SetUp() override { ASSERT_TRUE(running_.device) << running_.error.message; }

  RunningDevice running_;
};

TEST_F(RunnerDeviceEmulated, RunsKernelsLikeTheDeviceBehindIt) {
  EXPECT_EQ(running_.device->identity().key, "emulated");
  const auto session = *running_.device->timed_session();
  EXPECT_TRUE(session->samples_blocks());
  const auto kernel = session->load(copy_kernel());
  ASSERT_TRUE(kernel) << error_of(kernel);
  const auto from = *session->allocate("from", 256, counting(5), Access::read_only);
  const auto to = *session->allocate("to", 256, Poison{}, Access::read_write);
  const std::vector<LaunchValue> arguments = {from, to};
  const auto whole = session->launch(*kernel, small, arguments, {});
  ASSERT_TRUE(whole) << error_of(whole);
  EXPECT_TRUE(whole->findings.empty());
  EXPECT_EQ(words_of(*session, to), words_of(*session, from));
  ASSERT_EQ(session->written(to).size(), 1U);
  EXPECT_EQ(session->written(to)[0].bytes, 256);
  EXPECT_TRUE(session->written(from).empty());
  const std::vector<std::uint64_t> last = {1};
  const auto part = session->launch(*kernel, small, arguments, last);
  ASSERT_TRUE(part) << error_of(part);
  EXPECT_EQ(part->counters->blocks, 1U);
  EXPECT_EQ(session->written(to)[0].offset, 128);
  EXPECT_EQ(session->written(to)[0].bytes, 128);
  const auto overrun = session->launch(*session->load(overrun_kernel()), small, arguments, {});
  ASSERT_TRUE(overrun) << error_of(overrun);
  ASSERT_FALSE(overrun->findings.empty());
  EXPECT_THAT(overrun->findings[0], HasSubstr("out_of_bounds"));
}

TEST_F(RunnerDeviceEmulated, MeasuringGivesCountsThatAreNoTimes) {
  const auto session = *running_.device->timed_session();
  const auto kernel = *session->load(copy_kernel());
  MeasureTask task;
  for (const char* name : {"first", "second"}) {
    const auto from = *session->allocate(name, 256, Zero{}, Access::read_only);
    const auto to = *session->allocate(name, 256, Zero{}, Access::read_write);
    task.rotations.push_back({PlannedLaunch{kernel, small, {from, to}}});
  }
  const auto measured = session->measure(task);
  ASSERT_TRUE(measured) << error_of(measured);
  EXPECT_EQ(measured->kind, Measurement::Kind::event_count);
  EXPECT_EQ(measured->unit, "sectors");
  EXPECT_EQ(measured->samples, (std::vector<double>{16, 16}));  // 64 words in, 64 out: 8 sectors each
  EXPECT_EQ(measured->rotation, 2);
  task.cuda_graph = true;
  for (auto& steps : task.rotations) {
    const auto& launch = std::get<PlannedLaunch>(steps[0]);
    const auto from = std::get<BufferHandle>(launch.arguments[0]), to = std::get<BufferHandle>(launch.arguments[1]);
    steps = {PlannedCopy{from, to, 96}, launch, launch};
  }
  const auto plan = session->measure(task);
  ASSERT_TRUE(plan) << error_of(plan);
  EXPECT_EQ(plan->samples, (std::vector<double>{38, 38}));
  EXPECT_EQ(plan->launches, 2);

  RunningDevice plain(runner_options({"--device", "emulated"}));
  const auto other = *plain.device->timed_session();
  task.rotations = {{PlannedLaunch{*other->load(copy_kernel()), small, {}}}};
  task.cuda_graph = false;
  EXPECT_THAT(error_of(other->measure(task)), HasSubstr("unsupported: the emulated device has no times"));
  EXPECT_TRUE(plain.quarantine.entries().empty());
}

TEST_F(RunnerDeviceEmulated, ErrorsComeThroughAndHarmNothing) {
  const auto session = *running_.device->timed_session();
  const auto buffer = *session->allocate("x", 16, Zero{}, Access::read_write);
  std::array<std::byte, 8> bytes{};
  EXPECT_THAT(error_of(session->read(buffer, 12, bytes)), HasSubstr("\"x\" (16 bytes)"));
  EXPECT_THAT(error_of(session->load({"k", "not PTX", "", ""})), HasSubstr("parse"));
  EXPECT_THAT(error_of(session->launch(KernelHandle{3}, small, {}, {})), HasSubstr("kernel handle 3 is not loaded"));
  EXPECT_THAT(error_of(session->launch(*session->load(copy_kernel()), {1, 4096, 1, 0, false}, {}, {})),
              HasSubstr("constraint: 4096 threads"));
  EXPECT_THAT(error_of(session->allocate("p", 16, Poison{}, Access::read_only)), HasSubstr("invalid_argument"));
  EXPECT_TRUE(session->free(buffer));
  EXPECT_THAT(error_of(session->free(buffer)), HasSubstr("is not allocated"));
  EXPECT_EQ(running_.device->generation(), 1);
  EXPECT_TRUE(running_.quarantine.entries().empty());
}

TEST_F(RunnerDeviceEmulated, LargeBuffersTravelInParts) {
  const auto session = *running_.device->timed_session();
  const std::int64_t bytes = most_data_bytes + 1000;
  const auto buffer = session->allocate("large", bytes, counting(1), Access::read_only);
  ASSERT_TRUE(buffer) << error_of(buffer);
  const auto words = words_of(*session, *buffer);
  EXPECT_EQ(words.front(), 1U);
  EXPECT_EQ(words.back(), words.size());
  // Values that the runner can make itself do not travel at all.
  const InputSource source({graph::DType::f32, {bytes / 4}}, Distribution::mixed, 3, std::nullopt);
  const auto made = *session->allocate("made", bytes, source.filler(), Access::read_only);
  std::vector<std::byte> there(4096), here(4096);
  ASSERT_TRUE(session->read(made, bytes - 4096, there));
  source(static_cast<std::uint64_t>(bytes - 4096), here);
  EXPECT_EQ(there, here);
}

TEST_F(RunnerDeviceEmulated, VerificationWorksUnchanged) {
  const KernelCase each = make_case(softmax(64, 256));
  const auto verify_on = [&](const KernelCase& kernel) {
    return verify_kernel(*running_.device, *kernel.graph, kernel.program, kernel.kernel, compile(kernel.kernel), {});
  };
  const auto right = verify_on(each);
  ASSERT_TRUE(right) << error_of(right);
  EXPECT_TRUE(right->correct) << right->failure;
  EmulatedDevice here;
  const auto direct = verify_kernel(here, *each.graph, each.program, each.kernel, compile(each.kernel), {});
  ASSERT_TRUE(direct);
  EXPECT_EQ(right->compared, direct->compared);
  EXPECT_EQ(right->worst, direct->worst);
  EXPECT_EQ(right->counters, direct->counters);
  const auto wrong = verify_on(mutated(each, "exponential(", "2.0f + exponential("));
  ASSERT_TRUE(wrong) << error_of(wrong);
  EXPECT_FALSE(wrong->correct);
}

// ---- runners that end

class RunnerLossEmulated : public testing::Test {
 protected:
  static RunnerOptions waiting(double seconds) {
    RunnerOptions options = runner_options({"--device", "emulated"});
    options.launch_seconds = seconds;
    return options;
  }
  RunnerLossEmulated() : running_(std::make_unique<RunningDevice>(waiting(3), path_)) {}
  void SetUp() override { ASSERT_TRUE(running_->device) << running_->error.message; }

  static Result<LaunchResult> launch(Session& session, const KernelImage& image, const LaunchShape& shape = small) {
    STITCH_ASSIGN(const auto kernel, session.load(image));
    STITCH_ASSIGN(const auto from, session.allocate("from", 256, counting(0), Access::read_only));
    STITCH_ASSIGN(const auto to, session.allocate("to", 256, Poison{}, Access::read_write));
    return session.launch(kernel, shape, std::vector<LaunchValue>{from, to}, {});
  }

  const TestFolder folder_;
  const std::filesystem::path path_ = folder_ / "quarantine.json";
  std::unique_ptr<RunningDevice> running_;
};

TEST_F(RunnerLossEmulated, AKernelThatHangsIsKilledQuarantinedAndRefused) {
  const auto session = *running_->device->timed_session();
  const int first = running_->device->runner_id();
  const auto hung = launch(*session, endless_kernel());
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().kind, ErrorKind::timeout);
  EXPECT_THAT(hung.error().message, AllOf(HasSubstr("kernel endless (2 x 32 threads): stitch-runner (process "),
                                          HasSubstr("gave no answer to launch within 3 s and was killed")));
  EXPECT_EQ(::kill(first, 0), -1);  // gone and reaped
  EXPECT_EQ(running_->device->runner_id(), 0);
  // The session went with its runner, and says so however often it is asked.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(
        error_of(session->allocate("x", 16, Zero{}, Access::read_write)),
        AllOf(HasSubstr("unavailable: this session was lost with its runner"), HasSubstr("no answer to launch")));
  }
  // The next one has a runner again; the kernel is refused without being run, others are not.
  const auto next = *running_->device->timed_session();
  EXPECT_EQ(running_->device->generation(), 2);
  EXPECT_THAT(error_of(session->free({0, 16, 0})), HasSubstr("this session was lost"));
  const auto again = launch(*next, endless_kernel());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::runtime);
  EXPECT_THAT(again.error().message,
              AllOf(HasSubstr("kernel endless (2 x 32 threads) is quarantined on emulated since "),
                    HasSubstr("gave no answer to launch")));
  EXPECT_TRUE(launch(*next, copy_kernel())) << "others run";
  EXPECT_EQ(running_->device->generation(), 2);

  // A new process of the parent's would know it too.
  RunningDevice later(waiting(3), path_);
  ASSERT_TRUE(later.device) << later.error.message;
  EXPECT_THAT(error_of(launch(**later.device->timed_session(), endless_kernel())), HasSubstr("is quarantined"));
  ASSERT_TRUE(later.quarantine.clear());
  EXPECT_THAT(error_of(launch(**later.device->timed_session(), endless_kernel())), HasSubstr("timeout: "));
}

TEST_F(RunnerLossEmulated, ARunnerThatIsKilledInTheMiddleOfALaunchIsReplaced) {
  RunningDevice running(waiting(300));
  ASSERT_TRUE(running.device) << running.error.message;
  const auto session = *running.device->timed_session();
  const int runner = running.device->runner_id();
  std::thread killer([runner] {
    // Nothing that comes before a launch takes a second of processor time.
    while (processor_seconds(runner) < 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(runner, SIGKILL);
  });
  const auto died = launch(*session, endless_kernel());
  killer.join();
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().kind, ErrorKind::runtime);
  EXPECT_THAT(died.error().message, AllOf(HasSubstr("kernel endless (2 x 32 threads): stitch-runner (process "),
                                          HasSubstr("ended during launch, signal 9 (Killed)")));
  const auto entries = running.quarantine.entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].device, "emulated");
  EXPECT_TRUE(launch(**running.device->timed_session(), copy_kernel()));
}

TEST_F(RunnerLossEmulated, ARunnerThatIsKilledBetweenRequestsCostsItsSessionsOnly) {
  const auto session = *running_->device->timed_session();
  ASSERT_TRUE(launch(*session, copy_kernel()));
  ::kill(running_->device->runner_id(), SIGKILL);
  const auto lost = session->allocate("x", 16, Zero{}, Access::read_write);
  EXPECT_THAT(error_of(lost), AllOf(HasSubstr("runtime: stitch-runner"), HasSubstr("signal 9 (Killed)")));
  EXPECT_TRUE(running_->quarantine.entries().empty());  // no kernel was running
  const auto next = *running_->device->timed_session();
  EXPECT_TRUE(launch(*next, copy_kernel()));
  ::kill(running_->device->runner_id(), SIGKILL);
  EXPECT_TRUE(running_->device->timed_session()) << "a dead runner is noticed before it is used";
}

// What it serves it finishes first, so that no kernel is blamed for an end that somebody asked for.
TEST_F(RunnerLossEmulated, ARunnerThatIsAskedToEndFinishesTheLaunch) {
  RunnerOptions bounded = waiting(300);
  bounded.arguments.insert(bounded.arguments.end(), {"--instruction-budget", "2000000"});
  RunningDevice running(bounded);
  ASSERT_TRUE(running.device) << running.error.message;
  const auto session = *running.device->timed_session();
  const int runner = running.device->runner_id();
  std::atomic<bool> over = false;
  bool asked = false;
  std::thread asker([&] {
    // Nothing that comes before the launch takes a third of a second of processor time, and the launch takes more.
    while (!over && processor_seconds(runner) < 0.3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    asked = !over && ::kill(runner, SIGTERM) == 0;
  });
  const auto given_up = launch(*session, endless_kernel());
  over = true;
  asker.join();
  ASSERT_TRUE(asked) << "the launch was over before anybody could ask";
  EXPECT_THAT(error_of(given_up), AllOf(HasSubstr("timeout: "), HasSubstr("2000000"))) << "the emulator's own words";
  // Then it is gone, whatever is asked next: of a kernel, too, which has not run.
  const auto lost = launch(*session, copy_kernel());
  EXPECT_THAT(error_of(lost), AllOf(HasSubstr("unavailable: stitch-runner (process "), HasSubstr("exit code 0")));
  EXPECT_TRUE(session->is_gone());
  EXPECT_TRUE(running.quarantine.entries().empty());
  const auto next = *running.device->timed_session();
  EXPECT_FALSE(next->is_gone());
  EXPECT_TRUE(launch(*next, copy_kernel()));
  EXPECT_EQ(running.device->generation(), 2);
}

TEST_F(RunnerLossEmulated, ARunnerThatIsAskedToEndAtAnyMomentHasNoKernelBlamed) {
  const int times = rounds(20);
  int while_working = 0;
  Random random(3);
  for (int round = 0; round < times; ++round) {
    SCOPED_TRACE(round);
    const auto session = running_->device->timed_session();
    ASSERT_TRUE(session) << session.error().message;
    const auto delay = std::chrono::microseconds(random.below(8000));
    std::thread asker([runner = running_->device->runner_id(), delay] {
      std::this_thread::sleep_for(delay);
      ::kill(runner, SIGTERM);
    });
    Status status;
    for (int i = 0; i < 1000 && status; ++i) {
      if (const auto launched = launch(**session, copy_kernel()); !launched) status = launched.error();
    }
    asker.join();
    if (!status) {
      ++while_working;
      EXPECT_EQ(status.error().kind, ErrorKind::unavailable) << status.error().message;
    }
    const auto next = running_->device->timed_session();
    ASSERT_TRUE(next) << next.error().message;
    ASSERT_TRUE(launch(**next, copy_kernel()));
  }
  EXPECT_GT(while_working, times / 10) << "nearly all runners had nothing to do when they were asked";
  EXPECT_TRUE(running_->quarantine.entries().empty());
}

// A GPU's memory is shared with whoever else works on it.
TEST(RunnerDriverEmulated, ItTakesNoMoreMemoryThanItMay) {
  const std::string driver = STITCH_BINARY_DIR "/lib/emulated/libcuda.so.1";
  if (!std::filesystem::exists(driver)) GTEST_SKIP() << "built without the emulated driver";
  RunningDevice running(
      runner_options({"--device", "gpu:0", "--driver", driver, "--most-memory", std::to_string(1'000'000)}));
  ASSERT_TRUE(running.device) << running.error.message;
  const auto session = *running.device->timed_session();
  const auto first = session->allocate("first", 500'000, Zero{}, Access::read_write);
  ASSERT_TRUE(first) << error_of(first);
  // Each with its two red zones of 64 KiB.
  EXPECT_EQ(error_of(session->allocate("second", 500'000, Zero{}, Access::read_write)),
            "resource_exhausted: buffer 'second' of 500000 bytes: 631072 bytes are wanted, and the runner may take "
            "1000000 (STITCH_RUNNER_MEMORY), of which 631072 are in use");
  {
    const auto other = *running.device->timed_session();
    EXPECT_TRUE(other->allocate("third", 200'000, Zero{}, Access::read_write));
    EXPECT_THAT(error_of(other->allocate("fourth", 200'000, Zero{}, Access::read_write)),
                HasSubstr("962144 are in use"));
  }
  ASSERT_TRUE(session->free(*first));
  EXPECT_TRUE(session->allocate("second", 500'000, Zero{}, Access::read_write)) << "sessions give back what they took";
  EXPECT_EQ(running.device->generation(), 1);
}

/// Of the same work under another content, so that a kernel that was under way when its runner died stands for itself.
KernelImage numbered_copy_kernel(int number) {
  KernelImage image = copy_kernel();
  image.ptx += fmt::format("// {}\n", number);
  return image;
}

TEST_F(RunnerLossEmulated, ARunnerThatIsKilledAtAnyMomentIsReplaced) {
  const int kills = rounds(10);
  int while_working = 0;
  Random random(2);
  for (int round = 0; round < kills; ++round) {
    SCOPED_TRACE(round);
    const auto session = running_->device->timed_session();
    ASSERT_TRUE(session) << session.error().message;
    const auto delay = std::chrono::microseconds(random.below(8000));
    std::thread killer([runner = running_->device->runner_id(), delay] {
      std::this_thread::sleep_for(delay);
      ::kill(runner, SIGKILL);
    });
    Status status;
    for (int i = 0; i < 64 && status; ++i) {
      if (const auto launched = launch(**session, numbered_copy_kernel(2 * round)); !launched)
        status = launched.error();
    }
    killer.join();
    if (!status) {
      ++while_working;
      EXPECT_THAT(status.error().message, HasSubstr("stitch-runner (process "));
      EXPECT_THAT(status.error().message, HasSubstr("signal 9 (Killed)"));
    }
    const auto next = running_->device->timed_session();
    ASSERT_TRUE(next) << next.error().message;
    ASSERT_TRUE(launch(**next, numbered_copy_kernel(2 * round + 1)));
  }
  EXPECT_GT(while_working, kills / 10) << "nearly all runners had nothing to do when they were killed";
  std::printf("%d kills of runners, %d while they worked, %zu kernels quarantined\n", kills, while_working,
              running_->quarantine.entries().size());
}

TEST_F(RunnerLossEmulated, AnEmulatorThatGivesUpByItselfLosesNothing) {
  RunnerOptions bounded = runner_options({"--device", "emulated", "--instruction-budget", "100000"});
  RunningDevice running(bounded);
  ASSERT_TRUE(running.device) << running.error.message;
  const auto session = *running.device->timed_session();
  EXPECT_THAT(error_of(launch(*session, endless_kernel())), HasSubstr("timeout: "));
  EXPECT_TRUE(running.quarantine.entries().empty());
  EXPECT_EQ(running.device->generation(), 1);
  EXPECT_TRUE(launch(*session, copy_kernel()));
}

// Nobody is left to kill it: a kernel that hangs must not keep a device that no parent has.
TEST_F(RunnerLossEmulated, ARunnerThatHangsEndsWithItsParent) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {runner_program, "--device", "emulated"};
  auto process = launcher.start(options);
  ASSERT_TRUE(process);
  const auto send = [&](decltype(Request::body) body) {
    return (*process)->write(*make_frame(encode(Request{1, 1, std::move(body)})), deadline_in(10));
  };
  ASSERT_TRUE(send(OpenRequest{}));
  ASSERT_TRUE(send(LoadRequest{endless_kernel()}));
  ASSERT_TRUE(send(AllocateRequest{"to", 256, Zero{}, Access::read_write}));
  for (int i = 0; i < 3; ++i) {
    const auto prefix = (*process)->read_exactly(frame_prefix_bytes, deadline_in(30));
    ASSERT_TRUE(prefix);
    const auto reply = decode_reply(*(*process)->read_exactly(*frame_length(*prefix), deadline_in(30)));
    ASSERT_TRUE(reply);
    ASSERT_FALSE(std::holds_alternative<Error>(reply->body)) << std::get<Error>(reply->body).message;
    if (const auto* to = std::get_if<AllocatedReply>(&reply->body)) {
      ASSERT_TRUE(send(LaunchRequest{{{0}, small, {to->buffer, to->buffer}}, {}}));
    }
  }
  (*process)->close_input();
  const auto status = (*process)->wait(deadline_in(30));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, (ExitStatus{static_cast<int>(ServeEnd::broken), 0}));
}

TEST_F(RunnerLossEmulated, SessionsOfSeveralThreadsShareOneRunner) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto session = running_->device->timed_session();
        if (session && launch(**session, copy_kernel())) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
  EXPECT_EQ(running_->device->generation(), 1);
}

}  // namespace
}  // namespace stitch::profiler::test
