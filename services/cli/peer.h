#ifndef CALLBOARD_SERVICES_CLI_PEER_H_
#define CALLBOARD_SERVICES_CLI_PEER_H_

#include <string>

namespace callboard::cli {

// A server that commands talk to.
struct Peer {
  // As in its setting: `director` of `--director.address`.
  std::string name;
  // host:port.
  std::string address;
};

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_PEER_H_
