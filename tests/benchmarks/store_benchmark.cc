// Cost of a durable submit and of a full cycle through engine, driver and store, compared with bare
// RocksDB that writes the same keys and the same number of bytes in the same synced batches, and
// with a bare sync, alternating in one process: `of_raw` is our speed relative to bare RocksDB.
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
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/director/driver.h"
#include "libs/store/database.h"
#include "libs/store/record_codec.h"
#include "libs/store/rocksdb_store.h"
#include "libs/system/system.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/submissions.h"
#include "tests/benchmarks/filled_store.h"

namespace callboard {
namespace {

constexpr size_t kPromptBytes = 256;
// Size of a record's key, and of a batch entry besides key and value.
constexpr size_t kKeyBytes = 29 + 4;

// A folder below the working directory, which is on disk: /tmp may be in memory.
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

// The keys that each batch of a store puts and deletes.
class WriteTrace {
 public:
  void Add(absl::Span<const core::Record> batch) {
    for (const core::Record& record : batch) std::visit(Step{*this}, record);
    batches_.push_back(operations_.size());
  }
  // Adds the encoded form of the last added batch.
  void AddSample(const rocksdb::WriteBatch& batch) {
    sampled_bytes_ += batch.GetDataSize();
    sampled_operations_ += batch.Count();
  }
  // Stops sampling, which takes time.
  void Clear() {
    is_sampling_ = false;
    operations_.clear();
    batches_.clear();
  }

  bool is_sampling() const { return is_sampling_; }
  size_t operations() const { return operations_.size(); }
  size_t batches() const { return batches_.size(); }
  double BytesPerOperation() const {
    return static_cast<double>(sampled_bytes_) / std::max<double>(1, sampled_operations_);
  }

  // Writes the same keys in the same batches with the same number of bytes.
  void Replay(rocksdb::DB& db) const {
    const auto puts = std::count_if(operations_.begin(), operations_.end(),
                                    [](const Operation& operation) { return operation.is_put; });
    const double bytes = BytesPerOperation() - kKeyBytes;
    const std::string value(
        static_cast<size_t>(bytes * static_cast<double>(operations()) / static_cast<double>(puts)),
        'x');
    rocksdb::WriteOptions options;
    options.sync = true;
    size_t next = 0;
    rocksdb::WriteBatch batch;
    for (const size_t end : batches_) {
      batch.Clear();
      for (; next < end; ++next) {
        const Operation& operation = operations_[next];
        const std::string key = store::TaskKey(operation.id, operation.number);
        CHECK((operation.is_put ? batch.Put(key, value) : batch.Delete(key)).ok());
      }
      CHECK(db.Write(options, &batch).ok());
    }
  }

 private:
  struct Operation {
    core::QueueId id;
    uint64_t number = 0;
    bool is_put = true;
  };
  struct Step {
    void operator()(const core::TaskRecord& record) const {
      trace.operations_.push_back({record.queue_id, record.number});
    }
    void operator()(const core::TaskForgotten& forgotten) const {
      for (uint64_t i = 1; i <= forgotten.records; ++i) {
        trace.operations_.push_back({forgotten.queue_id, i, /*is_put=*/false});
      }
    }
    // The key contains the request id, which also grows.
    void operator()(const core::RequestRemembered& request) const {
      trace.operations_.push_back({request.queue_id});
    }
    template <class Other>
    void operator()(const Other&) const {
      trace.operations_.emplace_back();
    }
    WriteTrace& trace;
  };

  std::vector<Operation> operations_;
  // End index of each batch.
  std::vector<size_t> batches_;
  std::atomic<bool> is_sampling_ = true;
  uint64_t sampled_bytes_ = 0;
  uint64_t sampled_operations_ = 0;
};

// A store that records its batches.
class TracedStore final : public ports::EventStore {
 public:
  TracedStore(std::unique_ptr<ports::EventStore> store, WriteTrace& trace)
      : store_(std::move(store)), trace_(trace) {}

  absl::Status Commit(absl::Span<const core::Record> batch) override {
    trace_.Add(batch);
    if (trace_.is_sampling()) {
      rocksdb::WriteBatch encoded;
      for (const core::Record& record : batch) encoder_.Append(record, encoded);
      trace_.AddSample(encoded);
    }
    return store_->Commit(batch);
  }
  absl::Status Load(const ports::RecordVisitor& take) const override { return store_->Load(take); }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const override {
    return store_->TaskRecords(id);
  }
  absl::StatusOr<core::SpecBytes> Spec(core::QueueId id) const override { return store_->Spec(id); }
  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string& name) const override {
    return store_->CreateCheckpoint(name);
  }

