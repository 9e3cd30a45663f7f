#ifndef CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_
#define CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::test {

// A raw connection to a port of 127.0.0.1, so that a test can send bytes that no client library
// would send. Blocking; the timeout of the test limits the waits.
class HttpConnection {
 public:
  explicit HttpConnection(uint16_t port);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Returns false if the server has closed the connection.
  bool Send(absl::string_view bytes);

  // Returns head and body of the next response, as sent. Empty when the server closed the
  // connection.
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

// Sends one GET over a new connection.
HttpAnswer HttpGet(uint16_t port, absl::string_view path);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_HTTP_CLIENT_H_
