#ifndef CALLBOARD_SERVICES_DIRECTOR_AGENT_GATE_H_
#define CALLBOARD_SERVICES_DIRECTOR_AGENT_GATE_H_

#include <string>
#include <vector>

#include "libs/adapters/grpc_link/grpc_agent_link.h"
#include "libs/adapters/output_files/output_keeper.h"
#include "libs/core/session.h"
#include "libs/director/driver.h"
#include "libs/ports/agent_link.h"

namespace callboard {

// Brings what agents say before the director.
class AgentGate final : public ports::AgentListener {
 public:
  // All outlive it.
  AgentGate(director::DirectorDriver& driver, adapters::GrpcAgentLink& link,
            adapters::OutputKeeper& outputs)
      : driver_(driver), link_(link), outputs_(outputs) {}

  bool OnOpened(core::SessionId session, const core::AgentOpened& opened) override;
  bool OnItems(core::SessionId session, const std::vector<core::AgentItem>& items) override;
  void OnOutput(core::SessionId session, core::OutputWritten output) override;
  void OnBroken(core::SessionId session, const absl::Status& why) override;
  void OnUnreachable(const std::string& name, const absl::Status& why) override;
  void OnNotWritten(const core::FenceToken& token) override;

 private:
  director::DirectorDriver& driver_;
  adapters::GrpcAgentLink& link_;
  adapters::OutputKeeper& outputs_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_AGENT_GATE_H_
