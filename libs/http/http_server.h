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
  // Without the question mark.
  std::string query;
  // What kinds of answer the client takes; empty when it does not say.
  std::string accept;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

// What every error looks like: {"error":"`message`"}.
Response ErrorResponse(int status, absl::string_view message);

// Answers a request; may be called on any thread, counts once, does nothing once the client is
// gone.
using Respond = std::function<void(Response)>;

// Runs on the server's thread and must not block: what takes time answers later.
using Handler = std::function<void(const Request&, Respond)>;

// Handlers by path.
using GetRoutes = std::map<std::string, Handler, std::less<>>;

struct HttpServerOptions {
  // An IP address, or localhost.
  std::string host = "127.0.0.1";
  // 0 takes a free one.
  uint16_t port = 0;
  // For one more than these, the one that has kept us waiting for a request for the longest time is
  // closed: somebody who holds connections and says nothing keeps nobody out. Where all of them
  // wait for answers, the new one is closed.
  size_t connections_max = 512;
  // The same goes for one whose descriptor is not below this: the process has others to do things
  // with.
  int descriptors_max = 1 << 20;
  size_t header_bytes_max = 16 * 1024;
  size_t body_bytes_max = 4 * 1024 * 1024;
  // For a client to send a whole request or take a whole answer, and between two requests.
  absl::Duration io_timeout = absl::Seconds(30);
  // For a handler to answer; then the client gets 503.
  absl::Duration answer_timeout = absl::Seconds(10);
};

// A small HTTP/1.1 server on one thread of its own, for people, probes and scrapers.
//
// While it listens on a loopback address it answers only requests whose Host is one too: a page
// from elsewhere whose name was pointed at this machine gets 421.
class HttpServer {
 public:
  // Serves `routes` until destruction. UNAVAILABLE when the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           GetRoutes routes);
  // Closes every connection, answered or not.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  class Listener;
  explicit HttpServer(std::shared_ptr<Listener> listener);

  // Shared with its own pending operations, as Asio wants it.
  std::shared_ptr<Listener> listener_;
};

}  // namespace callboard::http

#endif  // CALLBOARD_LIBS_HTTP_HTTP_SERVER_H_
