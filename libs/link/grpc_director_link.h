#ifndef CALLBOARD_LIBS_LINK_GRPC_DIRECTOR_LINK_H_
#define CALLBOARD_LIBS_LINK_GRPC_DIRECTOR_LINK_H_

#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>
#include <vector>

#include "libs/ports/telemetry.h"
#include "libs/scheduler/director_link.h"

namespace callboard::link {

namespace internal {

class DirectorLinkCore;

// Sets how soon a channel reconnects to a restarted server and resolves its address again.
void SetReconnect(grpc::ChannelArguments& arguments);

}  // namespace internal

// The scheduler's connection to the director, and to agents for direct starts, over gRPC.
//
// Thread-safe.
class GrpcDirectorLink final : public scheduler::DirectorLink {
 public:
  // `director_address`: host:port. The objects in `tracing` outlive the link.
  GrpcDirectorLink(const std::string& director_address, const ports::Tracing& tracing);
  // Cancels pending calls and waits for them. Their replies are not run.
  ~GrpcDirectorLink() override;

  void Submit(const core::JobSubmission& submission, Reply<scheduler::AcceptedTask> reply) override;
  void FindTask(const std::string& request_id, Reply<scheduler::AcceptedTask> reply) override;
  void GetTaskStatuses(std::vector<std::string> queue_ids,
                       Reply<std::vector<scheduler::TaskStatus>> reply) override;
  void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                   Reply<scheduler::AcceptedTask> reply) override;

 private:
  // Shared with pending calls.
  const std::shared_ptr<internal::DirectorLinkCore> core_;
};

}  // namespace callboard::link

#endif  // CALLBOARD_LIBS_LINK_GRPC_DIRECTOR_LINK_H_
