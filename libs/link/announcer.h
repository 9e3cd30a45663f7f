#ifndef CALLBOARD_LIBS_LINK_ANNOUNCER_H_
#define CALLBOARD_LIBS_LINK_ANNOUNCER_H_

#include <map>
#include <memory>
#include <string>

namespace callboard::link {

// Tells a director about an agent, so that it dials the agent.
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

// Announces an agent to a director periodically, because the director may be down at first, or may
// restart and forget the agent. Thread-safe.
class Announcer {
 public:
  // `director_address`: host:port.
  explicit Announcer(const std::string& director_address);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  // Announces the agent now and then periodically. REQUIRES: called once.
  void Start(const Announcement& announcement);
  // Announces the agent soon, however long the director asked to wait. For use when the director
  // may have forgotten the agent.
  void AnnounceSoon();

 private:
  // Shared with the pending call or timer.
  const std::shared_ptr<internal::AnnouncerCore> core_;
};

}  // namespace callboard::link

#endif  // CALLBOARD_LIBS_LINK_ANNOUNCER_H_
