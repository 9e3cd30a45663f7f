#include "libs/server/program.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/log.h"
#include "libs/base/version.h"
#include "libs/config/settings.h"
#include "libs/ports/event_store.h"
#include "libs/server/listen_address.h"
#include "libs/telemetry/otel_telemetry.h"
#include "libs/wire/time.h"

namespace callboard::server {

// ---- Signals ------------------------------------------------------------------------------------

namespace {

bool ShouldStayIgnored(int number) {
  // A non-interactive shell starts background processes with SIGINT ignored.
  if (number == SIGTERM || number == SIGINT) return false;
  struct sigaction action = {};
  CHECK_EQ(sigaction(number, nullptr, &action), 0);
  return action.sa_handler == SIG_IGN;
}

sigset_t SelectSignals(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) {
    if (!ShouldStayIgnored(number)) sigaddset(&signals, number);
  }
  return signals;
}

// Returns the lowest signal in the set, or 0 if it is empty.
int LowestSignal(const sigset_t& signals) {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&signals, number) == 1) return number;
  }
  return 0;
}

}  // namespace

SignalThread::SignalThread(std::initializer_list<int> numbers, std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)), signals_(SelectSignals(numbers)) {
  if (LowestSignal(signals_) == 0) return;
  // Blocks all signals in the new thread, so that it receives none that belong to a SignalThread
  // created later.
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  thread_ = std::thread([this] { HandleSignals(); });
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals_, nullptr), 0);
}

SignalThread::~SignalThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  CHECK_EQ(pthread_kill(thread_.native_handle(), LowestSignal(signals_)), 0);
  thread_.join();
}

void SignalThread::HandleSignals() {
  while (true) {
    int number = 0;
    CHECK_EQ(sigwait(&signals_, &number), 0);
    if (stopping_) return;
    on_signal_(number);
  }
}

Termination::Termination()
    : thread_({SIGTERM, SIGINT, SIGHUP}, [this](int number) { OnSignal(number); }) {
  // A closed connection is an error of one call, and must not end the process.
  signal(SIGPIPE, SIG_IGN);
}

void Termination::WaitForSignal() {
  base::MutexLock lock(mutex_);
  started_ = true;
  if (std::exchange(hangup_pending_, false)) signalled_ = true;
  while (!signalled_ && !requested_) changed_.Wait(mutex_);
}

void Termination::RequestShutdown() {
  base::MutexLock lock(mutex_);
  requested_ = true;
  changed_.NotifyAll();
}

void Termination::SetReloadHandler(std::function<void()> reload) {
  base::MutexLock lock(mutex_);
  reload_ = std::move(reload);
  if (reload_ && std::exchange(hangup_pending_, false)) reload_();
}

void Termination::OnSignal(int number) {
  base::MutexLock lock(mutex_);
  if (number == SIGHUP && reload_) return reload_();
  if (number == SIGHUP && !started_) {
    hangup_pending_ = true;
    return;
  }
  // A terminal that closes often sends SIGHUP twice.
  if (number == SIGHUP && (signalled_ || requested_)) return;
  // Does not log, because a log that is not read may block.
  if (signalled_) _exit(static_cast<int>(ExitCode::kFailed));
  signalled_ = true;
  changed_.NotifyAll();
}

LogSignals::LogSignals()
    : thread_({SIGUSR1, SIGUSR2}, [](int number) {
        number == SIGUSR1 ? base::IncreaseLogDetail() : base::DecreaseLogDetail();
      }) {}

}  // namespace callboard::server

// Settings of jemalloc, which reads this variable before main(). A background thread returns unused
// memory to the system. Without it jemalloc does so only during allocations, so an idle server
// would keep the memory of its last load peak.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}

