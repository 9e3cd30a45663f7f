#ifndef CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_
#define CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/ports/event_store.h"

namespace callboard::test {

// What an event store keeps: one record per thing, the last one. Not thread-safe.
class MemoryDisk {
 public:
  void Write(const core::Record& record);
  void Read(const std::function<void(const core::Record&)>& take) const;

  // Records of a task by number; null for a task that is not there.
  const std::map<uint64_t, core::TaskRecord>* Find(core::QueueId id) const;

  // Remembers the name only. ALREADY_EXISTS when it does already.
  absl::StatusOr<ports::Checkpoint> Copy(const std::string& name);

 private:
  std::map<core::QueueId, std::map<uint64_t, core::TaskRecord>> tasks_;
  std::optional<core::EpochBegan> epoch_;
  std::optional<core::QueueSwitched> switched_;
  std::optional<core::LeasesExtended> extended_;
  std::optional<core::DispatchesForgotten> forgotten_;
  std::map<std::string, core::AgentMarked> agents_;
  std::map<std::pair<std::string, std::string>, core::RequestRemembered> requests_;
  std::set<std::string> copies_;
};

// The EventStore of tests: what is committed stays for as long as this object does, whatever
// becomes of the stores it opens.
class MemoryEventStores final : public ports::EventStoreOpener {
 public:
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override;

  const MemoryDisk& disk() const { return disk_; }

 private:
  MemoryDisk disk_;
  bool is_open_ = false;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_
