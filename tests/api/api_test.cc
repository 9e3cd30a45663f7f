// The public API must be complete, commented, and have a role on every method.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/options.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/scheduler.pb.h"
#include "callboard/v1/task.pb.h"

namespace callboard {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// Parses all declarations with their comments, which linked descriptors do not have.
class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    std::ifstream file("proto/descriptors.binpb", std::ios::binary);
    google::protobuf::FileDescriptorSet set;
    EXPECT_TRUE(set.ParseFromIstream(&file));
    for (const auto& proto : set.file()) {
      const FileDescriptor* built = pool_.BuildFile(proto);
      EXPECT_NE(built, nullptr) << proto.name();
      if (absl::StartsWith(proto.package(), "callboard.")) files_.push_back(built);
    }
  }

  std::vector<const MethodDescriptor*> Methods() const {
    std::vector<const MethodDescriptor*> methods;
    for (const FileDescriptor* file : files_) {
      for (int i = 0; i < file->service_count(); ++i) {
        for (int j = 0; j < file->service(i)->method_count(); ++j) {
          methods.push_back(file->service(i)->method(j));
        }
      }
    }
    return methods;
  }

  DescriptorPool pool_;
  std::vector<const FileDescriptor*> files_;
};

template <class D>
std::string CommentOf(const D& declaration) {
  google::protobuf::SourceLocation location;
  return declaration.GetSourceLocation(&location) ? location.leading_comments : "";
}

// Collects the declarations without a comment.
class Walker {
 public:
  void Walk(const FileDescriptor& file) {
    for (int i = 0; i < file.message_type_count(); ++i) Walk(*file.message_type(i));
    for (int i = 0; i < file.enum_type_count(); ++i) Walk(*file.enum_type(i));
    for (int i = 0; i < file.extension_count(); ++i) Look(*file.extension(i));
    for (int i = 0; i < file.service_count(); ++i) {
      Look(*file.service(i));
      for (int j = 0; j < file.service(i)->method_count(); ++j) Look(*file.service(i)->method(j));
    }
  }
  const std::vector<std::string>& uncommented() const { return uncommented_; }
  int seen() const { return seen_; }

 private:
  void Walk(const Descriptor& message) {
    if (message.options().map_entry()) return;
    Look(message);
    for (int i = 0; i < message.field_count(); ++i) Look(*message.field(i));
    for (int i = 0; i < message.nested_type_count(); ++i) Walk(*message.nested_type(i));
    for (int i = 0; i < message.enum_type_count(); ++i) Walk(*message.enum_type(i));
  }
  void Walk(const EnumDescriptor& type) {
    Look(type);
    for (int i = 0; i < type.value_count(); ++i) Look(*type.value(i));
  }
  template <class D>
  void Look(const D& declaration) {
    ++seen_;
    if (CommentOf(declaration).empty()) uncommented_.push_back(declaration.full_name());
  }

  int seen_ = 0;
  std::vector<std::string> uncommented_;
};

std::set<std::string> FieldNames(const Descriptor& message) {
  std::set<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.insert(message.field(i)->name());
  return names;
}

