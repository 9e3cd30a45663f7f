#include "services/cli/task_commands.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Writer = grpc::ServerWriter<v1::TailTaskLogsResponse>;

v1::LogChunk Chunk(uint64_t dispatch, uint64_t number, const std::string& data,
                   v1::LogChunk::Stream stream = v1::LogChunk::STREAM_STDOUT) {
  v1::LogChunk chunk;
  chunk.set_dispatch(dispatch);
  chunk.set_number(number);
  chunk.set_stream(stream);
  chunk.set_data(data);
  return chunk;
}

// A fake director that answers TailTaskLogs calls with scripted answers.
class ScriptedLogs final : public v1::QueueService::Service {
 public:
  // The answer to one call.
  struct Answer {
    std::vector<v1::LogChunk> chunks = {};
    absl::Status end = absl::OkStatus();
  };

  explicit ScriptedLogs(std::vector<Answer> answers) : answers_(std::move(answers)) {}

  std::string address() const { return running_.address(); }
  // Returns the requests as `queue_id dispatch/after_number`.
  std::vector<std::string> Requests() {
    base::MutexLock lock(mutex_);
    return requests_;
  }

 private:
  grpc::Status TailTaskLogs(grpc::ServerContext*, const v1::TailTaskLogsRequest* request,
                            Writer* writer) override {
    Answer answer;
    {
      base::MutexLock lock(mutex_);
      CHECK(requests_.size() < answers_.size()) << "too many calls";
      answer = answers_[requests_.size()];
      requests_.push_back(absl::StrCat(request->queue_id(), " ", request->dispatch(), "/",
                                       request->after_number(),
                                       request->follow() ? " follow" : ""));
    }
    v1::TailTaskLogsResponse response;
    for (const v1::LogChunk& chunk : answer.chunks) *response.add_chunks() = chunk;
    if (!answer.chunks.empty()) writer->Write(response);
    return wire::ToGrpc(answer.end);
  }

  const std::vector<Answer> answers_;
  base::Mutex mutex_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  const test::RunningService running_{{this}};
};

class LogsTest : public testing::Test {
 protected:
  ~LogsTest() override {
    std::fclose(out_);
    std::fclose(err_);
  }