 private:
  const std::unique_ptr<ports::EventStore> store_;
  WriteTrace& trace_;
  store::RecordEncoder encoder_;
};

class TracedStores final : public ports::EventStoreOpener {
 public:
  explicit TracedStores(const std::filesystem::path& folder)
      : stores_(*store::RocksDbStoreOpener::Lock({.data_dir = folder})) {}

  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override {
    auto store = stores_->Open(access);
    CHECK_OK(store.status());
    return std::make_unique<TracedStore>(*std::move(store), trace_);
  }
  // REQUIRES: no commit is in progress.
  WriteTrace& trace() { return trace_; }

 private:
  const std::unique_ptr<store::RocksDbStoreOpener> stores_;
  WriteTrace trace_;
};

// Agents that accept every start and finish it immediately.
class InstantAgents final : public ports::AgentLink {
 public:
  static constexpr int kAgents = 8;
  static constexpr uint32_t kSlots = 16;

  void Connect(director::DirectorDriver& driver) {
    driver_ = &driver;
    for (uint64_t agent = 1; agent <= kAgents; ++agent) {
      core::SessionOpened opened;
      opened.name = absl::StrCat("agent-", agent);
      opened.instance_id = opened.name;
      opened.url = "grpc://127.0.0.1:1";
      opened.lanes = {{"default", {.slots = kSlots, .used = 0}}};
      Post([agent, opened](director::DirectorEngine& engine, director::Moment now) {
        CHECK_OK(engine.OnSessionOpened(core::AgentSessionId(agent), opened, now));
      });
    }
  }
  void WaitFor(uint64_t completed) {
    base::MutexLock lock(mutex_);
    while (completed_ < completed) changed_.Wait(mutex_);
  }

  void Send(core::AgentSessionId session, std::vector<core::DirectorMessage> messages) override {
    for (const core::DirectorMessage& message : messages) Handle(session, message);
  }
  void Redial(uint64_t) override {}

 private:
  void Handle(core::AgentSessionId session, const core::DirectorMessage& message) {
    if (const auto* start = std::get_if<core::StartRun>(&message)) {
      Post([session, token = start->token](director::DirectorEngine& engine, director::Moment now) {
        engine.OnMessages(
            session,
            {core::StartAnswer{token, absl::OkStatus()}, core::RunEnded{token, {.exit_code = 0}}},
            now);
      });
    } else if (std::holds_alternative<core::ResultAck>(message)) {
      base::MutexLock lock(mutex_);
      ++completed_;
      changed_.NotifyOne();
    }
  }

  void Post(std::function<void(director::DirectorEngine&, director::Moment)> tell) {
    driver_->Post(
        director::MakeCommand({.origin = director::Command::Origin::kLink}, std::move(tell)));
  }

  director::DirectorDriver* driver_ = nullptr;
  base::Mutex mutex_;
  base::CondVar changed_;
  uint64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Callers with one open submit each, all on one thread.
class Callers {
 public:
  Callers(director::DirectorDriver& driver, size_t callers) : driver_(driver), free_(callers) {}

  // Prepares the submissions.
  void Prepare(size_t tasks) {
    submissions_.resize(tasks);
    for (core::Submission& submission : submissions_) {
      v1::SubmitTaskRequest submit = test::MakeSubmit(std::string(kPromptBytes, 'x'));
      submit.set_request_id(absl::StrCat("request-", ++last_));
      submission = test::ToSubmission(std::move(submit));
    }
  }
  // Submits everything; returns when all is answered.
  void Submit() {
    const size_t tasks = submissions_.size();
    size_t sent = 0;
    {
      base::MutexLock lock(mutex_);
      wanted_ += tasks;
    }
    while (sent < tasks) {
      size_t now = 0;
      {
        base::MutexLock lock(mutex_);
        while (free_ == 0) changed_.Wait(mutex_);
        now = std::min(free_, tasks - sent);
        free_ -= now;
      }
      for (const size_t end = sent + now; sent < end; ++sent) SubmitOne(submissions_[sent]);
    }
    base::MutexLock lock(mutex_);
    while (answered_ < wanted_) changed_.Wait(mutex_);
  }

 private:
  void SubmitOne(core::Submission& submission) {
    driver_.Post(
        director::SubmitCommand(driver_.NewCallId(), "me", std::move(submission), clock_.WallNow(),
                                [this](const director::Decision& decision) {
                                  CHECK(std::holds_alternative<director::SubmitResult>(decision));
                                  base::MutexLock lock(mutex_);
                                  ++answered_;
                                  if (++free_ == 1 || answered_ == wanted_) changed_.NotifyOne();
                                }));
  }

  const system::SystemClock clock_;
  director::DirectorDriver& driver_;
  std::vector<core::Submission> submissions_;
  uint64_t last_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  size_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Bare RocksDB with the options of the store.
class RawRocksDb {
 public:
  RawRocksDb() : db_(*store::CreateDatabase(folder_.path() / "raw")) {}

  rocksdb::DB& db() { return *db_; }

