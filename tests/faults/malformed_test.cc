// Malformed bytes, on the gRPC port and as messages: the director rejects them, stays up, does not
// flood its log, and does not log the bytes.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/running_server.h"
#include "tests/crash/director_process.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/http2_bytes.h"

namespace callboard::faults {
namespace {

using crash::QueueClient;
using test::HttpConnection;
using ::testing::HasSubstr;
using ::testing::Not;

// Part of everything that is sent, so that a test finds it wherever it appears.
constexpr char kSecret[] = "squeamish-ossifrage";
// For many more bad requests.
constexpr ptrdiff_t kLogLinesMax = 100;

// A length-delimited field of a message. REQUIRES: `value` has less than 128 bytes.
std::string Field(int number, const std::string& value) {
  return absl::StrCat(BigEndian(static_cast<uint64_t>(number << 3 | 2), 1),
                      BigEndian(value.size(), 1), value);
}

class MalformedTest : public testing::Test {
 protected:
  static std::string Noise(test::FakeRandom& random, size_t size) {
    std::string bytes;
    while (bytes.size() < size) bytes.push_back(static_cast<char>(random.Below(256)));
    return bytes;
  }

  // Sends the bytes to the gRPC port and closes the connection.
  void SendRaw(const std::string& bytes) {
    HttpConnection connection(test::PortOf(director_.address()));
    connection.Send(bytes);
  }

  // Calls the method with these bytes as its message; returns the status code.
  grpc::StatusCode CallWith(const std::string& method, const std::string& bytes) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_seconds(30, GPR_TIMESPAN));
    grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> ended;
    stub_.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                    [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
    const grpc::Status status = ended.get_future().get();
    EXPECT_THAT(status.error_message(), Not(HasSubstr(kSecret)));
    return status.error_code();
  }

  // Checks that a normal submit works.
  crash::CheckResult Submit() {
    QueueClient client(director_.address());
    const crash::History history = {crash::Resubmit({.request_id = "well", .content = "text"},
                                                    client, [this] { return ++tick_; })};
    EXPECT_EQ(history.back().answer, crash::Call::Answer::kDone);
    return crash::CheckHistory(history, *client.FindAll());
  }

  // The log is short and contains nothing of the malformed input.
  void TearDown() override {
    const std::string log = director_.process().Output();
    EXPECT_LE(std::count(log.begin(), log.end(), '\n'), kLogLinesMax) << log.substr(0, 4000);
    EXPECT_THAT(log, Not(HasSubstr(kSecret)));
  }

