#include "tests/benchmarks/filled_store.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/director/engine.h"
#include "libs/store/rocksdb_store.h"
#include "libs/system/system.h"
#include "libs/testing/submissions.h"

namespace callboard {
namespace {

constexpr uint64_t kTasksPerBatch = 1000;
constexpr size_t kPromptBytes = 256;

// Returns a text that hardly compresses.
std::string NewPrompt(ports::Random& random) {
  std::string prompt;
  while (prompt.size() < kPromptBytes) absl::StrAppend(&prompt, absl::Hex(random.Next()), " ");
  prompt.resize(kPromptBytes);
  return prompt;
}

}  // namespace

void FillStore(const std::filesystem::path& folder, uint64_t tasks) {
  const std::unique_ptr<store::RocksDbStoreOpener> stores =
      *store::RocksDbStoreOpener::Lock({.data_dir = folder});
  const std::unique_ptr<ports::EventStore> store = *stores->Open(ports::StoreAccess::kReadWrite);
  const system::SystemClock clock;
  system::SystemRandom random;
  director::DirectorEngine engine({.queue = {.max_size = 0}}, random);
  const auto now = [&] { return director::Moment{clock.WallNow(), clock.MonotonicNow()}; };
  engine.Begin(now());
  for (uint64_t i = 1; i <= tasks; ++i) {
    v1::SubmitTaskRequest submit = test::MakeSubmit(NewPrompt(random));
    submit.set_request_id(absl::StrCat("request-", i));
    engine.Submit(
        director::MakeSubmitRequest("me", test::ToSubmission(std::move(submit)), clock.WallNow()),
        now());
    if (i % kTasksPerBatch == 0 || i == tasks)
      CHECK_OK(store->Commit(engine.TakeOutcome().records));
  }
}

}  // namespace callboard
