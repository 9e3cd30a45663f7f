#include "libs/testing/memory_ledger.h"

#include "libs/testing/ledger_contract.h"

namespace callboard::test {
namespace {

class MemoryHarness {
 public:
  scheduler::LedgerOpener& ledgers() { return ledgers_; }

 private:
  MemoryLedgers ledgers_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, LedgerContractTest, MemoryHarness);

}  // namespace
}  // namespace callboard::test
