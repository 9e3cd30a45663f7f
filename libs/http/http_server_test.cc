#include "libs/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/http_client.h"
#include "libs/testing/status_matchers.h"

namespace callboard::http {
namespace {

using test::HttpAnswer;
using test::HttpConnection;
using test::HttpGet;
using test::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGetEcho[] = "GET /echo?a=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n";

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    RouteMap routes;
    routes["/echo"] = [](const Request& request, const ResponseCallback& respond) {
      respond({.content_type = "text/plain", .body = request.query});
    };
    routes["/held"] = [this](const Request&, ResponseCallback respond) {
      held_.set_value(std::move(respond));
    };
    routes["/never"] = [](const Request&, const ResponseCallback&) {};
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(options, routes);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::promise<ResponseCallback> held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestsOfAConnectionAreAnsweredInOrder) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send(absl::StrCat(kGetEcho, kGetEcho));
  for (int i = 0; i < 2; ++i) {
    const std::string response = connection.ReadResponse();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, testing::EndsWith("\r\n\r\na=1"));
  }
}

TEST_F(HttpServerTest, HandlerMayAnswerLaterFromAnotherThread) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const ResponseCallback respond = held_.get_future().get();
  std::thread([respond] {
    respond({.body = "late"});
    respond({.body = "second answers are dropped"});
  }).join();
  EXPECT_THAT(connection.ReadResponse(), HasSubstr("late"));
}

TEST_F(HttpServerTest, AnswerAfterShutdownIsDropped) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const ResponseCallback respond = held_.get_future().get();
  server_.reset();
  respond({.body = "dropped"});
  EXPECT_EQ(connection.ReadResponse(), "");
}

TEST_F(HttpServerTest, UnansweredRequestIs503) {
  Start({.handler_timeout = absl::Milliseconds(1)});
  EXPECT_EQ(HttpGet(server_->port(), "/never").status, 503);
}

TEST_F(HttpServerTest, UnknownPathIs404AndUnsupportedMethodIs405) {
  Start();
  const HttpAnswer missing = HttpGet(server_->port(), "/nowhere\"");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "{\"error\":\"no such path: /nowhere\\\"\"}\n");
  HttpConnection connection(server_->port());
  connection.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(), HasSubstr("Allow: GET, HEAD"));
}

TEST_F(HttpServerTest, HeadReturnsTheLengthWithoutABody) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send("HEAD /echo?abc HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(/*has_body=*/false), HasSubstr("Content-Length: 3\r\n"));
  connection.Send(kGetEcho);
  EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, ForeignHostNameOnLoopbackIs421) {
  Start();
  HttpConnection connection(server_->port());
  connection.Send("GET /echo HTTP/1.1\r\nHost: attacker.example:8080\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 421"));
  connection.Send("GET /echo HTTP/1.1\r\nHost: localhost:8080@attacker.example\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 421"));
  connection.Send("GET /echo HTTP/1.1\r\nHost: 127.0.0.1:x@attacker.example:8080\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 421"));
  connection.Send("GET /echo HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, InvalidRequestGetsAnErrorAndIsClosed) {
  Start({.header_bytes_max = 1024, .body_bytes_max = 10});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {absl::StrCat("GET / HTTP/1.1\r\nX: ", std::string(4096, 'x'), "\r\n\r\n"), "431"},
      {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n", "413"},
      {"NONSENSE\r\n\r\n", "400"},
      {"GET /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", "400"},
      {"GET /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", "400"},
  };
  for (const auto& [bytes, status] : cases) {
    HttpConnection connection(server_->port());
    connection.Send(bytes);
    EXPECT_THAT(connection.ReadResponse(), StartsWith("HTTP/1.1 " + status));
    EXPECT_EQ(connection.ReadResponse(), "");
  }
}

TEST_F(HttpServerTest, LongestIdleConnectionIsClosedForANewOne) {
  Start({.connections_max = 2});
  HttpConnection first(server_->port());
  HttpConnection second(server_->port());
  // Both are connected, and `first` started its wait last.
  for (HttpConnection* const connection : {&second, &first}) {
    connection->Send(kGetEcho);
    EXPECT_THAT(connection->ReadResponse(), StartsWith("HTTP/1.1 200"));
  }
  HttpConnection third(server_->port());
  third.Send(kGetEcho);
  EXPECT_THAT(third.ReadResponse(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(second.ReadResponse(), "");
  first.Send(kGetEcho);
  EXPECT_THAT(first.ReadResponse(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, NewConnectionIsClosedWhenNoneIsIdle) {
  Start({.connections_max = 1});
  HttpConnection first(server_->port());
  first.Send("GET /held HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const ResponseCallback respond = held_.get_future().get();
  HttpConnection second(server_->port());
  second.Send(kGetEcho);
  EXPECT_EQ(second.ReadResponse(), "");
  respond({.body = "{}"});
  EXPECT_THAT(first.ReadResponse(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ConnectionBeyondTheDescriptorShareIsClosed) {
  Start({.descriptors_max = 0});
  HttpConnection connection(server_->port());
  connection.Send(kGetEcho);
  EXPECT_EQ(connection.ReadResponse(), "");
}

TEST_F(HttpServerTest, SilentClientIsClosedAfterTheTimeout) {
  Start({.io_timeout = absl::Milliseconds(1)});
  HttpConnection connection(server_->port());
  EXPECT_EQ(connection.ReadResponse(), "");
}

TEST_F(HttpServerTest, PortInUseIsAnErrorThatNamesTheAddress) {
  Start();
  const auto second = HttpServer::Start({.port = server_->port()}, {});
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr(absl::StrCat("127.0.0.1:", server_->port()))));
}

TEST(LoopbackTest, OnlyLoopbackAddressesMatch) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "[::]", "10.0.0.1", "127.0.0.1.example.com",
                           "localhost.example.com", "128.0.0.1", "0127.0.0.1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace callboard::http
