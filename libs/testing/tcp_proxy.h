#ifndef CALLBOARD_LIBS_TESTING_TCP_PROXY_H_
#define CALLBOARD_LIBS_TESTING_TCP_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/mutex.h"

namespace callboard::test {

// Stands between a client and a server on this machine, and does what networks do: is slow, cuts
// connections, holds back what either side says, swallows it, or lets nobody in.
//
// Thread-safe.
class TcpProxy {
 public:
  // `target`: host:port of an IPv4 address; empty while there is no server.
  explicit TcpProxy(const std::string& target);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  // Where clients connect: 127.0.0.1:port.
  const std::string& address() const { return address_; }

  enum class Direction { kToServer, kToClient };
  // What happens to bytes that come from now on: they go through, wait, or are lost. What waited
  // goes through when they do again.
  enum class Flow { kThrough, kHeld, kSwallowed };
  void Set(Direction direction, Flow flow);
  // How long bytes that come from now on are under way, in each direction.
  void SetDelay(absl::Duration delay);

  // Ends all connections, as a machine that dies does.
  void Cut();
  // From now on every so many-th piece that either side says is lost, and its connection with it;
  // none when 0.
  void CutEvery(uint64_t pieces);
  // Whether new connections are let in; those that are not are cut at once.
  void Accept(bool accept);

  // Where new connections lead from now on, as at construction; those that stand stay.
  void Forward(const std::string& target);

  // From now on answers() keeps what servers say.
  void KeepAnswers();
  std::string answers() const;

  // Bytes that came from the client so far.
  uint64_t bytes_to_server() const;
  size_t connections() const;
  // Clients that have connected so far, let in or not.
  uint64_t attempts() const;

 private:
  // What was read at once, and when it is to be written.
  struct Piece {
    absl::Duration due;
    std::string bytes;
  };
  struct Connection {
    int client = -1;
    int server = -1;
    // What was read and not written yet.
    std::deque<Piece> to_server = {};
    std::deque<Piece> to_client = {};
  };

  void Run();
  // Milliseconds until something is due; none when it is -1.
  int UntilNextIsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AcceptOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False when the connection is over.
  bool Pump(Connection& connection, bool client_ready, bool server_ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the bytes that it reads to `counter` and `kept`, where there are any.
  bool Move(int from, int to, bool ready, Flow flow, std::deque<Piece>& waiting, uint64_t* counter,
            std::string* kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const adapters::SystemClock clock_;
  std::string address_;
  int listener_ = -1;
  int wake_ = -1;

  mutable base::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string target_ ABSL_GUARDED_BY(mutex_);
  bool accept_ ABSL_GUARDED_BY(mutex_) = true;
  Flow to_server_ ABSL_GUARDED_BY(mutex_) = Flow::kThrough;
  Flow to_client_ ABSL_GUARDED_BY(mutex_) = Flow::kThrough;
  absl::Duration delay_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  uint64_t cut_every_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_to_server_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool keeps_answers_ ABSL_GUARDED_BY(mutex_) = false;
  std::string answers_ ABSL_GUARDED_BY(mutex_);
  std::list<Connection> connections_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_TCP_PROXY_H_
