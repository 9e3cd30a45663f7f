#include "services/director/query_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "libs/testing/status_matchers.h"
#include "libs/testing/submissions.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

v1::AnnounceAgentRequest AnnounceRequest(const std::string& name = "agent-1",
                                         const std::string& address = "127.0.0.1:7071") {
  v1::AnnounceAgentRequest request;
  request.set_name(name);
  request.set_address(address);
  request.set_instance_id("life-1");
  return request;
}

absl::Status ParseStatus(const v1::AnnounceAgentRequest& request) {
  return AnnouncementFrom(request).status();
}

TEST(AgentListTest, AnnouncementHasNameAddressLabelsAndLanes) {
  v1::AnnounceAgentRequest request = AnnounceRequest();
  (*request.mutable_labels())["gpu"] = "yes";
  v1::Lane& lane = *request.add_lanes();
  lane.set_name("build");
  lane.set_slots(2);
  const auto announced = AnnouncementFrom(request);
  ASSERT_THAT(announced, IsOk());
  EXPECT_EQ(announced->name, "agent-1");
  EXPECT_EQ(announced->instance_id, "life-1");
  EXPECT_EQ(announced->url, "grpc://127.0.0.1:7071");
  EXPECT_EQ(announced->labels.at("gpu"), "yes");
  EXPECT_EQ(announced->lanes.at("build").slots, 2u);
}

