#include "tests/api/golden.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "libs/wire/json.h"

namespace callboard {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(GoldenTest, JsonMatchesTheGoldenFiles) {
  for (const auto& [name, examples] : ApiExamples()) {
    EXPECT_EQ(test::FileText(absl::StrCat("tests/api/golden/", name)), GoldenText(examples))
        << "if the change is intended, run: bazel run //tests/api:write_golden -- "
           "\"$PWD/tests/api/golden\"";
  }
}

TEST(GoldenTest, EveryMessageRoundTripsThroughJson) {
  for (const auto& [file, examples] : ApiExamples()) {
    for (const auto& [name, message] : examples) {
      const std::unique_ptr<google::protobuf::Message> back(message->New());
      const absl::Status status = wire::FromJson(wire::ToJson(*message), *back);
      ASSERT_TRUE(status.ok()) << name << ": " << status;
      std::string difference;
      MessageDifferencer differencer;
      differencer.ReportDifferencesToString(&difference);
      EXPECT_TRUE(differencer.Compare(*message, *back)) << name << ": " << difference;
    }
  }
}

TEST(GoldenTest, EveryFileOfTheApiHasExamples) {
  google::protobuf::FileDescriptorSet declared;
  std::ifstream file("proto/descriptors.binpb", std::ios::binary);
  ASSERT_TRUE(declared.ParseFromIstream(&file));
  std::set<std::string> with_examples;
  for (const auto& [name, examples] : ApiExamples()) {
    with_examples.insert(examples.front().message->GetDescriptor()->file()->name());
  }
  for (const auto& proto : declared.file()) {
    if (proto.package() == "callboard.v1" && proto.message_type_size() > 0) {
      EXPECT_EQ(with_examples.count(proto.name()), 1u) << proto.name();
    }
  }
  EXPECT_GE(with_examples.size(), 5u);
}

// An example without a field would not test it.
TEST(GoldenTest, ExamplesSetEveryField) {
  for (const auto& [file, examples] : ApiExamples()) {
    std::map<const google::protobuf::Descriptor*, std::set<int>> set_fields;
    for (const auto& [name, message] : examples) {
      std::vector<const google::protobuf::FieldDescriptor*> fields;
      message->GetReflection()->ListFields(*message, &fields);
      std::set<int>& numbers = set_fields[message->GetDescriptor()];
      for (const auto* field : fields) numbers.insert(field->number());
    }
    for (const auto& [type, numbers] : set_fields) {
      EXPECT_THAT(numbers, testing::SizeIs(type->field_count())) << type->full_name();
    }
  }
}

}  // namespace
}  // namespace callboard
