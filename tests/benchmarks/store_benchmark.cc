// What a durable submit and a full cycle cost through engine, driver and store, beside raw RocksDB
// that writes as many keys and bytes in as many synced batches, and beside a raw sync, turn by turn
// in one run: `of_raw` is the share of RocksDB's own speed that is left.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/record_codec.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/adapters/system_random/system_random.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/director/driver.h"

namespace callboard {
namespace {

constexpr size_t kPromptBytes = 256;
constexpr size_t kKeyBytes = 29;

// A folder below the working directory, where the disk is: /tmp may be memory.
class Folder {
 public:
  Folder() : path_(NextPath()) { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  static std::filesystem::path NextPath() {
    static int count = 0;
    return std::filesystem::absolute(absl::StrCat("benchmark-", getpid(), "-", ++count));
  }

  const std::filesystem::path path_;
};

// What went through a store.
struct Written {
  std::atomic<uint64_t> commits = 0;
  std::atomic<uint64_t> records = 0;
  // Of those batches whose bytes were counted.
  std::atomic<uint64_t> counted_records = 0;
  std::atomic<uint64_t> counted_bytes = 0;

  double KeysPerBatch() const {
    return static_cast<double>(records) / std::max<double>(1, commits);
  }
  double BytesPerKey() const {
    return static_cast<double>(counted_bytes) / std::max<double>(1, counted_records);
  }
};

// A store that counts what goes through it.
class CountedStore final : public ports::EventStore {
 public:
  CountedStore(std::unique_ptr<ports::EventStore> store, Written& written)
      : store_(std::move(store)), written_(written) {}

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    written_.records += batch.size();
    if (++written_.commits % 64 == 1) {
      rocksdb::WriteBatch bytes;
      for (const core::Record& record : batch) encoder_.Append(record, bytes);
      written_.counted_records += batch.size();
      written_.counted_bytes += bytes.GetDataSize();
    }
    return store_->Commit(batch);
  }
  absl::Status Load(const std::function<void(const core::Record&)>& take) const override {
    return store_->Load(take);
  }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    return store_->TaskRecords(id);
  }
  absl::StatusOr<core::SpecPtr> TaskSpec(core::QueueId id) const override {
    return store_->TaskSpec(id);
  }
  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    return store_->CreateCheckpoint(name);
  }

 private:
  const std::unique_ptr<ports::EventStore> store_;
  Written& written_;
  adapters::RecordEncoder encoder_;
};

class CountedStores final : public ports::EventStoreOpener {
 public:
  explicit CountedStores(const std::filesystem::path& folder)
      : stores_(*adapters::RocksDbStores::Lock({.data_dir = folder})) {}

  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override {
    auto store = stores_->Open(access);
    CHECK_OK(store.status());
    return std::make_unique<CountedStore>(*std::move(store), written_);
  }
  const Written& written() const { return written_; }

 private:
  const std::unique_ptr<adapters::RocksDbStores> stores_;
  Written written_;
};

// Agents that accept every start and are done with it at once.
class PromptAgents final : public ports::AgentLink {
 public:
  static constexpr int kAgents = 8;
  static constexpr uint32_t kSlots = 16;

  void Connect(director::DirectorDriver& driver) {
    driver_ = &driver;
    for (uint64_t agent = 1; agent <= kAgents; ++agent) {
      core::AgentOpened opened;
      opened.name = absl::StrCat("agent-", agent);
      opened.instance_id = opened.name;
      opened.url = "grpc://127.0.0.1:1";
      opened.lanes = {{"default", {.slots = kSlots, .used = 0}}};
      Post([agent, opened](director::DirectorEngine& engine, director::Moment now) {
        CHECK_OK(engine.OnOpened(core::SessionId(agent), opened, now));
      });
    }
  }
  void WaitFor(uint64_t completed) {
    base::MutexLock lock(mutex_);
    while (completed_ < completed) changed_.Wait(mutex_);
  }

  void Say(core::SessionId session, core::DirectorItem item) override {
    if (const auto* start = std::get_if<core::StartRun>(&item)) {
      Post([session, token = start->token](director::DirectorEngine& engine, director::Moment now) {
        engine.OnItem(session, core::StartAnswered{token, absl::OkStatus()}, now);
        engine.OnItem(session, core::RunEnded{token, {.exit_code = 0}}, now);
      });
    } else if (std::holds_alternative<core::ResultAcknowledged>(item)) {
      base::MutexLock lock(mutex_);
      ++completed_;
      changed_.NotifyOne();
    }
  }
  void Redial(uint64_t) override {}

 private:
  void Post(std::function<void(director::DirectorEngine&, director::Moment)> tell) {
    driver_->Post(director::AgentCommand(std::move(tell), director::Command::From::kLink));
  }

  director::DirectorDriver* driver_ = nullptr;
  base::Mutex mutex_;
  base::CondVar changed_;
  uint64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Callers with one submit each under way, all on one thread.
class Callers {
 public:
  Callers(director::DirectorDriver& driver, size_t callers) : driver_(driver), free_(callers) {
    submission_.spec.prompt = std::string(kPromptBytes, 'x');
  }

  void Submit(size_t tasks) {
    size_t sent = 0;
    size_t answered_before = 0;
    {
      base::MutexLock lock(mutex_);
      answered_before = answered_;
    }
    while (sent < tasks) {
      size_t now = 0;
      {
        base::MutexLock lock(mutex_);
        while (free_ == 0) changed_.Wait(mutex_);
        now = std::min(free_, tasks - sent);
        free_ -= now;
      }
      for (size_t i = 0; i < now; ++i) SubmitOne();
      sent += now;
    }
    base::MutexLock lock(mutex_);
    while (answered_ < answered_before + tasks) changed_.Wait(mutex_);
  }

