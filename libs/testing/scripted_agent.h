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

// An agent over real gRPC that says what a test tells it to say, and nothing else.
//
// Waits have no end of their own: a test that waits for ever is ended by its size.
class ScriptedAgent final : private v1::AgentService::Service {
 public:
  ScriptedAgent();
  ~ScriptedAgent() override;

  // host:port
  std::string address() const;

  // Waits for a Session that has not been seen yet, and returns its terms. From then on Next() and
  // Say() are about that one.
  core::SessionTerms WaitForSession();
  // What comes next in it, acknowledgements of heartbeats left out; nothing when it is over.
  std::optional<core::DirectorWord> Next();
  // The next item; it has to be of that kind.
  template <class Item>
  Item NextItem() {
    return std::get<Item>(std::get<core::DirectorItem>(Next().value()));
  }
  // Waits until a heartbeat is acknowledged.
  core::HeartbeatAcknowledged NextHeartbeatAcknowledgement();

  void Say(const core::AgentWord& word) { SayTogether({word}); }
  // In one message.
  void SayTogether(const std::vector<core::AgentWord>& words);
  // Opens the Session as an agent of this name with so many slots and nothing to tell.
  void SayOpened(const std::string& name, uint32_t slots = 1);
  void Accept(const core::FenceToken& token);
  void Refuse(const core::FenceToken& token, const absl::Status& why);
  void Finish(const core::FenceToken& token, const core::RunResult& result = {.exit_code = 0});

  // Ends the Session.
  void HangUp();
  // From now on no Session is opened.
  void RefuseSessions(const absl::Status& why);

 private:
  struct Conversation;

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) override;
  std::shared_ptr<Conversation> current();
  // Unless the Session is over.
  void Use(absl::FunctionRef<void(Conversation&)> use);

  int port_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<std::shared_ptr<Conversation>> unseen_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Conversation> current_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SCRIPTED_AGENT_H_
