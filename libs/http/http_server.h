// The HTTP server of every program, and the test for loopback addresses.

#ifndef CALLBOARD_LIBS_HTTP_HTTP_SERVER_H_
#define CALLBOARD_LIBS_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::http {

struct Request {
  std::string path;
  // The part of the target after the question mark.
  std::string query;
  // The Accept header, or empty.
  std::string accept;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

// Returns a response with the body {"error":"`message`"}, which all errors have.
Response ErrorResponse(int status, absl::string_view message);

// Sends the response of a request. May be called on any thread. Only the first call counts, and
// none after the client has disconnected.
using ResponseCallback = std::function<void(Response)>;

// Handles a request. Runs on the server's thread and must not block: a slow handler returns and
// responds later.
using Handler = std::function<void(const Request&, ResponseCallback)>;

// Handlers by path.
using RouteMap = std::map<std::string, Handler, std::less<>>;

struct HttpServerOptions {
  // An IP address, or localhost.
  std::string host = "127.0.0.1";
  // 0 chooses a free port.
  uint16_t port = 0;
  // Open connections. For one more, the server closes the connection that has waited longest for a
  // request, so that idle clients cannot keep others out. If no connection waits for a request, the
  // server closes the new one.
  size_t connections_max = 512;
  // The same happens for a connection whose descriptor is not below this: the process needs the
  // remaining descriptors for other things.
  int descriptors_max = 1 << 20;
  size_t header_bytes_max = 16 * 1024;
  size_t body_bytes_max = 4 * 1024 * 1024;
  // The time for a client to send a whole request or to read a whole response, and the longest idle
  // time between two requests.
  absl::Duration io_timeout = absl::Seconds(30);
  // The time for a handler to respond. After it the client gets 503.
  absl::Duration handler_timeout = absl::Seconds(10);
};

// A small HTTP/1.1 server for browsers, probes and scrapers. Runs on one thread of its own.
//
// A server that listens on a loopback address only serves requests whose Host header is a loopback
// host too. Others get 421. This protects against DNS rebinding: a web page cannot reach the server
// through a name of its own that resolves to this machine.
class HttpServer {
 public:
  // Serves `routes` until destruction. Returns UNAVAILABLE if it cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           RouteMap routes);
  // Closes every connection, including those with unanswered requests.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  class Listener;
  explicit HttpServer(std::shared_ptr<Listener> listener);

  // Shared with its pending operations, as usual with Asio.
  std::shared_ptr<Listener> listener_;
};

// Returns whether `host` is certain to be this machine: localhost, 127.0.0.0/8 or ::1. `host` is an
// address or a name as in a URL (brackets allowed, no port). Other names are not resolved and
// return false.
bool IsLoopbackHost(absl::string_view host);

}  // namespace callboard::http

#endif  // CALLBOARD_LIBS_HTTP_HTTP_SERVER_H_
