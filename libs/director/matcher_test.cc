#include "libs/director/matcher.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/testing/fake_environment.h"

namespace callboard::director {
namespace {

// Uses tasks that are identified by their sequence numbers.
class MatcherTest : public testing::Test {
 protected:
  Agent& Connect(const std::string& name, uint32_t slots) {
    Agent& agent = fleet_.Get(name);
    agent.lanes["default"].slots = slots;
    fleet_.OpenSession(agent, core::AgentSessionId(++sessions_), now_);
    matcher_.Relink();
    return agent;
  }
  Entry& Task(uint64_t sequence) {
    std::unique_ptr<Entry>& entry = tasks_[sequence];
    if (entry == nullptr) {
      entry = std::make_unique<Entry>();
      entry->task.sequence = sequence;
    }
    return *entry;
  }
  void Add(uint64_t sequence, const std::string& label = "") {
    Demand demand = {.lane = "default"};
    if (!label.empty()) demand.labels = {{"label", label}};
    matcher_.Add(Task(sequence), demand);
  }
  // The next match as text: "agent takes 3".
  std::string Next() {
    const auto match = matcher_.Next(now_);
    if (!match.has_value()) return "nothing";
    return match->agent->name + " takes " + std::to_string(match->entry->task.sequence);
  }

  const Moment now_ = {absl::FromUnixSeconds(1), absl::Hours(1)};
  uint64_t sessions_ = 0;
  std::map<uint64_t, std::unique_ptr<Entry>> tasks_;
  Fleet fleet_{core::LeaseOptions()};
  Matcher matcher_{fleet_};
};

TEST_F(MatcherTest, FirstTaskGoesToTheFirstAgentByName) {
  Add(2);
  Add(1);
  EXPECT_EQ(Next(), "nothing");
  Connect("b", 1);
  Connect("a", 1);
  EXPECT_EQ(Next(), "a takes 1");
}

TEST_F(MatcherTest, TaskThatNeedsAFeatureGoesOnlyToAgentsThatAnnounceIt) {
  const Demand demand = {.lane = "default", .features = {"deferral"}};
  matcher_.Add(Task(1), demand);
  Add(2);
  Agent& old = Connect("a", 1);
  EXPECT_EQ(Next(), "a takes 2");
  EXPECT_EQ(fleet_.WhyNot(old, demand, now_), "lacks the feature deferral");
  Connect("b", 1).features = {"deferral", "more"};
  matcher_.Relink();
  EXPECT_EQ(Next(), "b takes 1");
}

TEST_F(MatcherTest, TaskWithoutAFreeSlotIsSkipped) {
  Add(1, "gpu");
  Add(2);
  Connect("a", 1);
  EXPECT_EQ(Next(), "a takes 2");
  Connect("b", 1).labels = {{"label", "gpu"}};
  matcher_.Relink();
  EXPECT_EQ(Next(), "b takes 1");
}

TEST_F(MatcherTest, AgentTheTaskFailedOnIsTheLastChoice) {
  Add(1);
  Task(1).task.history.Mutable().failed_on = {"a"};
  Connect("a", 1);
  EXPECT_EQ(Next(), "a takes 1");
  Connect("b", 1);
  EXPECT_EQ(Next(), "b takes 1");
}

TEST_F(MatcherTest, ChangedGroupsHaveANewFirstTaskOrNewAgents) {
  Add(2);
  EXPECT_EQ(matcher_.TakeChangedGroups().size(), 1u);
  Add(3);
  EXPECT_TRUE(matcher_.TakeChangedGroups().empty());
  Add(1);
  EXPECT_EQ(matcher_.TakeChangedGroups().size(), 1u);
  Connect("a", 1);
  EXPECT_FALSE(matcher_.TakeChangedGroups().empty());
}

// Compares the matcher with a direct implementation of the rule, on many small fleets.
TEST_F(MatcherTest, MatchHasTheLowestSequenceThatAFreeSlotServes) {
  test::FakeRandom random;
  const std::string labels[] = {"", "x", "y"};
  for (const std::string name : {"a", "b", "c"}) {
    Agent& agent = Connect(name, 1);
    const std::string& label = labels[random.Below(3)];
    if (!label.empty()) agent.labels = {{"label", label}};
  }
  matcher_.Relink();
  std::map<uint64_t, std::string> ready;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t sequence = 1 + random.Below(40);
    if (ready.erase(sequence) > 0) {
      matcher_.Remove(Task(sequence));
    } else {
      ready[sequence] = labels[random.Below(3)];
      Add(sequence, ready[sequence]);
    }
    Agent& changed = fleet_.Get(std::string(1, "abc"[random.Below(3)]));
    changed.lanes["default"].reported = static_cast<uint32_t>(random.Below(2));
    std::string expected = "nothing";
    for (const auto& [first, label] : ready) {
      for (const auto& [name, agent] : fleet_.agents()) {
        if (!agent.lanes.at("default").has_free_slot()) continue;
        if (!label.empty() &&
            agent.labels != std::map<std::string, std::string>{{"label", label}}) {
          continue;
        }
        if (expected == "nothing") expected = name + " takes " + std::to_string(first);
      }
      if (expected != "nothing") break;
    }
    ASSERT_EQ(Next(), expected) << "step " << step;
    ASSERT_EQ(matcher_.ready(), ready.size());
  }
}

}  // namespace
}  // namespace callboard::director
