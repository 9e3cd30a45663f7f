#include "services/cli/task_board.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/time.h"

namespace callboard::cli {
namespace {

absl::Time TimeOf(const google::protobuf::Timestamp& proto) {
  return wire::FromProto(proto).value_or(absl::InfinitePast());
}

// Not as it was: shown again.
bool Differs(const v1::Task& a, const v1::Task& b) {
  return std::make_tuple(a.state(), a.dispatch(), a.attempts()) !=
         std::make_tuple(b.state(), b.dispatch(), b.attempts());
}

bool IsPending(const v1::Task* task) { return task->state() == v1::Task::STATE_PENDING; }

}  // namespace

bool IsEnded(v1::Task::State state) {
  return state == v1::Task::STATE_COMPLETED || state == v1::Task::STATE_FAILED ||
         state == v1::Task::STATE_CANCELLED;
}

TaskBoard::TaskBoard(const std::vector<std::string>& named) : named_(named.begin(), named.end()) {}

std::vector<v1::WatchTasksResponse::Change> TaskBoard::Take(const v1::WatchTasksResponse& message) {
  resume_token_ = message.resume_token();
  if (message.reset()) {
    before_ = std::move(tasks_);
    tasks_.clear();
    ended_.clear();
    latest_before_ = latest_;
  }
  std::vector<v1::WatchTasksResponse::Change> news;
  for (const v1::WatchTasksResponse::Change& change : message.changes()) {
    const v1::Task& task = change.task();
    const v1::TaskEvent& event = change.event();
    if (change.has_event() || IsNew(task)) news.push_back(change);
    if (!event.agent().empty() && event.dispatch() == task.dispatch()) {
      agents_[task.agent_url()] = event.agent();
    }
    latest_ = std::max({latest_, TimeOf(event.at()), TimeOf(task.finished_at())});
    Put(task);
  }
  return news;
}

bool TaskBoard::IsNew(const v1::Task& task) const {
  for (const std::map<std::string, v1::Task>* known : {&tasks_, &before_}) {
    const auto found = known->find(task.queue_id());
    if (found != known->end()) return Differs(task, found->second);
  }
  return !IsEnded(task.state()) || named_.contains(task.queue_id()) ||
         TimeOf(task.finished_at()) > latest_before_;
}

void TaskBoard::Put(const v1::Task& task) {
  tasks_[task.queue_id()] = task;
  if (!IsEnded(task.state())) return;
  ended_.emplace(TimeOf(task.finished_at()), task.queue_id());
  if (!named_.empty() || ended_.size() <= kEndedMax) return;
  tasks_.erase(ended_.begin()->second);
  ended_.erase(ended_.begin());
}

v1::WatchTasksRequest TaskBoard::Request() const {
  v1::WatchTasksRequest request;
  for (const std::string& id : named_) request.add_queue_ids(id);
  request.set_resume_token(resume_token_);
  return request;
}

std::vector<const v1::Task*> TaskBoard::Live() const {
  std::vector<const v1::Task*> live;
  for (const auto& [id, task] : tasks_) {
    if (!IsEnded(task.state())) live.push_back(&task);
  }
  std::stable_partition(live.begin(), live.end(), std::not_fn(IsPending));
  return live;
}

std::vector<const v1::Task*> TaskBoard::Ended() const {
  std::vector<const v1::Task*> ended;
  for (auto each = ended_.rbegin(); each != ended_.rend(); ++each) {
    ended.push_back(&tasks_.at(each->second));
  }
  return ended;
}

std::string TaskBoard::AgentOf(const v1::Task& task) const {
  const auto found = agents_.find(task.agent_url());
  if (found != agents_.end()) return found->second;
  return std::string(absl::StripPrefix(task.agent_url(), "grpc://"));
}

absl::Status TaskBoard::Verdict() const {
  std::vector<std::string> others;
  for (const std::string& id : named_) {
    const auto found = tasks_.find(id);
    const v1::Task::State state =
        found == tasks_.end() ? v1::Task::STATE_UNSPECIFIED : found->second.state();
    if (state == v1::Task::STATE_COMPLETED) continue;
    others.push_back(absl::StrCat(id, " ", wire::EnumText(*v1::Task::State_descriptor(), state)));
  }
  if (others.empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(others.size(), " of ", named_.size(),
                                         " tasks did not complete: ", absl::StrJoin(others, ", ")));
}

}  // namespace callboard::cli