std::vector<std::string> Words(const std::string& text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

TEST_F(ApiTest, EveryDeclarationHasAComment) {
  Walker walker;
  for (const FileDescriptor* file : files_) walker.Walk(*file);
  EXPECT_GT(walker.seen(), 400);
  EXPECT_THAT(walker.uncommented(), IsEmpty());
}

TEST_F(ApiTest, EveryMethodSaysWhetherItIsSafeToRetry) {
  for (const MethodDescriptor* method : Methods()) {
    const std::string comment = absl::AsciiStrToLower(CommentOf(*method));
    EXPECT_TRUE(absl::StrContains(comment, "retry") ||
                absl::StrContains(comment, "sends it again") ||
                absl::StrContains(comment, "another copy"))
        << method->full_name();
  }
}

TEST_F(ApiTest, EveryMethodHasARole) {
  const ServiceDescriptor* services[] = {
      v1::GetQueueStatusRequest::descriptor()->file()->FindServiceByName("QueueService"),
      v1::Agent::descriptor()->file()->FindServiceByName("FleetService"),
      v1::AgentRun::descriptor()->file()->FindServiceByName("AgentService"),
      v1::Job::descriptor()->file()->FindServiceByName("SchedulerService"),
  };
  size_t seen = 0;
  for (const ServiceDescriptor* service : services) {
    for (int i = 0; i < service->method_count(); ++i, ++seen) {
      EXPECT_GT(service->method(i)->options().ExtensionSize(v1::roles), 0)
          << service->method(i)->full_name();
    }
  }
  EXPECT_EQ(seen, Methods().size());
}

TEST_F(ApiTest, EveryMethodOfTheDesignExists) {
  const std::map<std::string, std::string> design = {
      {"QueueService",
       "SubmitTask SubmitTasks ReserveSlot GetTask ListTasks ListSessions CancelTask WatchTasks "
       "TailTaskLogs ListTaskEvents ExplainTask RedriveTasks GetQueueStatus PauseQueue ResumeQueue "
       "DrainQueue KickDispatcher CreateCheckpoint"},
      {"FleetService", "AnnounceAgent ListAgents DrainAgent UndrainAgent"},
      {"AgentService", "Session StartTask GetTask TailLogs GetAgentStatus"},
      {"SchedulerService",
       "ListJobs GetJob TriggerJob PauseJob ResumeJob PreviewJob BackfillJob ListFirings "
       "GetSchedulerStatus"},
  };
  std::set<std::string> methods;
  for (const MethodDescriptor* method : Methods()) methods.insert(method->full_name());
  for (const auto& [service, names] : design) {
    for (const std::string& name : Words(names)) {
      EXPECT_EQ(methods.count(absl::StrCat("callboard.v1.", service, ".", name)), 1u) << name;
    }
  }
}

TEST_F(ApiTest, EveryFieldOfTheDesignExists) {
  const std::string submit_fields =
      "prompt payload model timeout_seconds session_id project env thinking request_id source "
      "source_job job_type labels required_labels lane priority fairness_key cost_units "
      "constraints "
      "run_when time_sensitive earliest_start_at deadline_at expected_duration_sec max_attempts "
      "retry_on on_agent_lost policy overlap";
  EXPECT_THAT(FieldNames(*v1::SubmitTaskRequest::descriptor()),
              IsSupersetOf(Words(submit_fields + " ticket validate_only")));
  EXPECT_THAT(FieldNames(*v1::SubmitTaskResponse::descriptor()),
              IsSupersetOf(Words("queue_id position state deduplicated task")));
  EXPECT_THAT(
      FieldNames(*v1::Task::descriptor()),
      IsSupersetOf(Words(submit_fields +
                         " queue_id state reason position submitted_at created_at dispatched_at "
                         "finished_at task_id agent_url dispatch attempts busy_rejections "
                         "not_before last_error cancel_requested_at exit_code signal result "
                         "trace_id redrive_of redriven_as")));
  EXPECT_THAT(FieldNames(*v1::QueueStatus::descriptor()),
              IsSupersetOf(Words("depth max_size policy ready delayed waiting tickets in_flight "
                                 "max_in_flight dispatched_count oldest_age_seconds paused "
                                 "draining")));
}

TEST_F(ApiTest, EveryReasonAndEventOfTheDesignExists) {
  for (const std::string& name :
       Words("AGENT_REJECTED MAX_ATTEMPTS EXEC_FAILED TIMED_OUT AGENT_LOST "
             "EXPIRED EVICTED COALESCED POISON")) {
    EXPECT_NE(v1::Task::Reason_descriptor()->FindValueByName("REASON_" + name), nullptr) << name;
  }
  for (const std::string& name : Words(
           "SUBMITTED ADMITTED DENIED DISPATCHING BUSY RETRY RUNNING CANCEL_REQUESTED DONE FAILED "
           "CANCELED TIMEOUT EVICTED EXPIRED ORPHAN_RESULT")) {
    EXPECT_NE(v1::TaskEvent::Kind_descriptor()->FindValueByName("KIND_" + name), nullptr) << name;
  }
}

// A submit becomes a spec, and the spec a task, by their bytes: common fields must be equal.
TEST_F(ApiTest, CommonFieldsOfSubmitSpecAndTaskAreEqual) {
  const Descriptor& task = *v1::Task::descriptor();
  const Descriptor& spec = *v1::TaskSpec::descriptor();
  const Descriptor& submit = *v1::SubmitTaskRequest::descriptor();
  const auto expect_equal = [](const FieldDescriptor& field, const Descriptor& other) {
    const FieldDescriptor* twin = other.FindFieldByNumber(field.number());
    ASSERT_NE(twin, nullptr) << field.full_name();
    EXPECT_EQ(twin->name(), field.name()) << field.full_name();
    EXPECT_EQ(twin->type(), field.type()) << field.full_name();
    EXPECT_EQ(twin->label(), field.label()) << field.full_name();
    EXPECT_EQ(twin->has_presence(), field.has_presence()) << field.full_name();
  };
  int of_admission = 0;
  for (int i = 0; i < submit.field_count(); ++i) {
    const FieldDescriptor& field = *submit.field(i);
    if (spec.IsReservedNumber(field.number())) {
      ++of_admission;
      EXPECT_TRUE(spec.IsReservedName(field.name())) << field.name();
    } else {
      expect_equal(field, spec);
    }
  }
  EXPECT_EQ(of_admission, 3) << "policy, ticket and validate_only";
  for (int i = 0; i < spec.field_count(); ++i) {
    expect_equal(*spec.field(i), submit);
    expect_equal(*spec.field(i), task);
  }
}

// The basic view of a task removes the fields with this option; it looks at top-level fields only.
TEST_F(ApiTest, OnlyTopLevelFieldsOfATaskAreSensitive) {
  std::vector<const Descriptor*> types;
  for (const auto* file :
       {v1::Task::descriptor()->file(), v1::SubmitTaskRequest::descriptor()->file(),
        v1::AgentRun::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) types.push_back(file->message_type(i));
  }
  int sensitive = 0;
  for (const Descriptor* type : types) {
    for (int i = 0; i < type->field_count(); ++i) {
      if (!type->field(i)->options().GetExtension(v1::sensitive)) continue;
      ++sensitive;
      EXPECT_EQ(type, v1::Task::descriptor()) << type->field(i)->full_name();
    }
  }
  EXPECT_EQ(sensitive, 3) << "payload, env and result";
}

}  // namespace
}  // namespace callboard
