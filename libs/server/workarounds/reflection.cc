#include "libs/server/workarounds/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/server_callback.h>

#include <set>
#include <tuple>
#include <utility>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "libs/server/bidi_call.h"

namespace callboard::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ServerReflection;
using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;
using Reactor = grpc::ServerBidiReactor<Request, Response>;

// Adds `file` and all files that it imports, each once.
void AddFiles(const FileDescriptor& file, std::set<const FileDescriptor*>& seen,
              FileDescriptorResponse& files) {
  if (!seen.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  files.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFiles(*file.dependency(i), seen, files);
}

const FileDescriptor* FindExtensionFile(const ExtensionRequest& request) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* type = pool.FindMessageTypeByName(request.containing_type());
  const FieldDescriptor* extension =
      type == nullptr ? nullptr : pool.FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

// Returns the file with the requested name, symbol or extension, or null.
const FileDescriptor* FindFile(const Request& request) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  if (request.has_file_by_filename()) return pool.FindFileByName(request.file_by_filename());
  if (request.has_file_containing_symbol()) {
    return pool.FindFileContainingSymbol(request.file_containing_symbol());
  }
  if (request.has_file_containing_extension()) {
    return FindExtensionFile(request.file_containing_extension());
  }
  return nullptr;
}

// Adds the extensions of a message type. Returns false if the type is unknown.
bool AddExtensions(const std::string& type_name, Response& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) return false;
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  auto& answer = *response.mutable_all_extension_numbers_response();
  answer.set_base_type_name(type_name);
  for (const FieldDescriptor* extension : extensions) {
    answer.add_extension_number(extension->number());
  }
  return true;
}

}  // namespace

Response MakeReflectionResponse(const Request& request, const std::vector<std::string>& services) {
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  if (request.has_list_services()) {
    auto& list = *response.mutable_list_services_response();
    for (const std::string& name : services) list.add_service()->set_name(name);
  } else if (const FileDescriptor* file = FindFile(request)) {
    std::set<const FileDescriptor*> seen;
    AddFiles(*file, seen, *response.mutable_file_descriptor_response());
  } else if (!request.has_all_extension_numbers_of_type() ||
             !AddExtensions(request.all_extension_numbers_of_type(), response)) {
    auto& error = *response.mutable_error_response();
    error.set_error_code(grpc::StatusCode::NOT_FOUND);
    error.set_error_message(
        "no file, symbol or type has this name; list_services returns the services");
  }
  return response;
}

class Reflection::Service final : public ServerReflection::CallbackService {
 public:
  explicit Service(std::vector<std::string> services) : services_(std::move(services)) {}

  // Answers the requests one after the other: reads the next one when the response has been sent.
  Reactor* ServerReflectionInfo(grpc::CallbackServerContext* context) override {
    return Bidi<Request, Response>(context, [this](const BidiCall<Request, Response>& call) {
      call.SetSentHook([call] { call.Read(); });
      call.SetMessageHook([this, call](const Request* request) {
        if (request == nullptr) return call.Finish(absl::OkStatus());
        // If the call has ended, Write() fails and no more requests are read.
        std::ignore = call.Write(MakeReflectionResponse(*request, services_));
      });
      call.Read();
    });
  }

 private:
  const std::vector<std::string> services_;
};

// The same service under its v1alpha name, which older clients use. The messages are the same.
class Reflection::V1AlphaService final : public grpc::Service {
 public:
  explicit V1AlphaService(Reflection::Service& service) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodCallback(0, new grpc::internal::CallbackBidiHandler<Request, Response>(
                              [&service](grpc::CallbackServerContext* context) {
                                return service.ServerReflectionInfo(context);
                              }));
  }
};

Reflection::Reflection(std::vector<std::string> services)
    : service_([&services] {
        services.emplace_back(ServerReflection::service_full_name());
        return std::make_unique<Service>(std::move(services));
      }()),
      v1alpha_service_(std::make_unique<V1AlphaService>(*service_)) {}

Reflection::~Reflection() = default;

void Reflection::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(service_.get());
  builder.RegisterService(v1alpha_service_.get());
}

}  // namespace callboard::server
