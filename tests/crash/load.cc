#include "tests/crash/load.h"

#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/core/hash.h"
#include "libs/testing/fake_environment.h"

namespace callboard::crash {
namespace {

// Calls of each client before the first one that removes a task from the queue.
constexpr int kSubmitsFirst = 3;

class Client {
 public:
  Client(const Load& load, int number, const std::string& address, const TickSource& ticks)
      : load_(load),
        number_(number),
        ticks_(ticks),
        client_(address),
        random_(core::StableHash().Add(load.seed).Add(static_cast<uint64_t>(number)).value()) {}

  void Run() {
    for (int i = 0; i < load_.calls_per_client && !is_open_; ++i) {
      if (load_.has_checkpoint && number_ == 0 && i == load_.calls_per_client / 2) {
        End(client_.CreateCheckpoint(load_.name));
      } else {
        MakeCall(i);
      }
    }
  }

  History TakeHistory() { return std::move(history_); }

 private:
  void MakeCall(int i) {
    const uint64_t choice = random_.Below(10);
    if (i < kSubmitsFirst || choice < 4 || accepted_.empty()) return Submit(i);
    const size_t which = random_.Below(accepted_.size());
    if (choice < 6) return Cancel(history_[accepted_[which]].queue_id);
    if (choice == 6) return Record(Resubmit(history_[accepted_[which]], client_, ticks_));
    if (choice < 9) return List();
    End(client_.Get(history_[accepted_[which]].queue_id).status());
  }

  void Submit(int i) {
    Call call = {.request_id = absl::StrCat(load_.name, "/", number_, "/", i)};
    // Some are larger than several blocks of the store's log.
    const uint64_t size = random_.Below(8) == 0 ? 90'000 : random_.Below(600);
    call.content = absl::StrCat(call.request_id, " ", std::string(size, 'a' + i % 26));
    accepted_.push_back(history_.size());
    Record(Resubmit(call, client_, ticks_));
    if (history_.back().answer != Call::Answer::kDone) accepted_.pop_back();
  }

  void Cancel(const std::string& queue_id) {
    Call call = {.kind = Call::Kind::kCancel, .invoked = ticks_(), .queue_id = queue_id};
    call.answer = AnswerFrom(client_.Cancel(queue_id));
    Record(std::move(call));
  }

  void List() {
    Call call = {.kind = Call::Kind::kList, .invoked = ticks_()};
    absl::StatusOr<std::vector<std::string>> queue = client_.ListQueue();
    call.answer = AnswerFrom(queue.status());
    if (queue.ok()) call.queue = *std::move(queue);
    Record(std::move(call));
  }

  void Record(Call call) {
    if (call.answer != Call::Answer::kUnknown && call.answered == kNever) call.answered = ticks_();
    is_open_ = call.answer == Call::Answer::kUnknown;
    history_.push_back(std::move(call));
  }

  // Ends a call that changes nothing.
  void End(const absl::Status& status) { is_open_ = AnswerFrom(status) == Call::Answer::kUnknown; }

  const Load& load_;
  const int number_;
  const TickSource& ticks_;
  QueueClient client_;
  test::FakeRandom random_;
  History history_;
  // Indexes in the history.
  std::vector<size_t> accepted_;
  // The last call was not answered because the director is gone.
  bool is_open_ = false;
};

}  // namespace

History RunLoad(const Load& load, const std::string& address, const TickSource& ticks) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<Client>(load, i, address, ticks));
  }
  for (const auto& client : clients) threads.emplace_back([&client] { client->Run(); });
  for (std::thread& thread : threads) thread.join();
  History history;
  for (const auto& client : clients) {
    for (Call& call : client->TakeHistory()) history.push_back(std::move(call));
  }
  return history;
}

Call Resubmit(const Call& call, QueueClient& client, const TickSource& ticks) {
  Call again = {.request_id = call.request_id, .content = call.content};
  again.invoked = ticks();
  const absl::StatusOr<QueueClient::SubmitAnswer> submitted =
      client.Submit(call.request_id, call.content);
  again.answer = AnswerFrom(submitted.status());
  if (again.answer != Call::Answer::kUnknown) again.answered = ticks();
  if (submitted.ok()) {
    again.queue_id = submitted->queue_id;
    again.position = submitted->position;
    again.deduplicated = submitted->deduplicated;
  }
  return again;
}

Call::Answer AnswerFrom(const absl::Status& status) {
  if (status.ok()) return Call::Answer::kDone;
  const std::string reason = base::GetErrorDetails(status).reason;
  // The connection broke or the call timed out, which gRPC reports in several ways; or the disk
  // failed.
  const bool is_broken = absl::IsUnavailable(status) || absl::IsUnknown(status) ||
                         absl::IsDeadlineExceeded(status) || absl::IsInternal(status) ||
                         absl::IsCancelled(status);
  if ((is_broken && reason.empty()) || reason == "OUTCOME_UNKNOWN") return Call::Answer::kUnknown;
  static const std::set<std::string>& rejections = *new std::set<std::string>{
      "STORE_FULL", "STORE_UNAVAILABLE", "QUEUE_DRAINING", "OVERLOADED", "TASK_NOT_FOUND"};
  CHECK(rejections.contains(reason)) << status.ToString();
  return Call::Answer::kRejected;
}

}  // namespace callboard::crash
