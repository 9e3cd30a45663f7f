#include "libs/wire/task.h"

#include <gtest/gtest.h>

#include <string>

namespace callboard::wire {
namespace {

v1::Task FullTask() {
  v1::Task task;
  task.set_prompt(std::string(1025, 'x'));
  task.set_payload("payload");
  task.set_result("result");
  (*task.mutable_env())["NAME"] = "secret";
  return task;
}

TEST(TaskViewTest, BasicViewHasNoSecretsPayloadOrResult) {
  v1::Task task = FullTask();
  ReduceToBasicView(task);
  EXPECT_EQ(task.payload(), "");
  EXPECT_EQ(task.result(), "");
  EXPECT_EQ(task.env().at("NAME"), "") << "the name stays";
  EXPECT_EQ(task.prompt().size(), 1025u);
  EXPECT_FALSE(task.prompt_truncated());
}

TEST(TaskViewTest, LongPromptIsTruncatedInListView) {
  v1::Task task = FullTask();
  ReduceToListView(task);
  EXPECT_EQ(task.prompt().size(), 1024u);
  EXPECT_TRUE(task.prompt_truncated());
  EXPECT_EQ(task.payload(), "");
}

TEST(TaskViewTest, ShortPromptIsCompleteInListView) {
  v1::Task task;
  task.set_prompt(std::string(1024, 'x'));
  ReduceToListView(task);
  EXPECT_EQ(task.prompt().size(), 1024u);
  EXPECT_FALSE(task.prompt_truncated());
}

TEST(TaskViewTest, TruncatedPromptEndsAtACharacter) {
  v1::Task task;
  task.set_prompt(std::string(1023, 'x') + "é and more");
  ReduceToListView(task);
  EXPECT_EQ(task.prompt(), std::string(1023, 'x'));
}

}  // namespace
}  // namespace callboard::wire