 private:
  const Folder folder_;
  const std::unique_ptr<rocksdb::DB> db_;
};

// A log to which 256 bytes are appended and synced.
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
  system::SystemClock clock;
  system::SystemRandom random;
  TracedStores stores{folder.path()};
  InstantAgents agents;
  test::DriverFlow flow{clock};
  std::unique_ptr<director::DirectorDriver> driver = *director::DirectorDriver::Open(
      {.engine = {.queue = {.max_size = 0}, .retention = {.count = 1000}}},
      {clock, random, stores, agents}, flow.flow());
};

absl::Duration TimeOf(const std::function<void()>& work) {
  const system::SystemClock clock;
  const absl::Duration begin = clock.MonotonicNow();
  work();
  return clock.MonotonicNow() - begin;
}

// Alternates between `work`, which puts `tasks` tasks through the cluster, and bare RocksDB with
// the same writes.
void Compare(benchmark::State& state, Cluster& cluster, Callers& callers, size_t tasks,
             const std::function<void()>& work) {
  RawRocksDb raw;
  RawLog log;
  absl::Duration ours;
  absl::Duration raws;
  absl::Duration syncs;
  int rounds = 0;
  double operations = 0;
  double batches = 0;
  callers.Prepare(tasks);
  work();
  WriteTrace& trace = cluster.stores.trace();
  for (auto _ : state) {
    trace.Clear();
    callers.Prepare(tasks);
    const absl::Duration time = TimeOf(work);
    state.SetIterationTime(absl::ToDoubleSeconds(time));
    ours += time;
    raws += TimeOf([&] { trace.Replay(raw.db()); });
    operations += static_cast<double>(trace.operations());
    batches += static_cast<double>(trace.batches());
    syncs += TimeOf([&] {
      for (int i = 0; i < 10; ++i) log.AppendAndSync();
    });
    ++rounds;
  }
  state.SetItemsProcessed(static_cast<int64_t>(tasks) * rounds);
  state.counters["of_raw"] = absl::FDivDuration(raws, ours);
  state.counters["keys_per_batch"] = operations / batches;
  state.counters["bytes_per_key"] = trace.BytesPerOperation();
  state.counters["raw_sync_us"] = absl::ToDoubleMicroseconds(syncs / (10 * rounds));
}

void BM_DurableSubmit(benchmark::State& state) {
  const size_t callers = static_cast<size_t>(state.range(0));
  Cluster cluster;
  Callers submitters(*cluster.driver, callers);
  const size_t tasks = std::max<size_t>(64, callers * 16);
  Compare(state, cluster, submitters, tasks, [&] { submitters.Submit(); });
}
BENCHMARK(BM_DurableSubmit)->Arg(1)->Arg(8)->Arg(64)->Arg(512)->UseManualTime();

void BM_FullCycle(benchmark::State& state) {
  const size_t callers = static_cast<size_t>(state.range(0));
  Cluster cluster;
  cluster.agents.Connect(*cluster.driver);
  Callers submitters(*cluster.driver, callers);
  const size_t tasks = std::max<size_t>(64, callers * 16);
  uint64_t completed = 0;
  Compare(state, cluster, submitters, tasks, [&] {
    submitters.Submit();
    cluster.agents.WaitFor(completed += tasks);
  });
}
BENCHMARK(BM_FullCycle)->Arg(1)->Arg(8)->Arg(64)->Arg(512)->UseManualTime();

// Start of a director on a store with many pending tasks, compared with reading everything from
// RocksDB.
void BM_Recovery(benchmark::State& state) {
  const auto pending = static_cast<uint64_t>(state.range(0));
  const Folder folder;
  FillStore(folder.path(), pending);
  const system::SystemClock clock;
  system::SystemRandom random;
  InstantAgents agents;
  absl::Duration ours;
  absl::Duration raws;
  for (auto _ : state) {
    raws += TimeOf([&] {
      const auto raw = store::OpenReadOnly(folder.path() / "events");
      CHECK_OK(raw.status());
      uint64_t bytes = 0;
      const std::unique_ptr<rocksdb::Iterator> all(raw->db->NewIterator(rocksdb::ReadOptions()));
      for (all->SeekToFirst(); all->Valid(); all->Next()) bytes += all->value().size();
      CHECK_GT(bytes, pending);
    });
    const auto stores = *store::RocksDbStoreOpener::Lock({.data_dir = folder.path()});
    test::DriverFlow flow(clock);
    std::unique_ptr<director::DirectorDriver> driver;
    const absl::Duration time = TimeOf([&] {
      driver = *director::DirectorDriver::Open({.engine = {.queue = {.max_size = 0}}},
                                               {clock, random, *stores, agents}, flow.flow());
    });
    state.SetIterationTime(absl::ToDoubleSeconds(time));
    ours += time;
  }
  state.SetItemsProcessed(static_cast<int64_t>(pending * state.iterations()));
  state.counters["of_raw"] = absl::FDivDuration(raws, ours);
}
BENCHMARK(BM_Recovery)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace
}  // namespace callboard