  crash::DirectorProcess director_{test::NewFolder(), {"--log.level=debug"}};
  grpc::GenericStub stub_{
      grpc::CreateChannel(director_.address(), grpc::InsecureChannelCredentials())};
  uint64_t tick_ = 0;
};

TEST_F(MalformedTest, InvalidHttp2EndsOnlyItsConnection) {
  test::FakeRandom random;
  const std::string call = BeginCall(1) + OnlyMessage(1, Field(1, kSecret));
  for (int round = 0; round < 50; ++round) {
    const std::vector<std::string> cases = {
        kSecret,
        Noise(random, 1 + random.Below(3000)),
        absl::StrCat("POST ", kSubmitPath, " HTTP/1.1\r\nHost: a\r\n\r\n", kSecret),
        // The beginning of a TLS handshake.
        absl::StrCat(BigEndian(0x160301, 3), BigEndian(512, 2), Noise(random, 512)),
        std::string(kPreface).substr(0, random.Below(20)),
        absl::StrCat(kPreface, Noise(random, 500)),
        // Frames of an unknown kind, of 16 MiB that never arrive, for a call that never began, and
        // for a call with an even number.
        Hello() + Frame(FrameType{0x77}, 0, 0, kSecret),
        Hello() + BigEndian(0xffffff, 3) + std::string(6, '\0') + kSecret,
        Hello() + OnlyMessage(7, kSecret),
        Hello() + BeginCall(2),
        // Headers with invalid table indexes.
        Hello() + Frame(FrameType::kHeaders, kEndHeaders, 1, std::string(20, '\xff')),
        // A call that breaks off, one that claims to be compressed, or one with a message of 2 GiB.
        Hello() + call.substr(0, random.Below(call.size())),
        Hello() + BeginCall(1) + Frame(FrameType::kData, kEndStream, 1, BigEndian(0x0100000001, 6)),
        Hello() + BeginCall(1) + Frame(FrameType::kData, kEndStream, 1, BigEndian(0x7fffffff, 5)),
    };
    for (const std::string& bytes : cases) SendRaw(bytes);
  }
  EXPECT_TRUE(Submit().ok());
}

TEST_F(MalformedTest, UnknownMethodsAreRejected) {
  for (const char* path : {"/", "/callboard.v1.QueueService/", "/callboard.v1.QueueService/Nothing",
                           "/nothing.v1.Nowhere/Nothing", "//", "/%00"}) {
    EXPECT_EQ(CallWith(path, kSecret), grpc::StatusCode::UNIMPLEMENTED) << path;
  }
  for (const std::pair<std::string, std::string>& changed : Headers{
           {":path", ""}, {":method", "GET"}, {"content-type", "text/html"}, {"te", "nothing"}}) {
    Headers headers = HeadersOf(kSubmitPath);
    for (auto& [name, value] : headers) {
      if (name == changed.first) value = changed.second;
    }
    SendRaw(Hello() + Frame(FrameType::kHeaders, kEndHeaders, 1, HeaderBlock(headers)) +
            OnlyMessage(1, ""));
  }
  EXPECT_TRUE(Submit().ok());
}

TEST_F(MalformedTest, EveryMethodRejectsMalformedMessages) {
  test::FakeRandom random;
  std::string nested = Field(1, "");
  while (nested.size() < 100) nested = Field(1, nested);
  // Groups, which need no length, nested ten thousand times.
  const std::string groups(10'000, '\x0b');
  std::map<grpc::StatusCode, int> ends;
  for (const auto* service : {v1::SubmitTaskRequest::descriptor()->file()->service(0),
                              v1::AnnounceAgentRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i) {
      // An unreadable request ends a request stream.
      if (service->method(i)->client_streaming()) continue;
      const std::string method =
          absl::StrCat("/", service->full_name(), "/", service->method(i)->name());
      const std::string cut = Field(1, std::string(100, 'x')).substr(0, 50);
      for (const std::string& bytes :
           {cut, groups, nested + "\xff", std::string("\x0a\xff\xff\xff\xff\x07", 6) + kSecret,
            absl::StrCat(Field(1, "\xff\xfe not UTF-8 "), "\xff"),
            absl::StrCat(Noise(random, 200), kSecret, "\xff")}) {
        ++ends[CallWith(method, bytes)];
      }
    }
  }
  EXPECT_EQ(ends.count(grpc::StatusCode::OK), 0u);
  EXPECT_GT(ends.size(), 0u);
  EXPECT_TRUE(Submit().ok());
}

TEST_F(MalformedTest, UnknownValuesAreRejectedByName) {
  v1::SubmitTaskRequest request;
  request.set_prompt(kSecret);
  request.set_policy(static_cast<v1::QueuePolicy>(77));
  EXPECT_EQ(CallWith(kSubmitPath, request.SerializeAsString()), grpc::StatusCode::INVALID_ARGUMENT);
  // An invalid text: strings must be UTF-8.
  EXPECT_NE(CallWith(kSubmitPath, Field(1, absl::StrCat("\xff\xfe", kSecret))),
            grpc::StatusCode::OK);
  // A field of a newer version is no error: it is ignored.
  const std::string unknown = absl::StrCat(BigEndian(0xfa7f, 2), BigEndian(3, 1), "new");
  request.clear_policy();
  request.set_validate_only(true);
  EXPECT_EQ(CallWith(kSubmitPath, request.SerializeAsString() + unknown), grpc::StatusCode::OK);
  EXPECT_TRUE(Submit().ok());
}

}  // namespace
}  // namespace callboard::faults