namespace callboard::server {

// ---- Running a program --------------------------------------------------------------------------

namespace {

using config::v1::LogConfig;

base::LogOptions MakeLogOptions(const LogConfig& config) {
  base::LogOptions options;
  switch (config.level()) {
    case LogConfig::LEVEL_DEBUG:
      options.level = base::LogLevel::kDebug;
      break;
    case LogConfig::LEVEL_WARNING:
      options.level = base::LogLevel::kWarning;
      break;
    case LogConfig::LEVEL_ERROR:
      options.level = base::LogLevel::kError;
      break;
    default:
      options.level = base::LogLevel::kInfo;
  }
  if (config.format() == LogConfig::FORMAT_JSON) options.format = base::LogFormat::kJson;
  return options;
}

ExitCode ToExitCode(const absl::Status& error) {
  const std::string reason = base::GetErrorDetails(error).reason;
  if (reason == ports::kStoreRefused) return ExitCode::kStoreRefused;
  if (reason == ports::kStoreLocked) return ExitCode::kStoreLocked;
  return absl::IsInvalidArgument(error) ? ExitCode::kBadSettings : ExitCode::kFailed;
}

int ReportError(const std::string& program, const absl::Status& error, ExitCode code) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(error.message()).c_str());
  return static_cast<int>(code);
}

}  // namespace

namespace internal {

int RunProgramUntyped(std::span<const char* const> arguments, const config::Program& program,
                      google::protobuf::Message& config,
                      const std::function<const config::v1::LogConfig&()>& log,
                      const std::function<absl::Status(Termination&)>& body) {
  const absl::StatusOr<config::LoadedSettings> loaded = config::LoadSettings(
      {.arguments = arguments, .environment = config::ProcessEnvironment()}, config);
  if (!loaded.ok()) return ReportError(program.name, loaded.status(), ExitCode::kBadSettings);
  switch (loaded->action) {
    case config::Action::kPrintConfig:
      std::fputs(config::PrintedConfig(config, loaded->origins).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    case config::Action::kHelp:
      std::fputs(config::HelpText(program, *config.GetDescriptor()).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    case config::Action::kVersion:
      std::printf("%s %s\n", program.name.c_str(), std::string(base::kVersion).c_str());
      return static_cast<int>(ExitCode::kDone);
    case config::Action::kRun:
      break;
  }
  // Debian builds Abseil with deadlock detection, which adds a graph lookup to every lock, also to
  // those of gRPC.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Files of a server are readable by its own user only, also in folders that others can read.
  umask(S_IRWXG | S_IRWXO);
  base::StartLogging(MakeLogOptions(log()));
  // Created before all other threads, so that they inherit its signal mask.
  Termination termination;
  // Destroyed before `termination`: a log that is not read may block its thread, and then a second
  // signal must still end the process.
  const LogSignals log_signals;
  const absl::Status status = body(termination);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return ReportError(program.name, status, ToExitCode(status));
}

absl::StatusOr<std::unique_ptr<ServerContext>> MakeContext(const CommonSettings& settings,
                                                           Termination& termination) {
  const Exposure exposure =
      settings.insecure_listen ? Exposure::kInsecureAllowed : Exposure::kLoopbackOnly;
  ServerOptions options{
      .name = settings.name, .grpc = {}, .http = {}, .port_file = settings.port_file};
  ASSIGN_OR_RETURN(options.grpc,
                   ParseListenAddress("grpc.listen", settings.grpc.listen(), exposure));
  ASSIGN_OR_RETURN(options.http,
                   ParseListenAddress("http.listen", settings.http.listen(), exposure));
  if (settings.insecure_listen) {
    // An error, so that no log level hides it.
    base::LogError("server", "insecure_listen",
                   {{"warning", "anyone who can reach these ports can run commands"},
                    {"grpc", options.grpc.ToString()},
                    {"http", options.http.ToString()}});
  }
  if (const absl::Status made = base::MakePrivateFolder(settings.data_dir); !made.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("data_dir: ", made.message()));
  }
  std::optional<double> ratio;
  if (settings.telemetry.has_sample_ratio()) ratio = settings.telemetry.sample_ratio();
  ASSIGN_OR_RETURN(std::unique_ptr<ports::Telemetry> telemetry,
                   telemetry::StartTelemetry(
                       {.endpoint = settings.telemetry.otlp_endpoint(),
                        .service_name = settings.telemetry.service_name(),
                        .binary_name = settings.name,
                        .sample_ratio = ratio,
                        .flush_timeout = *wire::FromProto(settings.telemetry.flush_timeout())}));
  return std::make_unique<ServerContext>(std::move(options), std::move(telemetry),
                                         [&termination] { termination.RequestShutdown(); });
}

}  // namespace internal

}  // namespace callboard::server
