#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_DIRECTOR_LINK_GRPC_DIRECTOR_LINK_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_DIRECTOR_LINK_GRPC_DIRECTOR_LINK_H_

#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>
#include <vector>

#include "libs/ports/tracing.h"
#include "libs/scheduler/director_link.h"

namespace callboard::adapters {

namespace internal {

class DirectorLinkCore;

// How soon a server that is back is connected to, also under another address.
void SetReconnect(grpc::ChannelArguments& arguments);

}  // namespace internal

// The scheduler's way to its director over gRPC.
class GrpcDirectorLink final : public scheduler::DirectorLink {
 public:
  // `director_address`: host:port. What `tracing` has outlives it.
  GrpcDirectorLink(const std::string& director_address, const ports::Tracing& tracing);
  // Ends what is under way.
  ~GrpcDirectorLink() override;

  void Submit(const core::Submission& submission, Reply<scheduler::Accepted> reply) override;
  void AskEnds(std::vector<std::string> queue_ids,
               Reply<std::vector<scheduler::TaskEnd>> reply) override;
  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<scheduler::Accepted> reply) override;

 private:
  // Shared with calls under way.
  const std::shared_ptr<internal::DirectorLinkCore> core_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_DIRECTOR_LINK_GRPC_DIRECTOR_LINK_H_
