#include "libs/testing/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::test {
namespace {

const std::string kHeadEnd = "\r\n\r\n";

size_t BodySize(absl::string_view head) {
  constexpr absl::string_view kName = "Content-Length: ";
  const size_t begin = head.find(kName);
  CHECK(begin != absl::string_view::npos) << head;
  const absl::string_view rest = head.substr(begin + kName.size());
  const absl::string_view digits = rest.substr(0, rest.find('\r'));
  size_t size = 0;
  CHECK(absl::SimpleAtoi(digits, &size)) << head;
  return size;
}

}  // namespace

HttpConnection::HttpConnection(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  CHECK_GE(socket_, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

HttpConnection::~HttpConnection() { close(socket_); }

bool HttpConnection::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string HttpConnection::ReadResponse(bool has_body) {
  size_t end = std::string::npos;
  char chunk[4096];
  while (true) {
    const size_t head_end = received_.find(kHeadEnd);
    if (head_end != std::string::npos) {
      end = head_end + kHeadEnd.size() + (has_body ? BodySize(received_) : 0);
      if (received_.size() >= end) break;
    }
    const ssize_t count = recv(socket_, chunk, sizeof(chunk), 0);
    if (count <= 0) return "";
    received_.append(chunk, static_cast<size_t>(count));
  }
  const std::string response = received_.substr(0, end);
  received_.erase(0, end);
  return response;
}

HttpAnswer HttpGet(uint16_t port, absl::string_view path) {
  HttpConnection connection(port);
  connection.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string response = connection.ReadResponse();
  HttpAnswer answer;
  const size_t head_end = response.find(kHeadEnd);
  if (head_end == std::string::npos) return answer;
  answer.head = response.substr(0, head_end);
  answer.body = response.substr(head_end + kHeadEnd.size());
  // "HTTP/1.1 200 OK"
  CHECK(absl::SimpleAtoi(response.substr(9, 3), &answer.status)) << response;
  return answer;
}

}  // namespace callboard::test
