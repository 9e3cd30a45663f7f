#include "libs/server/workarounds/read_pause.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "libs/system/system.h"
#include "libs/wire/alarm.h"

namespace callboard::server {

namespace {

constexpr ReadPauseLimits kLimits = {.unserved_max = 512, .pause_max = absl::Seconds(1)};

// Runs `then` on a reaction thread.
void SetProcessAlarm(absl::Duration wait, const std::function<void()>& then) {
  auto* alarm = new grpc::Alarm;
  wire::SetAlarm(*alarm, wait, [alarm, then] {
    then();
    delete alarm;
  });
}

// Returns a number that no other open socket has; 0 for a closed one.
uint64_t InodeOf(int socket) {
  struct stat status = {};
  return fstat(socket, &status) == 0 ? status.st_ino : 0;
}

// The timer of a pause fires later than the pause may last by the clock.
constexpr absl::Duration kTimerMargin = absl::Milliseconds(50);

}  // namespace

ReadPause& ReadPause::OfProcess() {
  // Never destroyed, because gRPC may read until the process ends.
  static auto* const pause = new ReadPause(kLimits, *new system::SystemClock, SetProcessAlarm);
  return *pause;
}

void ReadPause::AddSocket(int socket) {
  base::MutexLock lock(mutex_);
  sockets_[socket] = InodeOf(socket);
}

void ReadPause::AddUnserved() {
  if (++unserved_ <= unserved_max_ || paused_) return;
  base::MutexLock lock(mutex_);
  if (paused_) return;
  paused_ = true;
  paused_since_ = clock_.MonotonicNow();
  // Calls that were removed before paused_ was set did not end the pause.
  if (unserved_ <= unserved_max_) return Resume();
  // All connections may be held, and none of the calls may end: then nothing else ends the pause.
  run_after_(limits_.pause_max + kTimerMargin, [this] {
    base::MutexLock lock(mutex_);
    EndLongPause();
  });
}

void ReadPause::RemoveUnserved() {
  const size_t unserved = --unserved_;
  if (!paused_) {
    if (unserved == 0 && unserved_max_ != limits_.unserved_max) {
      unserved_max_ = limits_.unserved_max;
    }
    return;
  }
  if (unserved + limits_.unserved_max / 2 > unserved_max_) return;
  base::MutexLock lock(mutex_);
  Resume();
}

bool ReadPause::Holds(int socket) {
  if (!paused_) return false;
  base::MutexLock lock(mutex_);
  EndLongPause();
  if (!paused_) return false;
  const auto found = sockets_.find(socket);
  if (found == sockets_.end() || found->second != InodeOf(socket)) return false;
  held_.insert(socket);
  return true;
}

void ReadPause::EndLongPause() {
  if (!paused_ || clock_.MonotonicNow() - paused_since_ < limits_.pause_max) return;
  unserved_max_ = unserved_ + limits_.unserved_max;
  Resume();
}

void ReadPause::Resume() {
  paused_ = false;
  for (const int socket : held_) {
    // Setting this, to its default, makes Linux report a socket with bytes as readable once more.
    constexpr int kOneByte = 1;
    setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &kOneByte, sizeof(kOneByte));
  }
  held_.clear();
}

namespace {

class UnservedCallCounter final : public grpc::ContextAllocator {
 public:
  explicit UnservedCallCounter(ReadPause& pause) : pause_(pause) {}

  grpc::CallbackServerContext* NewCallbackServerContext() override {
    pause_.AddUnserved();
    return nullptr;
  }
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    pause_.AddUnserved();
    return nullptr;
  }

 private:
  ReadPause& pause_;
};

class ReadPauseInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit ReadPauseInterceptor(ReadPause& pause) : pause_(pause) { pause_.RemoveUnserved(); }
  // gRPC destroys the interceptor at the end of the call.
  ~ReadPauseInterceptor() override {
    if (first_ == First::kMissing) pause_.RemoveUnserved();
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (first_ == First::kUnknown &&
        methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::POST_RECV_MESSAGE)) {
      first_ = methods->GetRecvMessage() == nullptr ? First::kMissing : First::kReceived;
      if (first_ == First::kMissing) pause_.AddUnserved();
    }
    methods->Proceed();
  }

 private:
  // The first message of the client.
  enum class First { kUnknown, kReceived, kMissing };

  ReadPause& pause_;
  First first_ = First::kUnknown;
};

class ReadPauseInterceptorFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ReadPauseInterceptorFactory(ReadPause& pause) : pause_(pause) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new ReadPauseInterceptor(pause_);
  }

 private:
  ReadPause& pause_;
};

}  // namespace

std::unique_ptr<grpc::ContextAllocator> NewUnservedCallCounter(ReadPause& pause) {
  return std::make_unique<UnservedCallCounter>(pause);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewReadPauseInterceptorFactory(ReadPause& pause) {
  return std::make_unique<ReadPauseInterceptorFactory>(pause);
}

}  // namespace callboard::server

// Replaces the function of libc for gRPC's shared library, which calls it by name.
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (callboard::server::ReadPause::OfProcess().Holds(socket)) {
    errno = EAGAIN;
    return -1;
  }
  return syscall(SYS_recvmsg, socket, message, flags);
}
