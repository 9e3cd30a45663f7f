#include "libs/http/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/text.h"

namespace callboard::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

// Returns `authority`, `host:port` or `[v6]:port`, without the port.
absl::string_view StripPort(absl::string_view authority) {
  const size_t colon = authority.rfind(':');
  if (colon == absl::string_view::npos || authority.find(']', colon) != absl::string_view::npos) {
    return authority;
  }
  return authority.substr(0, colon);
}

// Returns whether `error` is an error of the HTTP parser, as opposed to the end of the connection.
bool IsMalformed(beast::error_code error) {
  static const beast::error_code parse_error = beast::http::error::bad_version;
  return error && error.category() == parse_error.category() &&
         error != beast::http::error::end_of_stream && error != beast::http::error::partial_message;
}

// The state that the connections of a server share. Used by the server's thread, except `context`.
struct ServerState {
  HttpServerOptions options;
  RouteMap routes;
  // Handlers respond from other threads, possibly after the server was destroyed. Their callbacks
  // share ownership of this state, so that they can still post to the context.
  asio::io_context context{1};
  // How many times a connection started to wait for a request.
  uint64_t wait_count = 0;
};

// The connection of one client. Reads a request, waits for its response, writes it, and repeats.
//
// Used by the server's thread only. Shared by its pending operation, as usual with Asio, and by the
// listener's list.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnClosed = std::function<void(const std::shared_ptr<Connection>&)>;

  Connection(std::shared_ptr<ServerState> state, tcp::socket socket, OnClosed on_closed)
      : state_(std::move(state)),
        stream_(std::move(socket)),
        handler_timer_(state_->context),
        on_closed_(std::move(on_closed)) {}

  void StartRead() {
    wait_number_ = ++state_->wait_count;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(state_->options.header_bytes_max));
    parser_->body_limit(state_->options.body_bytes_max);
    stream_.expires_after(absl::ToChronoNanoseconds(state_->options.io_timeout));
    beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
  }

  // Orders the connections that wait for a request: the one with the smallest number has waited
  // longest. Nullopt while a request is being answered.
  std::optional<uint64_t> wait_number() const { return wait_number_; }

  void Close() {
    beast::error_code ignored;
    handler_timer_.cancel();
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    on_closed_(shared_from_this());
  }

 private:
  void OnRead(beast::error_code error) {
    wait_number_.reset();
    if (error == beast::http::error::body_limit || error == beast::http::error::header_limit) {
      close_after_write_ = true;
      StartWrite(
          ErrorResponse(error == beast::http::error::body_limit ? 413 : 431, error.message()));
    } else if (IsMalformed(error)) {
      close_after_write_ = true;
      StartWrite(ErrorResponse(400, error.message()));
    } else if (error) {
      Close();
    } else {
      Route();
    }
  }

  void Route() {
    const auto& message = parser_->get();
    close_after_write_ = !message.keep_alive();
    head_only_ = message.method() == beast::http::verb::head;
    const absl::string_view host(message[beast::http::field::host].data(),
                                 message[beast::http::field::host].size());
    const auto encoding = message[beast::http::field::transfer_encoding];
    if (!encoding.empty() && !beast::iequals(encoding, "chunked")) {
      close_after_write_ = true;
      return StartWrite(ErrorResponse(400, "the only supported transfer encoding is chunked"));
    }
    // A user name before the host (`localhost@attacker.example`) is an attempt to disguise it.
    const bool wrong_host =
        IsLoopbackHost(state_->options.host) && !IsLoopbackHost(StripPort(host));
    if (wrong_host || absl::StrContains(host, '@')) {
      return StartWrite(ErrorResponse(
          421, absl::StrCat("this server does not serve the host ", base::EscapeForError(host),
                            "; connect to it by its own address")));
    }
    absl::string_view target(message.target().data(), message.target().size());
    const size_t question = target.find('?');
    Request request{.path = std::string(target.substr(0, question)),
                    .query = question == absl::string_view::npos
                                 ? ""
                                 : std::string(target.substr(question + 1)),
                    .accept = std::string(message[beast::http::field::accept]),
                    .body = message.body()};
    const auto route = state_->routes.find(request.path);
    if (route == state_->routes.end()) {
      return StartWrite(
          ErrorResponse(404, absl::StrCat("no such path: ", base::EscapeForError(request.path))));
    }
    if (message.method() != beast::http::verb::get && !head_only_) {
      return StartWrite(ErrorResponse(405, "only GET and HEAD are allowed here"));
    }
    CallHandler(request, route->second);
  }

  void CallHandler(const Request& request, const Handler& handler) {
    const uint64_t number = ++request_number_;
    awaiting_response_ = true;
    handler_timer_.expires_after(absl::ToChronoNanoseconds(state_->options.handler_timeout));
    handler_timer_.async_wait([self = shared_from_this(), number](beast::error_code error) {
      if (!error) self->OnResponse(number, ErrorResponse(503, "no response in time; retry"));
    });
    handler(request, [state = state_, weak = weak_from_this(), number](Response response) {
      asio::post(state->context, [weak, number, response = std::move(response)]() mutable {
        if (auto self = weak.lock()) self->OnResponse(number, std::move(response));
      });
    });
  }

  // Sends the first response to the current request and ignores all others.
  void OnResponse(uint64_t number, Response response) {
    if (!awaiting_response_ || number != request_number_ || !stream_.socket().is_open()) return;
    awaiting_response_ = false;
    handler_timer_.cancel();
    StartWrite(std::move(response));
  }

  void StartWrite(Response response) {
    response_.emplace();
    response_->result(static_cast<unsigned>(response.status));
    response_->set(beast::http::field::content_type, response.content_type);
    response_->set(beast::http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (response.status == 405) response_->set(beast::http::field::allow, "GET, HEAD");
    response_->keep_alive(!close_after_write_);
    response_->content_length(response.body.size());
    if (!head_only_) response_->body() = std::move(response.body);
    stream_.expires_after(absl::ToChronoNanoseconds(state_->options.io_timeout));
    beast::http::async_write(
        stream_, *response_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnWritten(error); });
  }

  void OnWritten(beast::error_code error) {
    if (error || close_after_write_) return Close();
    StartRead();
  }

  const std::shared_ptr<ServerState> state_;
  beast::tcp_stream stream_;
  asio::steady_timer handler_timer_;
  const OnClosed on_closed_;
  beast::flat_buffer buffer_;
  // The current request and its response.
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::optional<beast::http::response<beast::http::string_body>> response_;
  std::optional<uint64_t> wait_number_;
  uint64_t request_number_ = 0;
  bool awaiting_response_ = false;
  bool head_only_ = false;
  bool close_after_write_ = false;
};

}  // namespace