  absl::Status Show(const std::string& address, const LogArguments& arguments,
                    config::v1::CliConfig::Output output = config::v1::CliConfig::OUTPUT_TABLE) {
    config::v1::CliConfig config;
    config.mutable_director()->set_address(address);
    *config.mutable_timeout() = wire::ToProto(absl::Seconds(30));
    config.set_output(output);
    return ShowLogs(config, arguments, out_, err_);
  }
  static std::string TextOf(std::FILE* file) {
    std::rewind(file);
    std::string text(1 << 16, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    return text;
  }

  std::FILE* const out_ = std::tmpfile();
  std::FILE* const err_ = std::tmpfile();
};

TEST_F(LogsTest, OutputGoesToTheStreamOfTheTask) {
  ScriptedLogs director(
      {{.chunks = {Chunk(1, 1, "to out\n"), Chunk(1, 2, "to err\n", v1::LogChunk::STREAM_STDERR),
                   Chunk(1, 3, std::string("\0\xff", 2))}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1"}), IsOk());
  EXPECT_EQ(TextOf(out_), std::string("to out\n\0\xff", 9));
  EXPECT_EQ(TextOf(err_), "to err\n");
  EXPECT_THAT(director.Requests(), ElementsAre("queue-1 0/0"));
}

TEST_F(LogsTest, ControlCharactersAreEscapedOnATerminal) {
  // The last character arrives in two chunks.
  ScriptedLogs director(
      {{.chunks = {Chunk(1, 1, "a\tb\x1b[2J\xc2\x9b\xff \xe2\x82"), Chunk(1, 2, "\xac\n")}}});
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only this thread calls it
  std::FILE* const out = std::fopen(ptsname(terminal), "w");
  ASSERT_NE(out, nullptr);
  config::v1::CliConfig config;
  config.mutable_director()->set_address(director.address());
  *config.mutable_timeout() = wire::ToProto(absl::Seconds(30));
  EXPECT_THAT(ShowLogs(config, {.queue_id = "queue-1"}, out, err_), IsOk());
  char shown[256];
  const ssize_t bytes = read(terminal, shown, sizeof(shown));
  ASSERT_GT(bytes, 0);
  EXPECT_THAT(std::string(shown, static_cast<size_t>(bytes)),
              HasSubstr("b\\u001b[2J\\u009b\\xff €"));
  std::fclose(out);
  close(terminal);
}

TEST_F(LogsTest, DroppedOutputIsReportedOnStandardError) {
  v1::LogChunk chunk = Chunk(1, 9, "the end\n");
  chunk.set_dropped_bytes(1234);
  ScriptedLogs director({{.chunks = {Chunk(1, 1, "the beginning\n"), chunk}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1"}), IsOk());
  EXPECT_EQ(TextOf(out_), "the beginning\nthe end\n");
  EXPECT_EQ(TextOf(err_), "... 1234 bytes dropped ...\n");
}

TEST_F(LogsTest, EarlierDispatchIsRequestedByItsNumber) {
  ScriptedLogs director({{.chunks = {Chunk(2, 1, "x")}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1", .dispatch = 2}), IsOk());
  EXPECT_THAT(director.Requests(), ElementsAre("queue-1 2/0"));
}

TEST_F(LogsTest, EachChunkIsAJsonDocument) {
  ScriptedLogs director(
      {{.chunks = {Chunk(1, 1, "a"), Chunk(1, 2, "b", v1::LogChunk::STREAM_STDERR)}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1"}, config::v1::CliConfig::OUTPUT_JSON),
              IsOk());
  EXPECT_EQ(TextOf(out_),
            "{\"dispatch\":1,\"number\":1,\"stream\":\"stdout\",\"data\":\"YQ==\",\"at\":null,"
            "\"dropped_bytes\":0}\n"
            "{\"dispatch\":1,\"number\":2,\"stream\":\"stderr\",\"data\":\"Yg==\",\"at\":null,"
            "\"dropped_bytes\":0}\n");
  EXPECT_EQ(TextOf(err_), "");
}

TEST_F(LogsTest, FollowResumesAfterTheLastChunk) {
  ScriptedLogs director(
      {{.chunks = {Chunk(1, 1, "one "), Chunk(1, 2, "two ")}, .end = absl::UnavailableError("")},
       {.chunks = {Chunk(1, 3, "three "), Chunk(2, 1, "again ")},
        .end = absl::UnavailableError("")},
       {.chunks = {Chunk(2, 2, "done")}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1", .follow = true}), IsOk());
  EXPECT_EQ(TextOf(out_), "one two three again done");
  EXPECT_EQ(TextOf(err_), "") << "a quick reconnect is not reported";
  EXPECT_THAT(director.Requests(),
              ElementsAre("queue-1 0/0 follow", "queue-1 1/2 follow", "queue-1 2/1 follow"));
}

TEST_F(LogsTest, DisconnectIsReportedOnceUntilThereIsOutput) {
  const ScriptedLogs::Answer broken = {.end = absl::UnavailableError("")};
  ScriptedLogs director(
      {{.chunks = {Chunk(1, 1, "x")}, .end = broken.end}, broken, {.chunks = {Chunk(1, 2, "y")}}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1", .follow = true}), IsOk());
  EXPECT_EQ(TextOf(err_), absl::StrCat("callboard: lost the director at ", director.address(),
                                       "; waiting for it\n"));
}

TEST_F(LogsTest, DisconnectWithoutFollowIsAnError) {
  ScriptedLogs director({{.chunks = {Chunk(1, 1, "x")}, .end = absl::UnavailableError("torn")}});
  EXPECT_THAT(Show(director.address(), {.queue_id = "queue-1"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("torn")));
}

TEST_F(LogsTest, PermanentErrorEndsFollow) {
  ScriptedLogs director({{.end = absl::NotFoundError("no such task")}});
  const absl::Status status = Show(director.address(), {.queue_id = "queue-1", .follow = true});
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotFound) << status;
}

TEST_F(LogsTest, UnreachableDirectorIsAnError) {
  const absl::Status status = Show("127.0.0.1:1", {.queue_id = "queue-1", .follow = true});
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreachable) << status;
}

TEST_F(LogsTest, WriteFailureEndsFollow) {
  // Less than a stdio buffer, and a multiple of it, which leaves nothing to flush.
  for (const size_t bytes : {1, 8192}) {
    ScriptedLogs director(
        {{.chunks = {Chunk(1, 1, std::string(bytes, 'x'))}, .end = absl::UnavailableError("")}});
    std::FILE* const full = std::fopen("/dev/full", "w");
    config::v1::CliConfig config;
    config.mutable_director()->set_address(director.address());
    *config.mutable_timeout() = wire::ToProto(absl::Seconds(30));
    EXPECT_THAT(ShowLogs(config, {.queue_id = "queue-1", .follow = true}, full, err_),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("standard output")));
    std::fclose(full);
  }
}

}  // namespace
}  // namespace callboard::cli
