#ifndef CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_
#define CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::test {

// A connection to a port of 127.0.0.1 that speaks bytes, so that a test can send what no client
// library would. Blocking; the tests' own size limits how long.
class HttpConnection {
 public:
  explicit HttpConnection(uint16_t port);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void Send(absl::string_view bytes);

  // Head and body of the next response, as sent. Empty when the server closed the connection.
  std::string ReadResponse(bool has_body = true);

 private:
  int socket_;
  std::string received_;
};

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string body;
};

// One GET over a connection of its own.
HttpAnswer HttpGet(uint16_t port, absl::string_view path);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_
