#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<core::QueueId> Ids(const ListPage& page) {
  std::vector<core::QueueId> ids;
  for (const ListPage::Item& item : page.tasks) ids.push_back(item.summary.queue_id);
  return ids;
}

std::vector<core::QueueId> List(EngineFixture& director, const ListQuery& query = {}) {
  return Ids(director.engine().views().List(query));
}

TEST(EngineListTest, LiveTasksComeInQueueOrderThenEndedTasks) {
  EngineFixture director;
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 5; ++i) tasks.push_back(director.Add());
  for (const int ended : {3, 0}) {
    director.Advance(absl::Seconds(1));
    director.Cancel(tasks[ended]);
  }
  EXPECT_THAT(List(director), ElementsAre(tasks[1], tasks[2], tasks[4], tasks[0], tasks[3]));
}

TEST(EngineListTest, PagesCoverTheWholeList) {
  EngineFixture director;
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(director.Add());
  for (int i = 0; i < 5; ++i) {
    director.Advance(absl::Seconds(1));
    director.Cancel(tasks[i]);
  }
  const std::vector<core::QueueId> whole = List(director);
  for (const size_t page_size : {1u, 2u, 3u, 7u, 10u}) {
    std::vector<core::QueueId> together;
    ListQuery query = {.page_size = page_size};
    do {
      const ListPage page = director.engine().views().List(query);
      EXPECT_LE(page.tasks.size(), page_size);
      for (const core::QueueId id : Ids(page)) together.push_back(id);
      query.after = page.next;
    } while (query.after.has_value());
    EXPECT_EQ(together, whole);
  }
}

TEST(EngineListTest, TaskThatEndsBetweenTwoPagesIsListed) {
  EngineFixture director;
  const core::QueueId first = director.Add();
  const core::QueueId second = director.Add();
  const core::QueueId third = director.Add();
  const ListPage page = director.engine().views().List({.page_size = 1});
  EXPECT_THAT(Ids(page), ElementsAre(first));
  director.Cancel(second);
  EXPECT_THAT(List(director, {.after = page.next}), ElementsAre(third, second));
}

TEST(EngineListTest, EveryFilterSelectsMatchingTasks) {
  EngineFixture director;
  core::SessionOpened busy = EngineFixture::IdleAgent("a");
  busy.lanes["default"].used = 1;
  director.Connect(busy);
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.source = core::TaskSource::kCli;
  const core::QueueId cli = director.Add(submission);
  submission = EngineFixture::Prompt();
  submission.spec.terms.source_job = "nightly";
  submission.spec.terms.job_type = "report";
  const core::QueueId nightly = director.Add(submission);
  submission = EngineFixture::Prompt();
  submission.spec.session_id = "s";
  const core::QueueId session = director.Add(submission);
  submission = EngineFixture::Prompt();
  submission.spec.terms.labels = {{"team", "a"}};
  const core::QueueId labelled = director.Add(submission);
  submission = EngineFixture::Prompt();
  submission.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId delayed = director.Add(submission);

  EXPECT_THAT(List(director, {.source = core::TaskSource::kCli}), ElementsAre(cli));
  EXPECT_THAT(List(director, {.source_job = "nightly"}), ElementsAre(nightly));
  EXPECT_THAT(List(director, {.job_type = "report"}), ElementsAre(nightly));
  EXPECT_THAT(List(director, {.job_type = "repor"}), IsEmpty());
  EXPECT_THAT(List(director, {.session_id = "s"}), ElementsAre(session));
  EXPECT_THAT(List(director, {.label = "team"}), ElementsAre(labelled));
  EXPECT_THAT(List(director, {.label = "team", .label_value = "a"}), ElementsAre(labelled));
  EXPECT_THAT(List(director, {.label = "team", .label_value = "b"}), IsEmpty());
  EXPECT_THAT(List(director, {.ready = false}), ElementsAre(delayed));
  EXPECT_THAT(List(director, {.ready = true}), ElementsAre(cli, nightly, session, labelled));
  director.Cancel(nightly);
  EXPECT_THAT(List(director, {.states = {core::LifecycleState::kCancelled}}), ElementsAre(nightly));
}

TEST(EngineListTest, PageExaminesABoundedNumberOfTasks) {
  EngineFixture director({.queue = {.max_size = 0}});
  core::Submission submission = EngineFixture::Prompt();
  for (int i = 0; i < 10'001; ++i) director.Add();
  submission.spec.session_id = "s";
  const core::QueueId last = director.Add(submission);
  const ListPage page = director.engine().views().List({.session_id = "s"});
  EXPECT_THAT(page.tasks, IsEmpty());
  ASSERT_TRUE(page.next.has_value());
  EXPECT_THAT(List(director, {.session_id = "s", .after = page.next}), ElementsAre(last));
}

}  // namespace
}  // namespace callboard::director