TEST(AgentListTest, NameHasOnlyLowerCaseLettersDigitsAndHyphens) {
  for (const std::string name : {"", "Agent", "a b", "a/b", "ä"}) {
    EXPECT_THAT(ParseStatus(AnnounceRequest(name)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name may contain only")));
  }
  EXPECT_THAT(ParseStatus(AnnounceRequest(std::string(257, 'a'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("name has 257 bytes, at most 256 are allowed")));
}

TEST(AgentListTest, AddressMustBeHostAndPort) {
  for (const std::string address : {"localhost:1", "agent-1.agents.svc:65535", "[::1]:7071"}) {
    EXPECT_THAT(ParseStatus(AnnounceRequest("a", address)), IsOk()) << address;
  }
  for (const std::string address : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x",
                                    "unix:/tmp/socket:1", "::1:7071", "[]:1", "a b:1"}) {
    EXPECT_THAT(ParseStatus(AnnounceRequest("a", address)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("address is not host:port")))
        << address;
  }
}

TEST(AgentListTest, AnnouncementHasLimits) {
  v1::AnnounceAgentRequest request = AnnounceRequest();
  request.clear_instance_id();
  EXPECT_THAT(ParseStatus(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("instance_id is required")));
  request = AnnounceRequest();
  for (int i = 0; i < 33; ++i) (*request.mutable_labels())[std::to_string(i)] = "";
  EXPECT_THAT(ParseStatus(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("labels has 33 entries, at most 32")));
  request = AnnounceRequest();
  request.add_lanes()->set_slots(1001);
  EXPECT_THAT(ParseStatus(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lanes has an entry")));
  request.mutable_lanes(0)->set_name("default");
  EXPECT_THAT(ParseStatus(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("lanes has 1001 slots in a lane")));
}

TEST(AgentListTest, AgentIsConvertedWithAllFields) {
  const core::QueueId task(core::Ulid(1, 2));
  const v1::Agent proto = ToProto({.name = "a",
                                   .url = "grpc://a:1",
                                   .instance_id = "life",
                                   .state = director::AgentState::kSuspect,
                                   .why = "could not be reached",
                                   .labels = {{"gpu", "yes"}},
                                   .lanes = {{"default", {.slots = 2, .used = 1}}},
                                   .last_seen_at = absl::FromUnixSeconds(7),
                                   .suspect_until = absl::FromUnixSeconds(9),
                                   .running = {task}});
  EXPECT_EQ(proto.name(), "a");
  EXPECT_EQ(proto.agent_url(), "grpc://a:1");
  EXPECT_EQ(proto.instance_id(), "life");
  EXPECT_EQ(proto.state(), v1::Agent::STATE_SUSPECT);
  EXPECT_EQ(proto.state_why(), "could not be reached");
  EXPECT_EQ(proto.labels().at("gpu"), "yes");
  ASSERT_EQ(proto.lanes_size(), 1);
  EXPECT_EQ(proto.lanes(0).name(), "default");
  EXPECT_EQ(proto.lanes(0).slots(), 2u);
  EXPECT_EQ(proto.lanes(0).busy(), 1u);
  EXPECT_EQ(proto.last_seen_at().seconds(), 7);
  EXPECT_EQ(proto.suspect_until().seconds(), 9);
  ASSERT_EQ(proto.running_queue_ids_size(), 1);
  EXPECT_EQ(proto.running_queue_ids(0), core::ToString(task));
}

TEST(AgentListTest, PageTokenNamesTheLastAgent) {
  director::AgentPage page = {.agents = {{.name = "a"}, {.name = "b"}}};
  EXPECT_EQ(ListResponse(page).next_page_token(), "");
  page.has_more = true;
  v1::ListAgentsRequest next;
  next.set_page_token(ListResponse(page).next_page_token());
  const auto query = AgentQueryFrom(next);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->after, "b");
  next.set_page_token("%");
  EXPECT_THAT(AgentQueryFrom(next),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
}

TEST(AgentListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::AgentPage page;
  for (int i = 1000; i < 2000; ++i) {
    page.agents.push_back({.name = std::to_string(i), .why = std::string(4096, 'x')});
  }
  const v1::ListAgentsResponse response = ListResponse(page);
  EXPECT_LT(response.agents_size(), 1000);
  EXPECT_NE(response.next_page_token(), "");
}

TEST(AgentListTest, DrainReasonHasALimit) {
  v1::DrainAgentRequest request;
  request.set_why(std::string(4097, 'x'));
  EXPECT_THAT(DrainReasonFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("why has 4097 bytes")));
}

using ::testing::ElementsAre;

director::TaskPage::Item Item(uint64_t sequence, const std::string& error = "") {
  core::Task task;
  task.queue_id = core::QueueId(core::Ulid(1, sequence));
  task.last_error = error;
  return {task, {.live = sequence}};
}

TEST(TaskQueryTest, ExactlyOneIdIsRequired) {
  v1::GetTaskRequest request;
  const auto is_wrong = [](const std::string& problem) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(problem));
  };
  EXPECT_THAT(TaskQueryFrom(request), is_wrong("queue_id is required"));
  request.set_request_id("r");
  ASSERT_THAT(TaskQueryFrom(request), IsOk());
  EXPECT_EQ(TaskQueryFrom(request)->request_id, "r");
  EXPECT_EQ(TaskQueryFrom(request)->queue_id, std::nullopt);
  request.set_queue_id(core::ToString(core::QueueId(core::Ulid(1, 1))));
  EXPECT_THAT(TaskQueryFrom(request), is_wrong("request_id must not be set"));
  request.clear_request_id();
  EXPECT_EQ(TaskQueryFrom(request)->queue_id, core::QueueId(core::Ulid(1, 1)));
  request.set_queue_id("queue-1");
  EXPECT_THAT(TaskQueryFrom(request), is_wrong("queue_id is not a queue id"));
  request.clear_queue_id();
  request.set_request_id(std::string(129, 'r'));
  EXPECT_THAT(TaskQueryFrom(request), is_wrong("request_id has 129 bytes"));
}

TEST(TaskListTest, EmptyRequestAsksForTheFirstFiftyTasks) {
  const auto query = ListQueryFrom({});
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->page_size, 50u);
  EXPECT_TRUE(query->states.empty());
  EXPECT_EQ(query->after, std::nullopt);
  EXPECT_EQ(query->ready, std::nullopt);
}

TEST(TaskListTest, EveryFilterIsParsed) {
  v1::ListTasksRequest request;
  request.add_states(v1::Task::STATE_PENDING);
  request.add_states(v1::Task::STATE_FAILED);
  request.set_source("cli");
  request.set_source_job("job");
  request.set_job_type("report");
  request.set_session_id("session");
  request.set_label("team=a=b");
  request.set_ready(false);
  request.set_page_size(1000);
  const auto query = ListQueryFrom(request);
  ASSERT_THAT(query, IsOk());
  EXPECT_THAT(query->states,
              ElementsAre(core::LifecycleState::kPending, core::LifecycleState::kFailed));
  EXPECT_EQ(query->source, core::TaskSource::kCli);
  EXPECT_EQ(query->source_job, "job");
  EXPECT_EQ(query->job_type, "report");
  EXPECT_EQ(query->session_id, "session");
  EXPECT_EQ(query->label, "team");
  EXPECT_EQ(query->label_value, "a=b");
  EXPECT_EQ(query->ready, false);
  EXPECT_EQ(query->page_size, 1000u);
  request.set_label("team");
  EXPECT_EQ(ListQueryFrom(request)->label_value, std::nullopt);
}

TEST(TaskListTest, WrongFieldIsNamed) {
  const auto wrong = [](auto set) {
    v1::ListTasksRequest request;
    set(request);
    return ListQueryFrom(request).status();
  };
  EXPECT_THAT(wrong([](auto& request) { request.set_source("mail"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("source must be one of")));
  EXPECT_THAT(
      wrong([](auto& request) { request.set_page_size(1001); }),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size is 1001, not between")));
  EXPECT_THAT(wrong([](auto& request) { request.set_page_size(-1); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
  EXPECT_THAT(wrong([](auto& request) { request.set_label("=a"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("label has no key")));
  EXPECT_THAT(wrong([](auto& request) { request.set_page_token("bGl2ZS94"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  EXPECT_THAT(wrong([](auto& request) { request.add_states(static_cast<v1::Task::State>(99)); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("states")));
}

TEST(TaskListTest, PageTokenContinuesAtTheNextPage) {
  const director::ListCursor cursors[] = {
      {.live = 7},
      {.ended = {absl::FromUnixNanos(1'700'000'000'123'456'789), core::QueueId(core::Ulid(1, 2))}},
  };
  for (const director::ListCursor& cursor : cursors) {
    const v1::ListTasksResponse response = ListResponse({.tasks = {Item(7)}, .next = cursor});
    v1::ListTasksRequest next;
    next.set_page_token(response.next_page_token());
    const auto query = ListQueryFrom(next);
    ASSERT_THAT(query, IsOk());
    EXPECT_EQ(query->after, cursor);
  }
}

TEST(TaskListTest, LastPageHasNoToken) {
  EXPECT_EQ(ListResponse({.tasks = {Item(1)}}).next_page_token(), "");
}

TEST(TaskListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::TaskPage page;
  for (uint64_t i = 1; i <= 1000; ++i) page.tasks.push_back(Item(i, std::string(4096, 'x')));
  const v1::ListTasksResponse response = ListResponse(page);
  EXPECT_LE(response.ByteSizeLong(), (3u << 20) + 100) << "with the token";
  const uint64_t shown = static_cast<uint64_t>(response.tasks_size());
  EXPECT_GT(shown, 500u);
  v1::ListTasksRequest next;
  next.set_page_token(response.next_page_token());
  EXPECT_EQ(ListQueryFrom(next)->after->live, shown);
}

constexpr char kTask[] = "queue-01hf81rywx2hm2aptby9afwnwa";

v1::ListTaskEventsRequest EventsRequest(const std::string& page_token = "") {
  v1::ListTaskEventsRequest request;
  request.set_queue_id(kTask);
  request.set_page_token(page_token);
  return request;
}

TEST(EventListTest, DefaultPageIsTheFirstFiftyEvents) {
  const auto query = EventQueryFrom(EventsRequest());
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(core::ToString(query->queue_id), kTask);
  EXPECT_EQ(query->first, 0u);
  EXPECT_EQ(query->page_size, 50u);
}

TEST(EventListTest, WrongFieldIsNamed) {
  EXPECT_THAT(EventQueryFrom({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id is required")));
  EXPECT_THAT(EventQueryFrom(EventsRequest("bGl2ZS94")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  v1::ListTaskEventsRequest request = EventsRequest();
  request.set_page_size(-1);
  EXPECT_THAT(EventQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
}

TEST(EventListTest, PageTokenContinuesAtTheNextPage) {
  const director::EventPage page = {.events = {{.number = 1}, {.number = 1}}, .first = 3};
  EXPECT_EQ(ListResponse(page).next_page_token(), "") << "the last page has no token";
  director::EventPage first = page;
  first.has_more = true;
  const v1::ListTaskEventsResponse response = ListResponse(first);
  EXPECT_EQ(response.events_size(), 2);
  EXPECT_EQ(EventQueryFrom(EventsRequest(response.next_page_token()))->first, 5u);
}

TEST(EventListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::EventPage page;
  page.events.resize(1000, {.why = std::string(4096, 'x')});
  const v1::ListTaskEventsResponse response = ListResponse(page);
  EXPECT_LT(response.ByteSizeLong(), (3u << 20) + 100);
  EXPECT_EQ(EventQueryFrom(EventsRequest(response.next_page_token()))->first,
            static_cast<size_t>(response.events_size()));
}

director::WatchUpdate::Item WatchItem() {
  auto task = std::make_shared<core::Task>();
  task->queue_id = *core::ParseQueueId(kTask);
  v1::SubmitTaskRequest submit = test::MakeSubmit(std::string(2000, 'x'));
  (*submit.mutable_env())["TOKEN"] = "secret";
  task->spec = test::ToSpec(submit)->bytes;
  return {task};
}

TEST(WatchListTest, EmptyRequestWatchesAllTasksFromTheBeginning) {
  const auto query = WatchQueryFrom({});
  ASSERT_THAT(query, IsOk());
  EXPECT_TRUE(query->tasks.empty());
  EXPECT_FALSE(query->resumes);
  EXPECT_EQ(query->from, std::nullopt);
}

TEST(WatchListTest, WrongFieldIsNamed) {
  v1::WatchTasksRequest request;
  request.add_queue_ids(kTask);
  request.add_queue_ids("queue-1");
  EXPECT_THAT(WatchQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_ids[1] is no")));
  while (request.queue_ids_size() <= 1000) request.add_queue_ids(kTask);
  EXPECT_THAT(WatchQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("queue_ids has 1001 entries, at most")));
  request.clear_queue_ids();
  request.set_resume_token("bGl2ZS94");
  EXPECT_THAT(WatchQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("resume_token is not a token")));
}

TEST(WatchListTest, ResumeTokenContinuesTheWatch) {
  const director::FeedCursor cursor = {.epoch = 3, .number = 77};
  v1::WatchTasksRequest next;
  next.set_resume_token(ToProto(director::WatchUpdate{.cursor = cursor}).resume_token());
  EXPECT_EQ(WatchQueryFrom(next)->from, cursor);
  next.set_resume_token(ToProto(director::WatchUpdate{}).resume_token());
  EXPECT_NE(next.resume_token(), "");
  EXPECT_TRUE(WatchQueryFrom(next)->resumes);
  EXPECT_EQ(WatchQueryFrom(next)->from, std::nullopt) << "resumes from the beginning";
}

TEST(WatchListTest, TasksAreListedWithTheirEvents) {
  director::WatchUpdate update = {.items = {WatchItem(), WatchItem()}, .reset = true};
  update.items[1].event = core::TaskEvent{.number = 5, .kind = core::TaskEventKind::kDone};
  const v1::WatchTasksResponse response = ToProto(update);
  EXPECT_TRUE(response.reset());
  ASSERT_EQ(response.changes_size(), 2);
  EXPECT_EQ(response.changes(0).task().queue_id(), kTask);
  EXPECT_TRUE(response.changes(0).task().prompt_truncated());
  EXPECT_EQ(response.changes(0).task().env().at("TOKEN"), "");
  EXPECT_FALSE(response.changes(0).has_event());
  EXPECT_EQ(response.changes(1).event().number(), 5u);
  EXPECT_EQ(response.changes(1).event().kind(), v1::TaskEvent::KIND_DONE);
}

const core::QueueId kTaskId(core::Ulid(1, 2));

TEST(SessionListTest, SessionIsConvertedWithAllFields) {
  const v1::ListSessionsResponse response =
      ListResponse({.sessions = {{.session_id = "s",
                                  .agent = "a",
                                  .queued = 2,
                                  .running = kTaskId,
                                  .active_at = absl::FromUnixSeconds(7)},
                                 {.session_id = "t"}}});
  ASSERT_EQ(response.sessions_size(), 2);
  EXPECT_EQ(response.sessions(0).session_id(), "s");
  EXPECT_EQ(response.sessions(0).agent(), "a");
  EXPECT_EQ(response.sessions(0).queued(), 2u);
  EXPECT_EQ(response.sessions(0).running_queue_id(), core::ToString(kTaskId));
  EXPECT_EQ(response.sessions(0).last_active_at().seconds(), 7);
  EXPECT_EQ(response.sessions(1).running_queue_id(), "");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST(SessionListTest, PageTokenContinuesAtTheNextPage) {
  v1::ListSessionsRequest next;
  next.set_page_token(ListResponse({.next = "s"}).next_page_token());
  next.set_page_size(3);
  const auto query = TaskSessionQueryFrom(next);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->after, "s");
  EXPECT_EQ(query->page_size, 3u);
}

TEST(SessionListTest, WrongFieldIsNamed) {
  v1::ListSessionsRequest request;
  request.set_page_token("%");
  EXPECT_THAT(TaskSessionQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  request.set_page_token("");
  request.set_page_size(1001);
  EXPECT_THAT(TaskSessionQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
}

TEST(ExplanationTest, AllFieldsOfTheEngineAreConverted) {
  const v1::ExplainTaskResponse proto =
      ToProto(kTaskId, {.state = core::LifecycleState::kPending,
                        .position = 3,
                        .ready_ahead = 2,
                        .summary = "2 tasks are ahead in the queue",
                        .not_before = absl::FromUnixSeconds(7),
                        .agents = {{"a", false, "busy"}, {"b", true, ""}},
                        .estimated_start_at = absl::FromUnixSeconds(9)});
  EXPECT_EQ(proto.queue_id(), core::ToString(kTaskId));
  EXPECT_EQ(proto.state(), v1::Task::STATE_PENDING);
  EXPECT_EQ(proto.position(), 3u);
  EXPECT_EQ(proto.ready_ahead(), 2u);
  EXPECT_EQ(proto.summary(), "2 tasks are ahead in the queue");
  EXPECT_EQ(proto.not_before().seconds(), 7);
  ASSERT_EQ(proto.agents_size(), 2);
  EXPECT_EQ(proto.agents(0).agent(), "a");
  EXPECT_EQ(proto.agents(0).why_not(), "busy");
  EXPECT_FALSE(proto.agents(0).fits());
  EXPECT_TRUE(proto.agents(1).fits());
  EXPECT_EQ(proto.estimated_start_at().seconds(), 9);
}

TEST(ExplanationTest, UnknownFieldsAreAbsent) {
  const v1::ExplainTaskResponse proto =
      ToProto(kTaskId, {.state = core::LifecycleState::kCompleted});
  EXPECT_EQ(proto.state(), v1::Task::STATE_COMPLETED);
  EXPECT_FALSE(proto.has_not_before());
  EXPECT_FALSE(proto.has_estimated_start_at());
}

}  // namespace
}  // namespace callboard
