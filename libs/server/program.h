// The common part of main() of every program that serves: exit codes, signals, and the run itself.

#ifndef CALLBOARD_LIBS_SERVER_PROGRAM_H_
#define CALLBOARD_LIBS_SERVER_PROGRAM_H_

#include <google/protobuf/message.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "callboard/config/v1/server.pb.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/config/setting_value.h"
#include "libs/server/server.h"

namespace callboard::server {

// Exit codes of servers. Scripts and supervisors rely on these numbers.
enum class ExitCode : int {
  kDone = 0,
  // An error that a retry may fix, or a second signal that ended the drain.
  kFailed = 1,
  // The settings are wrong. A retry ends the same way.
  kBadSettings = 2,
  // The store cannot be opened by this version, or is damaged.
  kStoreRefused = 65,
  // Another process has locked the store.
  kStoreLocked = 75,
};

// A thread that handles some signals of the process by calling a function for each. Signals that
// were ignored at the start of the process, such as SIGHUP under nohup, stay ignored, except
// SIGTERM and SIGINT.
//
// The constructor blocks the signals in the calling thread, and so in all threads that it creates
// later. Create it before all threads except other SignalThreads. At most one per process may
// handle a signal.
class SignalThread {
 public:
  // `on_signal` receives the signal's number. While it runs, further signals are pending.
  SignalThread(std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  // Stops the thread. The signals stay blocked, because the process is about to end.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void HandleSignals();

  const std::function<void(int)> on_signal_;
  const sigset_t signals_;
  std::atomic<bool> stopping_ = false;
  // Not started if all signals stay ignored.
  std::thread thread_;
};

// Turns SIGTERM, SIGINT and SIGHUP into an orderly shutdown. The first signal ends WaitForSignal().
// A second one, except SIGHUP, ends the process immediately with ExitCode::kFailed. With a reload
// handler, SIGHUP runs the handler instead. A SIGHUP that arrives before WaitForSignal() and
// SetReloadHandler() is kept until the first of them is called.
//
// Create it before any other thread; one per process.
class Termination {
 public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Waits for the first signal or request. Returns immediately if there was one.
  void WaitForSignal();
  // Starts an orderly shutdown, as a first signal does. Repeated requests do not end the process.
  // Thread-safe.
  void RequestShutdown();
  // Sets the handler that SIGHUP runs instead of ending the program, and runs it now if a SIGHUP
  // was received before. `reload` must not block. Null removes the handler. When this returns, the
  // previous handler is not running and will not run again.
  void SetReloadHandler(std::function<void()> reload);

 private:
  void OnSignal(int number);

  base::Mutex mutex_;
  base::CondVar changed_;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether WaitForSignal() was called, and whether a SIGHUP was received before that.
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool hangup_pending_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> reload_ ABSL_GUARDED_BY(mutex_);
  SignalThread thread_;
};

// Changes the log level by signals: SIGUSR1 makes the log more detailed by one level, SIGUSR2 less.
// Has a thread of its own, separate from Termination: writing a log that is not read may block, and
// that must not delay the end of the process.
//
// Create it before any other thread; one per process.
class LogSignals {
 public:
  LogSignals();
  LogSignals(const LogSignals&) = delete;
  LogSignals& operator=(const LogSignals&) = delete;

 private:
  SignalThread thread_;
};

// The time that open calls get to end by themselves at shutdown. With the default
// telemetry.flush_timeout, a server exits within two seconds, as documented.
inline constexpr absl::Duration kShutdownGrace = absl::Seconds(1);

namespace internal {

int RunProgramUntyped(std::span<const char* const> arguments, const config::Program& program,
                      google::protobuf::Message& config,
                      const std::function<const config::v1::LogConfig&()>& log,
                      const std::function<absl::Status(Termination&)>& body);

// The settings that every server has.
struct CommonSettings {
  std::string name;
  const config::v1::GrpcConfig& grpc;
  const config::v1::HttpConfig& http;
  bool insecure_listen;
  const std::string& data_dir;
  const std::string& port_file;
  const config::v1::TelemetryConfig& telemetry;
};

absl::StatusOr<std::unique_ptr<ServerContext>> MakeContext(const CommonSettings& settings,
                                                           Termination& termination);

}  // namespace internal

// Loads the settings, starts logging, sets up signals, and runs `body`. Returns an ExitCode.
// `arguments` excludes the program's name. `Config` is a settings message.
template <class Config>
int RunProgram(std::span<const char* const> arguments, const config::Program& program,
               const std::function<absl::Status(const Config&, Termination&)>& body) {
  Config config;
  return internal::RunProgramUntyped(
      arguments, program, config,
      [&config]() -> const config::v1::LogConfig& { return config.log(); },
      [&](Termination& termination) { return body(config, termination); });
}

// A running server and its context.
struct StartedServer {
  std::unique_ptr<ServerContext> context;
  std::unique_ptr<Server> server;
};

// Starts a server. `config` and `context` outlive it.
template <class Config>
using StartFunction = absl::StatusOr<std::unique_ptr<Server>> (*)(const Config& config,
                                                                  ServerContext& context);

// Creates a server's data folder and context, and starts the server. `config` and `termination`
// outlive it.
template <class Config>
absl::StatusOr<StartedServer> StartServer(const std::string& name, const Config& config,
                                          StartFunction<Config> start, Termination& termination) {
  ASSIGN_OR_RETURN(std::unique_ptr<ServerContext> context,
                   internal::MakeContext({.name = name,
                                          .grpc = config.grpc(),
                                          .http = config.http(),
                                          .insecure_listen = config.insecure_listen(),
                                          .data_dir = config.data_dir(),
                                          .port_file = config.port_file(),
                                          .telemetry = config.telemetry()},
                                         termination));
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, start(config, *context));
  return StartedServer{std::move(context), std::move(server)};
}

// Implements main() of a program with one server. Serves until SIGTERM or SIGINT, or until the
// server fails. Returns an ExitCode.
template <class Config>
int RunServer(int argc, char** argv, const config::Program& program, StartFunction<Config> start) {
  return RunProgram<Config>(
      std::span<const char* const>(argv, argc).subspan(1), program,
      [&](const Config& config, Termination& termination) -> absl::Status {
        ASSIGN_OR_RETURN(const StartedServer started,
                         StartServer(program.name, config, start, termination));
        const std::function<void()>& reload = started.server->reload();
        // SIGHUP never stops a server, even if it has nothing to reload.
        termination.SetReloadHandler(reload ? reload : std::function<void()>([] {}));
        termination.WaitForSignal();
        termination.SetReloadHandler(nullptr);
        started.server->Stop(kShutdownGrace);
        return started.context->failure();
      });
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_PROGRAM_H_
