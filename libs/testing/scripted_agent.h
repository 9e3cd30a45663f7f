#ifndef CALLBOARD_LIBS_TESTING_SCRIPTED_AGENT_H_
#define CALLBOARD_LIBS_TESTING_SCRIPTED_AGENT_H_

#include <grpcpp/server.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"

namespace callboard::test {

// An agent over real gRPC that sends exactly what a test tells it to send.
//
// The waits have no timeout; the timeout of the test limits them.
class ScriptedAgent final : private v1::AgentService::Service {
 public:
  ScriptedAgent();
  ~ScriptedAgent() override;

  // host:port
  std::string address() const;

  // Waits for a new Session and returns its terms. From then on Next() and Send() use that Session.
  core::SessionTerms WaitForSession();
  // Returns the next message of the Session, except acknowledgements of heartbeats; nothing when
  // the Session has ended.
  std::optional<core::DirectorMessage> Next();
  // Returns the next message. REQUIRES: it is of that kind.
  template <class Message>
  Message NextMessage() {
    return std::get<Message>(Next().value());
  }
  // Waits until a heartbeat is acknowledged.
  core::HeartbeatAck NextHeartbeatAcknowledgement();

  void Send(const core::AgentMessage& message) { SendTogether({message}); }
  // Sends the messages together.
  void SendTogether(const std::vector<core::AgentMessage>& messages);
  // Opens the Session as an agent of this name with this number of slots and without runs or
  // results.
  void SendOpened(const std::string& name, uint32_t slots = 1);
  void Accept(const core::FenceToken& token);
  void Reject(const core::FenceToken& token, const absl::Status& why);
  void Finish(const core::FenceToken& token, const core::RunResult& result = {.exit_code = 0});

  // Ends the Session.
  void EndSession();
  // Rejects new Sessions from now on.
  void RejectSessions(const absl::Status& why);

 private:
  struct SessionState;

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) override;
  std::shared_ptr<SessionState> current();
  // Calls `use`, unless the Session has ended.
  void WithSession(absl::FunctionRef<void(SessionState&)> use);

  int port_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::shared_ptr<SessionState>> unseen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SessionState> current_ ABSL_GUARDED_BY(mutex_);
  absl::Status session_error_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SCRIPTED_AGENT_H_