// Accepts connections and owns the open ones. Runs the server's thread between Start() and Stop().
class HttpServer::Listener : public std::enable_shared_from_this<HttpServer::Listener> {
 public:
  Listener(const HttpServerOptions& options, RouteMap routes)
      : state_(std::make_shared<ServerState>()),
        acceptor_(state_->context),
        retry_timer_(state_->context) {
    state_->options = options;
    state_->routes = std::move(routes);
  }

  absl::Status Open() {
    const HttpServerOptions& options = state_->options;
    beast::error_code error;
    const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
    const tcp::endpoint endpoint(asio::ip::make_address(host, error), options.port);
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", options.host, ":",
                                                 options.port, ": ", error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    return absl::OkStatus();
  }

  void Start() {
    StartAccept();
    thread_ = std::thread([this] { state_->context.run(); });
  }

  void Stop() {
    asio::post(state_->context, [self = shared_from_this()] {
      beast::error_code ignored;
      self->acceptor_.close(ignored);
      self->retry_timer_.cancel();
      // Close() removes the connection from the list.
      while (!self->connections_.empty()) {
        std::shared_ptr<Connection> connection = *self->connections_.begin();
        connection->Close();
      }
    });
    thread_.join();
  }

  uint16_t port() const { return port_; }

 private:
  void StartAccept() {
    acceptor_.async_accept(
        [self = shared_from_this()](beast::error_code error, tcp::socket socket) {
          self->OnAccept(error, std::move(socket));
        });
  }

  void OnAccept(beast::error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (error) return RetryAcceptLater();
    const bool exceeds_share = socket.native_handle() >= state_->options.descriptors_max;
    const bool is_full = exceeds_share || connections_.size() >= state_->options.connections_max;
    if (!is_full || CloseLongestWaiting()) {
      if (exceeds_share) MoveToFreeDescriptor(socket);
      auto connection = std::make_shared<Connection>(
          state_, std::move(socket),
          [this](const std::shared_ptr<Connection>& closed) { connections_.erase(closed); });
      connections_.insert(connection);
      connection->StartRead();
    }
    StartAccept();
  }

  // Closes the connection that has waited longest for a request. Returns false if none waits.
  bool CloseLongestWaiting() {
    std::shared_ptr<Connection> longest_waiting;
    for (const std::shared_ptr<Connection>& connection : connections_) {
      if (!connection->wait_number().has_value()) continue;
      if (longest_waiting == nullptr ||
          connection->wait_number() < longest_waiting->wait_number()) {
        longest_waiting = connection;
      }
    }
    if (longest_waiting != nullptr) longest_waiting->Close();
    return longest_waiting != nullptr;
  }

  // Moves the socket to the smallest free descriptor, the one that CloseLongestWaiting() freed.
  // Otherwise the next connection would get that one, although its owner is still above the share.
  void MoveToFreeDescriptor(tcp::socket& socket) {
    beast::error_code ignored;
    const auto protocol = socket.local_endpoint(ignored).protocol();
    const int number = fcntl(socket.native_handle(), F_DUPFD_CLOEXEC, 0);
    if (number < 0) return;
    tcp::socket taken(state_->context);
    beast::error_code error;
    taken.assign(protocol, number, error);
    if (error) {
      close(number);
    } else {
      socket = std::move(taken);
    }
  }

  // Accepts again after a pause. While no descriptor is free, every attempt fails immediately.
  void RetryAcceptLater() {
    retry_timer_.expires_after(std::chrono::milliseconds(100));
    retry_timer_.async_wait([self = shared_from_this()](beast::error_code) {
      if (self->acceptor_.is_open()) self->StartAccept();
    });
  }

  const std::shared_ptr<ServerState> state_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_timer_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  uint16_t port_ = 0;
  std::thread thread_;
};

Response ErrorResponse(int status, absl::string_view message) {
  return {.status = status,
          .content_type = "application/json",
          .body = absl::StrCat("{\"error\":", base::JsonQuoted(message), "}\n")};
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              RouteMap routes) {
  auto listener = std::make_shared<Listener>(options, std::move(routes));
  const absl::Status opened = listener->Open();
  if (!opened.ok()) return opened;
  listener->Start();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener)));
}

HttpServer::HttpServer(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}

HttpServer::~HttpServer() { listener_->Stop(); }

uint16_t HttpServer::port() const { return listener_->port(); }

bool IsLoopbackHost(absl::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string name(host);
  in_addr v4;
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return name == "localhost";
}

}  // namespace callboard::http
