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

struct ScriptedAgent::Conversation {
  grpc::ServerContext* context;
  grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream;
  std::deque<core::DirectorWord> heard;
  std::deque<core::HeartbeatAcknowledged> acknowledged;
  bool over = false;
  // Who is at `context` or `stream`, which are gone when the call has ended.
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
    if (!refusal_.ok()) return wire::ToGrpc(refusal_);
  }
  auto conversation = std::make_shared<Conversation>(Conversation{context, stream, {}, {}});
  bool seen = false;
  v1::SessionRequest request;
  while (stream->Read(&request)) {
    base::MutexLock lock(mutex_);
    for (const v1::SessionRequest::Item& item : request.items()) {
      core::DirectorWord word = wire::FromProto(item).value();
      if (const auto* beat = std::get_if<core::HeartbeatAcknowledged>(&word)) {
        conversation->acknowledged.push_back(*beat);
      } else {
        conversation->heard.push_back(std::move(word));
      }
    }
    if (!std::exchange(seen, true)) unseen_.push_back(conversation);
    changed_.NotifyAll();
  }
  base::MutexLock lock(mutex_);
  conversation->over = true;
  changed_.NotifyAll();
  while (conversation->users > 0) changed_.Wait(mutex_);
  return grpc::Status::OK;
}

core::SessionTerms ScriptedAgent::WaitForSession() {
  base::MutexLock lock(mutex_);
  while (unseen_.empty()) changed_.Wait(mutex_);
  current_ = std::move(unseen_.front());
  unseen_.pop_front();
  const auto terms = std::get<core::SessionTerms>(current_->heard.front());
  current_->heard.pop_front();
  return terms;
}

std::shared_ptr<ScriptedAgent::Conversation> ScriptedAgent::current() {
  base::MutexLock lock(mutex_);
  CHECK(current_ != nullptr) << "WaitForSession() first";
  return current_;
}

void ScriptedAgent::Use(absl::FunctionRef<void(Conversation&)> use) {
  const std::shared_ptr<Conversation> conversation = current();
  {
    base::MutexLock lock(mutex_);
    if (conversation->over) return;
    ++conversation->users;
  }
  use(*conversation);
  base::MutexLock lock(mutex_);
  --conversation->users;
  changed_.NotifyAll();
}

std::optional<core::DirectorWord> ScriptedAgent::Next() {
  const std::shared_ptr<Conversation> conversation = current();
  base::MutexLock lock(mutex_);
  while (conversation->heard.empty() && !conversation->over) changed_.Wait(mutex_);
  if (conversation->heard.empty()) return std::nullopt;
  core::DirectorWord word = std::move(conversation->heard.front());
  conversation->heard.pop_front();
  return word;
}

core::HeartbeatAcknowledged ScriptedAgent::NextHeartbeatAcknowledgement() {
  const std::shared_ptr<Conversation> conversation = current();
  base::MutexLock lock(mutex_);
  while (conversation->acknowledged.empty()) changed_.Wait(mutex_);
  const core::HeartbeatAcknowledged acknowledged = conversation->acknowledged.front();
  conversation->acknowledged.pop_front();
  return acknowledged;
}

void ScriptedAgent::SayTogether(const std::vector<core::AgentWord>& words) {
  v1::SessionResponse response;
  for (const core::AgentWord& word : words) *response.add_items() = wire::ToProto(word);
  Use([&](Conversation& conversation) { conversation.stream->Write(response); });
}

void ScriptedAgent::SayOpened(const std::string& name, uint32_t slots) {
  Say(core::AgentOpened{.name = name,
                        .instance_id = absl::StrCat(name, "/1"),
                        .url = absl::StrCat("grpc://", address()),
                        .lanes = {{"default", {.slots = slots}}},
                        .agent_time = absl::Seconds(1)});
}

void ScriptedAgent::Accept(const core::FenceToken& token) {
  Say(core::AgentItem(core::StartAnswered{token, absl::OkStatus()}));
}

void ScriptedAgent::Refuse(const core::FenceToken& token, const absl::Status& why) {
  Say(core::AgentItem(core::StartAnswered{token, why}));
}

void ScriptedAgent::Finish(const core::FenceToken& token, const core::RunResult& result) {
  Say(core::AgentItem(core::RunEnded{token, result}));
}

void ScriptedAgent::HangUp() {
  Use([](Conversation& conversation) { conversation.context->TryCancel(); });
}

void ScriptedAgent::RefuseSessions(const absl::Status& why) {
  base::MutexLock lock(mutex_);
  refusal_ = why;
}

}  // namespace callboard::test
