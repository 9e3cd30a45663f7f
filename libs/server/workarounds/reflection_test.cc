#include "libs/server/workarounds/reflection.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace callboard::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;

std::vector<std::string> FileNames(const Response& response) {
  std::vector<std::string> names;
  for (const std::string& file : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto proto;
    EXPECT_TRUE(proto.ParseFromString(file));
    names.push_back(proto.name());
  }
  return names;
}

TEST(ReflectionTest, ListsTheRegisteredServices) {
  Request request;
  request.set_list_services("");
  const Response response = MakeReflectionResponse(request, {"one", "other"});
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("one", "other"));
}

TEST(ReflectionTest, FindsAFileByNameAndBySymbol) {
  const std::string file = "grpc/reflection/v1/reflection.proto";
  Request by_name;
  by_name.set_file_by_filename(file);
  EXPECT_THAT(FileNames(MakeReflectionResponse(by_name, {})), ElementsAre(file));
  Request by_symbol;
  by_symbol.set_file_containing_symbol("grpc.reflection.v1.ServerReflection.ServerReflectionInfo");
  EXPECT_THAT(FileNames(MakeReflectionResponse(by_symbol, {})), ElementsAre(file));
}

TEST(ReflectionTest, ReturnsImportedFilesOnce) {
  Request request;
  request.set_file_containing_symbol("callboard.v1.QueueService");
  const std::vector<std::string> names = FileNames(MakeReflectionResponse(request, {}));
  EXPECT_THAT(names, IsSupersetOf({"callboard/v1/queue.proto", "callboard/v1/task.proto",
                                   "google/protobuf/timestamp.proto"}));
  EXPECT_EQ(std::count(names.begin(), names.end(), "callboard/v1/task.proto"), 1);
}

TEST(ReflectionTest, FindsExtensions) {
  Request all;
  all.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  const auto numbers = MakeReflectionResponse(all, {}).all_extension_numbers_response();
  ASSERT_THAT(numbers.extension_number(), Not(IsEmpty()));
  Request one;
  one.mutable_file_containing_extension()->set_containing_type("google.protobuf.MethodOptions");
  one.mutable_file_containing_extension()->set_extension_number(numbers.extension_number(0));
  EXPECT_THAT(FileNames(MakeReflectionResponse(one, {})), Contains("callboard/v1/options.proto"));
}

TEST(ReflectionTest, UnknownNameIsNotFound) {
  Request file;
  file.set_file_by_filename("no.proto");
  Request symbol;
  symbol.set_file_containing_symbol("no.Symbol");
  Request extension;
  extension.mutable_file_containing_extension()->set_containing_type("no.Type");
  Request extensions;
  extensions.set_all_extension_numbers_of_type("no.Type");
  for (const Request& request : {Request(), file, symbol, extension, extensions}) {
    EXPECT_EQ(MakeReflectionResponse(request, {}).error_response().error_code(),
              grpc::StatusCode::NOT_FOUND);
  }
}

TEST(ReflectionTest, ResponseRepeatsTheRequestAndItsHost) {
  Request request;
  request.set_host("here");
  request.set_list_services("*");
  const Response response = MakeReflectionResponse(request, {});
  EXPECT_EQ(response.valid_host(), "here");
  EXPECT_EQ(response.original_request().list_services(), "*");
}

}  // namespace
}  // namespace callboard::server
