#include "libs/server/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::server {
namespace {

using test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ListenAddressTest, LoopbackAddressesRoundTrip) {
  for (const char* text : {"127.0.0.1:7070", "localhost:0", "[::1]:65535", "127.9.9.9:1"}) {
    const auto address = ParseListenAddress("grpc.listen", text, Exposure::kLoopbackOnly);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(ListenAddressTest, PublicAddressIsAnErrorThatListsTheChoices) {
  for (const char* text : {"0.0.0.0:7070", "[::]:7070", "10.0.0.1:7070"}) {
    EXPECT_THAT(ParseListenAddress("grpc.listen", text, Exposure::kLoopbackOnly),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(text), HasSubstr("--grpc.listen=127.0.0.1:7070"),
                               HasSubstr("--insecure_listen"))));
    EXPECT_TRUE(ParseListenAddress("grpc.listen", text, Exposure::kInsecureAllowed).ok());
  }
}

TEST(ListenAddressTest, InvalidAddressIsAnError) {
  for (const char* text : {"", "7070", ":7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "::1:7070", "example.com:7070", "127.0.0.1:http"}) {
    EXPECT_THAT(ParseListenAddress("grpc.listen", text, Exposure::kInsecureAllowed),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("grpc.listen")))
        << text;
  }
}

TEST(ListenAddressTest, ErrorsQuoteAtMost128BytesWithoutEscapeSequences) {
  // A port may have zeros in front.
  const std::string open = "10.0.0.1:" + std::string(1000, '0') + "7070";
  const auto error_of = [](const std::string& text, Exposure exposure) {
    return ParseListenAddress("grpc.listen", text, exposure).status();
  };
  for (const Exposure exposure : {Exposure::kLoopbackOnly, Exposure::kNever}) {
    EXPECT_THAT(error_of(open, exposure), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   Not(HasSubstr(std::string(129, '0')))));
  }
  EXPECT_THAT(error_of("\x1b[2J" + std::string(1000, 'x'), Exposure::kLoopbackOnly),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr(std::string(129, 'x'))))));
}

}  // namespace
}  // namespace callboard::server
