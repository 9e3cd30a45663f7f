#ifndef CALLBOARD_LIBS_TESTING_TCP_PROXY_H_
#define CALLBOARD_LIBS_TESTING_TCP_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/system/system.h"

namespace callboard::test {

// A TCP proxy between a client and a server on this machine that imitates network faults: it
// delays, holds back or drops bytes, cuts connections, and rejects new ones.
//
// Thread-safe.
class TcpProxy {
 public:
  // `target`: host:port of an IPv4 address; empty while there is no server.
  explicit TcpProxy(const std::string& target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // The address for clients: 127.0.0.1:port.
  const std::string& address() const { return address_; }

  enum class Direction { kToServer, kToClient };
  // The treatment of bytes that arrive from now on: they are forwarded, held, or dropped. Held
  // bytes are sent when the direction is forwarded again.
  enum class Flow { kForwarded, kHeld, kDropped };
  void Set(Direction direction, Flow flow);
  // Sets the delay of bytes that arrive from now on, in each direction.
  void SetDelay(absl::Duration delay);

  // Resets all connections, as a machine that dies does.
  void Cut();
  // Drops every `pieces`-th piece of data and its connection from now on; no piece if 0.
  void CutEveryNthPiece(uint64_t pieces);
  // Sets whether new connections are accepted; others are cut immediately.
  void Accept(bool accept);

  // Sets the target of new connections, as in the constructor; existing connections keep theirs.
  void SetTarget(const std::string& target);

  // Records the bytes that servers send from now on, for answers().
  void RecordAnswers();
  std::string answers() const;

  // Bytes received from clients so far.
  uint64_t bytes_to_server() const;
  size_t connections() const;
  // Connection attempts so far, accepted or not.
  uint64_t attempts() const;

 private:
  // Bytes of one read, and the time to write them.
  struct Piece {
    absl::Duration due;
    std::string bytes;
  };
  struct Connection {
    int client = -1;
    int server = -1;
    // Bytes that were read and not yet written.
    std::deque<Piece> to_server = {};
    std::deque<Piece> to_client = {};
  };

  void Run();
  // Returns the milliseconds until the next piece is due; -1 if there is none.
  int UntilNextPiece() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcceptOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns false when the connection has ended.
  bool Pump(Connection& connection, bool client_ready, bool server_ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the bytes that it reads to `counter` and `record`, if they are not null.
  bool Move(int from, int to, bool ready, Flow flow, std::deque<Piece>& waiting, uint64_t* counter,
            std::string* record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const system::SystemClock clock_;
  std::string address_;
  int listener_ = -1;
  int wake_ = -1;

  mutable base::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string target_ ABSL_GUARDED_BY(mutex_);
  bool accept_ ABSL_GUARDED_BY(mutex_) = true;
  Flow to_server_ ABSL_GUARDED_BY(mutex_) = Flow::kForwarded;
  Flow to_client_ ABSL_GUARDED_BY(mutex_) = Flow::kForwarded;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  uint64_t cut_every_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_to_server_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool records_answers_ ABSL_GUARDED_BY(mutex_) = false;
  std::string answers_ ABSL_GUARDED_BY(mutex_);
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_TCP_PROXY_H_
