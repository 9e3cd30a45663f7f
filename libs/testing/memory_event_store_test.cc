#include "libs/testing/memory_event_store.h"

#include "libs/testing/event_store_contract.h"

namespace callboard::test {
namespace {

struct MemoryHarness {
  ports::EventStoreOpener& stores() { return opener; }
  MemoryEventStores opener;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, EventStoreContractTest, MemoryHarness);

}  // namespace
}  // namespace callboard::test