 private:
  void SubmitOne() {
    core::Submission submission = submission_;
    submission.spec.request_id = absl::StrCat("request-", ++last_);
    driver_.Post(
        director::SubmitCommand(driver_.NextCall(), "me", std::move(submission), clock_.WallNow(),
                                [this](const director::Decision& decision) {
                                  CHECK(std::holds_alternative<director::Submitted>(decision));
                                  base::MutexLock lock(mutex_);
                                  ++answered_;
                                  ++free_;
                                  changed_.NotifyOne();
                                }));
  }

  const adapters::SystemClock clock_;
  director::DirectorDriver& driver_;
  core::Submission submission_;
  uint64_t last_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
};

// RocksDB with the store's own options, and nothing around it.
class RawRocksDb {
 public:
  RawRocksDb() : db_(*adapters::CreateDatabase(folder_.path() / "raw")) {}

  // Synced batches of `keys_per_batch`, until `keys` are written.
  void Write(uint64_t keys, uint64_t keys_per_batch, uint64_t bytes_per_key) {
    const std::string value(std::max<uint64_t>(bytes_per_key, kKeyBytes) - kKeyBytes, 'x');
    rocksdb::WriteOptions options;
    options.sync = true;
    while (keys > 0) {
      rocksdb::WriteBatch batch;
      const uint64_t now = std::min(keys, keys_per_batch);
      for (uint64_t i = 0; i < now; ++i) {
        std::string key = absl::StrCat(absl::Dec(++last_, absl::kZeroPad20));
        key.resize(kKeyBytes, 'k');
        CHECK(batch.Put(key, value).ok());
      }
      CHECK(db_->Write(options, &batch).ok());
      keys -= now;
    }
  }

 private:
  const Folder folder_;
  const std::unique_ptr<rocksdb::DB> db_;
  uint64_t last_ = 0;
};

// A log that gets 256 bytes more and is synced.
class RawLog {
 public:
  RawLog() : file_(open((folder_.path() / "log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {}
  ~RawLog() { close(file_); }
  void AppendAndSync() {
    const std::string bytes(kPromptBytes, 'x');
    CHECK(write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    CHECK(fdatasync(file_) == 0);
  }

 private:
  const Folder folder_;
  const int file_;
};

// A director on a new store.
struct Cluster {
  Folder folder;
  adapters::SystemClock clock;
  adapters::SystemRandom random;
  CountedStores stores{folder.path()};
  PromptAgents agents;
  std::unique_ptr<director::DirectorDriver> driver = *director::DirectorDriver::Open(
      {.engine = {.queue = {.max_size = 0}, .retention = {.count = 1000}}},
      {clock, random, stores, agents});
};

absl::Duration TimeOf(const std::function<void()>& work) {
  const adapters::SystemClock clock;
  const absl::Duration begin = clock.MonotonicNow();
  work();
  return clock.MonotonicNow() - begin;
}

// Lets `work` put so many tasks through the cluster, and raw RocksDB write as much, in turns.
void Compare(benchmark::State& state, Cluster& cluster, size_t tasks,
             const std::function<void()>& work) {
  RawRocksDb raw;
  RawLog log;
  absl::Duration ours;
  absl::Duration raws;
  absl::Duration syncs;
  int rounds = 0;
  work();
  const Written& written = cluster.stores.written();
  for (auto _ : state) {
    const uint64_t before = written.records;
    const uint64_t commits_before = written.commits;
    const absl::Duration time = TimeOf(work);
    state.SetIterationTime(absl::ToDoubleSeconds(time));
    ours += time;
    const uint64_t keys = written.records - before;
    const uint64_t batch = std::max<uint64_t>(1, keys / (written.commits - commits_before));
    raws += TimeOf([&] { raw.Write(keys, batch, static_cast<uint64_t>(written.BytesPerKey())); });
    syncs += TimeOf([&] {
      for (int i = 0; i < 10; ++i) log.AppendAndSync();
    });
    ++rounds;
  }
  state.SetItemsProcessed(static_cast<int64_t>(tasks) * rounds);
  state.counters["of_raw"] = absl::FDivDuration(raws, ours);
  state.counters["keys_per_batch"] = written.KeysPerBatch();
  state.counters["bytes_per_key"] = written.BytesPerKey();
  state.counters["raw_sync_us"] = absl::ToDoubleMicroseconds(syncs / (10 * rounds));
}

void BM_DurableSubmit(benchmark::State& state) {
  const size_t callers = static_cast<size_t>(state.range(0));
  Cluster cluster;
  Callers submitters(*cluster.driver, callers);
  const size_t tasks = std::max<size_t>(64, callers * 16);
  Compare(state, cluster, tasks, [&] { submitters.Submit(tasks); });
}
BENCHMARK(BM_DurableSubmit)->Arg(1)->Arg(8)->Arg(64)->Arg(512)->UseManualTime();

void BM_FullCycle(benchmark::State& state) {
  const size_t callers = static_cast<size_t>(state.range(0));
  Cluster cluster;
  cluster.agents.Connect(*cluster.driver);
  Callers submitters(*cluster.driver, callers);
  const size_t tasks = std::max<size_t>(64, callers * 16);
  uint64_t completed = 0;
  Compare(state, cluster, tasks, [&] {
    submitters.Submit(tasks);
    cluster.agents.WaitFor(completed += tasks);
  });
}
BENCHMARK(BM_FullCycle)->Arg(1)->Arg(8)->Arg(64)->Arg(512)->UseManualTime();

}  // namespace
}  // namespace callboard
