#include "libs/testing/scripted_agent.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/wire/session.h"
#include "libs/wire/status.h"

namespace callboard::test {

struct ScriptedAgent::SessionState {
  grpc::ServerContext* context;
  grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream;
  std::deque<core::DirectorMessage> received;
  std::deque<core::HeartbeatAck> acknowledged;
  bool ended = false;
  // Number of users of `context` and `stream`, which are destroyed when the call has ended.
  int users = 0;
};

ScriptedAgent::ScriptedAgent() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(static_cast<v1::AgentService::Service*>(this));
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

ScriptedAgent::~ScriptedAgent() { server_->Shutdown(absl::ToChronoTime(absl::InfinitePast())); }

std::string ScriptedAgent::address() const { return absl::StrCat("127.0.0.1:", port_); }

grpc::Status ScriptedAgent::Session(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) {
  {
    base::MutexLock lock(mutex_);
    if (!session_error_.ok()) return wire::ToGrpc(session_error_);
  }
  auto conversation = std::make_shared<SessionState>(SessionState{context, stream, {}, {}});
  bool seen = false;
  v1::SessionRequest request;
  while (stream->Read(&request)) {
    base::MutexLock lock(mutex_);
    for (const v1::SessionRequest::Item& item : request.items()) {
      core::DirectorMessage message = wire::FromProto(item).value();
      if (const auto* beat = std::get_if<core::HeartbeatAck>(&message)) {
        conversation->acknowledged.push_back(*beat);
      } else {
        conversation->received.push_back(std::move(message));
      }
    }
    if (!std::exchange(seen, true)) unseen_.push_back(conversation);
    changed_.NotifyAll();
  }
  base::MutexLock lock(mutex_);
  conversation->ended = true;
  changed_.NotifyAll();
  while (conversation->users > 0) changed_.Wait(mutex_);
  return grpc::Status::OK;
}

core::SessionTerms ScriptedAgent::WaitForSession() {
  base::MutexLock lock(mutex_);
  while (unseen_.empty()) changed_.Wait(mutex_);
  current_ = std::move(unseen_.front());
  unseen_.pop_front();
  const auto terms = std::get<core::SessionTerms>(current_->received.front());
  current_->received.pop_front();
  return terms;
}

std::shared_ptr<ScriptedAgent::SessionState> ScriptedAgent::current() {
  base::MutexLock lock(mutex_);
  CHECK(current_ != nullptr) << "WaitForSession() first";
  return current_;
}

void ScriptedAgent::WithSession(absl::FunctionRef<void(SessionState&)> use) {
  const std::shared_ptr<SessionState> conversation = current();
  {
    base::MutexLock lock(mutex_);
    if (conversation->ended) return;
    ++conversation->users;
  }
  use(*conversation);
  base::MutexLock lock(mutex_);
  --conversation->users;
  changed_.NotifyAll();
}

std::optional<core::DirectorMessage> ScriptedAgent::Next() {
  const std::shared_ptr<SessionState> conversation = current();
  base::MutexLock lock(mutex_);
  while (conversation->received.empty() && !conversation->ended) changed_.Wait(mutex_);
  if (conversation->received.empty()) return std::nullopt;
  core::DirectorMessage message = std::move(conversation->received.front());
  conversation->received.pop_front();
  return message;
}

core::HeartbeatAck ScriptedAgent::NextHeartbeatAcknowledgement() {
  const std::shared_ptr<SessionState> conversation = current();
  base::MutexLock lock(mutex_);
  while (conversation->acknowledged.empty()) changed_.Wait(mutex_);
  const core::HeartbeatAck acknowledged = conversation->acknowledged.front();
  conversation->acknowledged.pop_front();
  return acknowledged;
}

void ScriptedAgent::SendTogether(const std::vector<core::AgentMessage>& messages) {
  v1::SessionResponse response;
  for (const core::AgentMessage& message : messages) *response.add_items() = wire::ToProto(message);
  WithSession([&](SessionState& conversation) { conversation.stream->Write(response); });
}

void ScriptedAgent::SendOpened(const std::string& name, uint32_t slots) {
  Send(core::SessionOpened{.name = name,
                           .instance_id = absl::StrCat(name, "/1"),
                           .url = absl::StrCat("grpc://", address()),
                           .lanes = {{"default", {.slots = slots}}},
                           .agent_time = absl::Seconds(1)});
}

void ScriptedAgent::Accept(const core::FenceToken& token) {
  Send(core::StartAnswer{token, absl::OkStatus()});
}

void ScriptedAgent::Reject(const core::FenceToken& token, const absl::Status& why) {
  Send(core::StartAnswer{token, why});
}

void ScriptedAgent::Finish(const core::FenceToken& token, const core::RunResult& result) {
  Send(core::RunEnded{token, result});
}

void ScriptedAgent::EndSession() {
  WithSession([](SessionState& conversation) { conversation.context->TryCancel(); });
}

void ScriptedAgent::RejectSessions(const absl::Status& why) {
  base::MutexLock lock(mutex_);
  session_error_ = why;
}

}  // namespace callboard::test
