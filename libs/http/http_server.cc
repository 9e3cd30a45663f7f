#include "libs/http/http_server.h"

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
#include <thread>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/json_quoted.h"
#include "libs/base/text.h"
#include "libs/http/loopback.h"

namespace callboard::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

// `host:port` or `[v6]:port` without the port.
absl::string_view WithoutPort(absl::string_view authority) {
  const size_t colon = authority.rfind(':');
  if (colon == absl::string_view::npos || authority.find(']', colon) != absl::string_view::npos) {
    return authority;
  }
  return authority.substr(0, colon);
}

// Whether `error` is the parser's word on what it read, not the end of the connection.
bool IsMalformed(beast::error_code error) {
  static const beast::error_code parse_error = beast::http::error::bad_version;
  return error && error.category() == parse_error.category() &&
         error != beast::http::error::end_of_stream && error != beast::http::error::partial_message;
}

// What all connections of a server share.
struct Shared {
  HttpServerOptions options;
  GetRoutes routes;
  // Answers arrive from other threads, as late as after the server is gone: whoever may post holds
  // the context.
  asio::io_context context{1};
  // How often a connection began to wait for a request.
  uint64_t waits = 0;
};

// One client: reads a request, waits for its answer, writes it, and again.
//
// Lives on the server's thread; only Answer() may come from elsewhere. Shared by the operation that
// is under way, as Asio wants it, and by the listener's list.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnClosed = std::function<void(const std::shared_ptr<Connection>&)>;

  Connection(std::shared_ptr<Shared> shared, tcp::socket socket, OnClosed on_closed)
      : shared_(std::move(shared)),
        stream_(std::move(socket)),
        answer_timer_(shared_->context),
        on_closed_(std::move(on_closed)) {}

  void StartRead() {
    waits_since_ = ++shared_->waits;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_->options.header_bytes_max));
    parser_->body_limit(shared_->options.body_bytes_max);
    stream_.expires_after(absl::ToChronoNanoseconds(shared_->options.io_timeout));
    beast::http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
  }

  // Of those that wait for a request, who waits longer has the smaller number; none when one is
  // being answered.
  std::optional<uint64_t> waits_since() const { return waits_since_; }

  void Close() {
    beast::error_code ignored;
    answer_timer_.cancel();
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    on_closed_(shared_from_this());
  }

 private:
  void OnRead(beast::error_code error) {
    waits_since_.reset();
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
      return StartWrite(ErrorResponse(400, "only the transfer encoding chunked is understood"));
    }
    // Whoever puts a user before the host wants it to be read as another one.
    const bool is_other =
        IsLoopbackHost(shared_->options.host) && !IsLoopbackHost(WithoutPort(host));
    if (is_other || absl::StrContains(host, '@')) {
      return StartWrite(
          ErrorResponse(421, absl::StrCat("this server is not ", base::Echoed(host))));
    }
    absl::string_view target(message.target().data(), message.target().size());
    const size_t question = target.find('?');
    Request request{.path = std::string(target.substr(0, question)),
                    .query = question == absl::string_view::npos
                                 ? ""
                                 : std::string(target.substr(question + 1)),
                    .accept = std::string(message[beast::http::field::accept]),
                    .body = message.body()};
    const auto route = shared_->routes.find(request.path);
    if (route == shared_->routes.end()) {
      return StartWrite(
          ErrorResponse(404, absl::StrCat("no such path: ", base::Echoed(request.path))));
    }
    if (message.method() != beast::http::verb::get && !head_only_) {
      return StartWrite(ErrorResponse(405, "only GET and HEAD are allowed here"));
    }
    AwaitAnswer(request, route->second);
  }

  void AwaitAnswer(const Request& request, const Handler& handler) {
    const uint64_t number = ++request_number_;
    answering_ = true;
    answer_timer_.expires_after(absl::ToChronoNanoseconds(shared_->options.answer_timeout));
    answer_timer_.async_wait([self = shared_from_this(), number](beast::error_code error) {
      if (!error) self->OnAnswer(number, ErrorResponse(503, "no answer in time; retry"));
    });
    handler(request, [shared = shared_, weak = weak_from_this(), number](Response response) {
      asio::post(shared->context, [weak, number, response = std::move(response)]() mutable {
        if (auto self = weak.lock()) self->OnAnswer(number, std::move(response));
      });
    });
  }

  // The first answer to the request that waits for one counts.
  void OnAnswer(uint64_t number, Response response) {
    if (!answering_ || number != request_number_ || !stream_.socket().is_open()) return;
    answering_ = false;
    answer_timer_.cancel();
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
    stream_.expires_after(absl::ToChronoNanoseconds(shared_->options.io_timeout));
    beast::http::async_write(
        stream_, *response_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnWritten(error); });
  }

  void OnWritten(beast::error_code error) {
    if (error || close_after_write_) return Close();
    StartRead();
  }

  const std::shared_ptr<Shared> shared_;
  beast::tcp_stream stream_;
  asio::steady_timer answer_timer_;
  const OnClosed on_closed_;
  beast::flat_buffer buffer_;
  // One request at a time.
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  std::optional<beast::http::response<beast::http::string_body>> response_;
  std::optional<uint64_t> waits_since_;
  uint64_t request_number_ = 0;
  bool answering_ = false;
  bool head_only_ = false;
  bool close_after_write_ = false;
};

}  // namespace

