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
  // `director_address`: host:port.
  explicit Announcer(const std::string& director_address);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  // From now on, beginning at once. REQUIRES: called once.
  void Announce(const Announcement& announcement);
  // The director may have forgotten the agent: tells it soon, however long it asked to wait.
  void Hurry();

 private:
  // Shared with the call or timer under way.
  const std::shared_ptr<internal::AnnouncerCore> core_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_ANNOUNCER_H_
