#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_ANNOUNCER_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_ANNOUNCER_H_

#include <map>
#include <memory>
#include <string>

namespace callboard::adapters {

// What a director is told of an agent before it dials it.
struct Announcement {
  std::string name = {};
  // host:port
  std::string address = {};
  std::string instance_id = {};
  std::map<std::string, std::string> labels = {};
  std::map<std::string, uint32_t> lanes = {};
};

namespace internal {
class AnnouncerCore;
}  // namespace internal

// Tells a director that an agent is there, again and again: also one that was not there before, or
// has forgotten. Thread-safe.
class Announcer {
 public:
  // Begins at once. `director_address`: host:port.
  Announcer(const std::string& director_address, const Announcement& announcement);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

 private:
  // Shared with the call or timer under way.
  const std::shared_ptr<internal::AnnouncerCore> core_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_ANNOUNCER_H_
