#include "services/director/agent_gate.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "libs/base/log.h"
#include "libs/director/command.h"

namespace callboard {

using director::AgentCommand;
using director::Command;
using director::DirectorEngine;
using director::Moment;

bool AgentGate::OnOpened(core::SessionId session, const core::AgentOpened& opened) {
  return driver_.Post(AgentCommand([this, session, opened](DirectorEngine& engine, Moment now) {
    const absl::Status status = engine.OnOpened(session, opened, now);
    if (status.ok()) {
      base::LogInfo("agent", "connected",
                    {{"name", opened.name},
                     {"agent_url", opened.url},
                     {"version", opened.version},
                     {"features", absl::StrJoin(opened.features, ",")}});
    } else {
      base::LogWarning("agent", "refused", {{"name", opened.name}, {"error", status.message()}});
      link_.End(session, status);
    }
  }));
}

bool AgentGate::OnItems(core::SessionId session, const std::vector<core::AgentItem>& items) {
  return driver_.Post(AgentCommand([session, items](DirectorEngine& engine, Moment now) {
    engine.OnItems(session, items, now);
  }));
}

void AgentGate::OnOutput(core::SessionId session, core::OutputWritten output) {
  core::OutputAcknowledged acknowledged = {output.token};
  if (!output.chunks.empty()) acknowledged.number = output.chunks.back().number;
  outputs_.Keep(std::move(output), [&link = link_, session, acknowledged] {
    link.Acknowledge(session, acknowledged);
  });
}

void AgentGate::OnBroken(core::SessionId session, const absl::Status& why) {
  driver_.Post(AgentCommand(
      [session, why](DirectorEngine& engine, Moment now) { engine.OnBroken(session, why, now); },
      Command::From::kLink));
}

void AgentGate::OnUnreachable(const std::string& name, const absl::Status& why) {
  driver_.Post(AgentCommand(
      [name, why](DirectorEngine& engine, Moment now) { engine.OnUnreachable(name, why, now); },
      Command::From::kLink));
}

void AgentGate::OnNotWritten(const core::FenceToken& token) {
  driver_.Post(
      AgentCommand([token](DirectorEngine& engine, Moment now) { engine.OnNotWritten(token, now); },
                   Command::From::kLink));
}

}  // namespace callboard