// Accepts connections and keeps those that are open.
class HttpServer::Listener : public std::enable_shared_from_this<HttpServer::Listener> {
 public:
  Listener(const HttpServerOptions& options, GetRoutes routes)
      : shared_(std::make_shared<Shared>()), acceptor_(shared_->context), pause_(shared_->context) {
    shared_->options = options;
    shared_->routes = std::move(routes);
  }

  absl::Status Open() {
    const HttpServerOptions& options = shared_->options;
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
    thread_ = std::thread([this] { shared_->context.run(); });
  }

  void Stop() {
    asio::post(shared_->context, [self = shared_from_this()] {
      beast::error_code ignored;
      self->acceptor_.close(ignored);
      self->pause_.cancel();
      // Close() takes a connection off the list.
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
    if (error) return StartPause();
    const bool has_others_number = socket.native_handle() >= shared_->options.descriptors_max;
    const bool is_full =
        has_others_number || connections_.size() >= shared_->options.connections_max;
    if (!is_full || MakeRoom()) {
      if (has_others_number) TakeFreeNumber(socket);
      auto connection = std::make_shared<Connection>(
          shared_, std::move(socket),
          [this](const std::shared_ptr<Connection>& closed) { connections_.erase(closed); });
      connections_.insert(connection);
      connection->StartRead();
    }
    StartAccept();
  }

  // False when nobody can be asked to go.
  bool MakeRoom() {
    std::shared_ptr<Connection> longest;
    for (const std::shared_ptr<Connection>& connection : connections_) {
      if (!connection->waits_since().has_value()) continue;
      if (longest == nullptr || connection->waits_since() < longest->waits_since()) {
        longest = connection;
      }
    }
    if (longest != nullptr) longest->Close();
    return longest != nullptr;
  }

  // That of whoever made room: else the next one would get it, and room for two be taken.
  void TakeFreeNumber(tcp::socket& socket) {
    beast::error_code ignored;
    const auto protocol = socket.local_endpoint(ignored).protocol();
    const int number = fcntl(socket.native_handle(), F_DUPFD_CLOEXEC, 0);
    if (number < 0) return;
    tcp::socket taken(shared_->context);
    beast::error_code error;
    taken.assign(protocol, number, error);
    if (error) {
      close(number);
    } else {
      socket = std::move(taken);
    }
  }

  // Accepting fails while file descriptors run short, at once and every time.
  void StartPause() {
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([self = shared_from_this()](beast::error_code) {
      if (self->acceptor_.is_open()) self->StartAccept();
    });
  }

  const std::shared_ptr<Shared> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
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
                                                              GetRoutes routes) {
  auto listener = std::make_shared<Listener>(options, std::move(routes));
  const absl::Status opened = listener->Open();
  if (!opened.ok()) return opened;
  listener->Start();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener)));
}

HttpServer::HttpServer(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}

HttpServer::~HttpServer() { listener_->Stop(); }

uint16_t HttpServer::port() const { return listener_->port(); }

}  // namespace callboard::http
