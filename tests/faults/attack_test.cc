// Clients that attack a director while an agent works for it and a healthy client submits.
//
// Without arguments each attack is short and only its outcome is checked. With --full it has the
// size that docs/FAULTS.md gives figures for; then they are printed, and the ratios are checked.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/system/system.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "tests/crash/director_process.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/http2_bytes.h"
#include "tests/faults/shell_agent.h"

namespace callboard::faults {
namespace {

using crash::FoundTask;
using crash::QueueClient;
using test::HttpConnection;

bool full = false;

constexpr uint64_t kMegabyte = 1024;
// Maximum memory of the director under 80,000 reset calls. Without them it needs 36 MiB.
constexpr uint64_t kResetMemoryMax = 200 * kMegabyte;
// Maximum ratio of a healthy client's median latency under attack to the median before.
constexpr double kSlowdownMax = 10;
// Maximum processor use for 1,000 registrations of dead addresses per second: about twice the
// measured value, and half of the value without the bounds.
constexpr double kDeadAgentsShareMax = 0.4;

std::vector<std::string> Flags() {
  std::vector<std::string> flags = ShortLease();
  flags.push_back("--queue.max_size=0");
  return flags;
}

// Returns `size` zeros compressed with gzip, about a thousandth of the size.
std::string CompressedZeros(size_t size) {
  z_stream stream = {};
  constexpr int kGzip = 15 + 16;
  CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) ==
        Z_OK);
  std::string zeros(size, '\0');
  std::string compressed(deflateBound(&stream, size), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

// Returns a complete call whose only message is compressed, in frames of 16 KiB.
std::string CompressedCall(const std::string& compressed) {
  Headers headers = HeadersOf(kSubmitPath);
  headers.emplace_back("grpc-encoding", "gzip");
  std::string bytes =
      absl::StrCat(Hello(), Frame(FrameType::kHeaders, kEndHeaders, 1, HeaderBlock(headers)));
  const std::string message =
      absl::StrCat(BigEndian(1, 1), BigEndian(compressed.size(), 4), compressed);
  constexpr size_t kFrame = 16384;
  for (size_t at = 0; at < message.size(); at += kFrame) {
    const bool is_last = at + kFrame >= message.size();
    absl::StrAppend(
        &bytes, Frame(FrameType::kData, is_last ? kEndStream : 0, 1, message.substr(at, kFrame)));
  }
  return bytes;
}

// A port on every address of this machine, 127.x.y.z, that accepts connections and sends nothing.
class SilentPort {
 public:
  SilentPort() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    CHECK_GE(listener_, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    CHECK_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    CHECK_EQ(listen(listener_, SOMAXCONN), 0);
    socklen_t size = sizeof(address);
    CHECK_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(listener_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  uint16_t port() const { return port_; }
  // Returns the number of new connections since the last call.
  int Take() {
    int clients = 0;
    for (int client = 0; (client = accept(listener_, nullptr, nullptr)) >= 0; ++clients) {
      close(client);
    }
    return clients;
  }

 private:
  const int listener_;
  uint16_t port_ = 0;
};

// A director, an agent with a short lease that always runs one task, and a healthy client.
class AttackTest : public testing::Test {
 protected:
  AttackTest() : client_(director_.address()) {
    run_ = client_.Submit("run", WaitForGate(folder_ / "gate"))->queue_id;
    while (client_.Get(run_)->state != FoundTask::State::kRunning) {
    }
    before_ = MedianSubmit();
    memory_before_ = Memory("VmHWM");
    resident_before_ = Memory("VmRSS");
  }

  uint16_t grpc_port() const { return test::PortOf(director_.address()); }
  uint64_t Memory(absl::string_view field) {
    return test::StatusOf(director_.process().pid(), field);
  }

  // Returns the processor use of the director during `work`.
  double ProcessorShare(absl::FunctionRef<void()> work) {
    const pid_t director = director_.process().pid();
    const absl::Duration begun = clock_.MonotonicNow();
    const absl::Duration used = test::ProcessorTimeOf(director);
    work();
    return absl::FDivDuration(test::ProcessorTimeOf(director) - used,
                              clock_.MonotonicNow() - begun);
  }

  // Slower if a call takes longer.
  void CallEvery(absl::Duration period, int count, absl::FunctionRef<void(int)> call) {
    const absl::Duration begun = clock_.MonotonicNow();
    for (int i = 0; i < count;) {
      if (clock_.MonotonicNow() - begun < i * period) {
        std::this_thread::yield();
      } else {
        call(i++);
      }
    }
  }

  absl::Duration MedianSubmit() {
    std::vector<absl::Duration> times;
    for (int i = 0; i < 101; ++i) {
      const absl::Duration begun = clock_.MonotonicNow();
      const auto submitted = client_.Submit(absl::StrCat("healthy-", ++submits_), "true");
      EXPECT_TRUE(submitted.ok()) << submitted.status();
      times.push_back(clock_.MonotonicNow() - begun);
    }
    std::nth_element(times.begin(), times.begin() + 50, times.end());
    return times[50];
  }

  // Submits until the attack has ended.
  absl::Duration SubmitDuring(const std::atomic<bool>& attack_ended) {
    std::vector<absl::Duration> medians;
    do {
      medians.push_back(MedianSubmit());
    } while (!attack_ended);
    std::sort(medians.begin(), medians.end());
    return medians[medians.size() / 2];
  }

  // Checks that the run continues under its first lease and that the director is as healthy as
  // before.
  void ExpectNoEffect(absl::string_view attack, absl::Duration median,
                      double slowdown_max = kSlowdownMax) {
    const FoundTask run = *client_.Get(run_);
    EXPECT_EQ(run.state, FoundTask::State::kRunning);
    EXPECT_EQ(run.dispatches, 1u);
    EXPECT_TRUE(client_.Submit(absl::StrCat("after-", ++submits_), "true").ok());
    if (!full) return;
    const double ratio = absl::FDivDuration(median, before_);
    std::cout << attack << ": healthy median " << absl::FormatDuration(before_) << " before, "
              << absl::FormatDuration(median) << " under attack (x" << ratio << "), peak memory "
              << Memory("VmHWM") / kMegabyte << " MiB, " << memory_before_ / kMegabyte
              << " before, " << Memory("VmRSS") / kMegabyte << " after\n";
    EXPECT_LE(ratio, slowdown_max);
  }

  void TearDown() override { std::ofstream(folder_ / "gate") << "open"; }

  const system::SystemClock clock_;
  const std::filesystem::path folder_ = test::NewFolder();
  crash::DirectorProcess director_{test::NewFolder(), Flags()};
  test::RunningServer agent_{kAgent, ShellAgentFlags(director_.address())};
  QueueClient client_;
  std::string run_;
  uint64_t submits_ = 0;
  absl::Duration before_;
  uint64_t memory_before_ = 0;
  uint64_t resident_before_ = 0;
};

TEST_F(AttackTest, CompressedMessagesEndNoLease) {
  const std::string call = CompressedCall(CompressedZeros(60 << 20));
  // 1 MB per second, for longer than leases last.
  const absl::Duration lasts = full ? absl::Seconds(85) : absl::Seconds(4);
  const absl::Duration period = absl::Seconds(1) * (static_cast<double>(call.size()) / 1e6);
  std::atomic<bool> attack_ended = false;
  std::thread attacker([&] {
    std::vector<std::unique_ptr<HttpConnection>> connections;
    const absl::Duration begun = clock_.MonotonicNow();
    for (int sent = 0; clock_.MonotonicNow() - begun < lasts;) {
      if (clock_.MonotonicNow() - begun < sent * period) {
        std::this_thread::yield();
        continue;
      }
      ++sent;
      connections.push_back(std::make_unique<HttpConnection>(grpc_port()));
      connections.back()->Send(call);
      if (connections.size() > 16) connections.erase(connections.begin());
    }
    attack_ended = true;
  });
  const absl::Duration median = SubmitDuring(attack_ended);
  attacker.join();
  ExpectNoEffect("compressed messages", median);
  // Each task of the healthy client takes about 1 KiB; an inflated message would take 60 MiB.
  EXPECT_LE(Memory("VmHWM") - memory_before_, 50 * kMegabyte + submits_ * 3 / 2);
}

// The attacker connects again whenever the server has closed its connection.
TEST_F(AttackTest, ResetCallsCutNoHealthyCall) {
  const uint32_t calls = full ? 80'000 : 5'000;
  std::atomic<bool> attack_ended = false;
  std::thread attacker([&] {
    for (uint32_t sent = 0; sent < calls;) {
      HttpConnection connection(grpc_port());
      bool is_open = connection.Send(Hello());
      for (uint32_t stream = 1; is_open && sent < calls; stream += 2, ++sent) {
        is_open = connection.Send(BeginCall(stream) + Reset(stream));
      }
    }
    attack_ended = true;
  });
  const absl::Duration median = SubmitDuring(attack_ended);
  attacker.join();
  ExpectNoEffect("rapid reset", median);
  EXPECT_LE(Memory("VmHWM"), kResetMemoryMax);
}

// Each connection stays below the limit of calls that it may reset.
TEST_F(AttackTest, ResetCallsOfManyConnectionsCutNoHealthyCall) {
  constexpr uint32_t kCallsPerConnection = 250;
  const uint32_t connections = full ? 320 : 20;
  std::string calls = Hello();
  for (uint32_t stream = 1; stream < 2 * kCallsPerConnection; stream += 2) {
    absl::StrAppend(&calls, BeginCall(stream), Reset(stream));
  }
  constexpr int kAttackers = 4;
  std::atomic<int> attackers_left = kAttackers;
  std::atomic<bool> attack_ended = false;
  std::vector<std::thread> attackers;
  for (int i = 0; i < kAttackers; ++i) {
    attackers.emplace_back([&] {
      std::vector<std::unique_ptr<HttpConnection>> open;
      while (open.size() < connections / kAttackers) {
        open.push_back(std::make_unique<HttpConnection>(grpc_port()));
        open.back()->Send(calls);
      }
      if (--attackers_left == 0) attack_ended = true;
    });
  }
  const absl::Duration median = SubmitDuring(attack_ended);
  for (std::thread& attacker : attackers) attacker.join();
  // A healthy client has a share of the reads, like every other connection.
  ExpectNoEffect("rapid reset on many connections", median, /*slowdown_max=*/1000);
  EXPECT_LE(Memory("VmHWM"), kResetMemoryMax);
}

TEST_F(AttackTest, UnreadStreamsAreBounded) {
  const int connections = full ? 50 : 5;
  const std::string no_window =
      Frame(FrameType::kSettings, 0, 0, BigEndian(4, 2) + BigEndian(0, 4));
  // A task of about 14 KiB, which lists return completely.
  v1::SubmitTasksRequest items;
  v1::SubmitTaskRequest& item = *items.add_items();
  item.set_prompt("true");
  for (int label = 0; label < 28; ++label) {
    (*item.mutable_labels())[absl::StrCat(label, std::string(248, 'k'))] = std::string(250, 'v');
  }
  const std::string message = items.SerializeAsString();
  // Rejections are the largest answers for these few bytes: 20,000 items fit into the window.
  v1::SubmitTasksRequest empty_items;
  for (int i = 0; i < 1000; ++i) empty_items.add_items();
  const std::string rejected = empty_items.SerializeAsString();
  std::vector<std::unique_ptr<HttpConnection>> connections_open;
  std::atomic<bool> attack_ended = false;
  std::thread attacker([&] {
    for (int i = 0; i < connections; ++i) {
      connections_open.push_back(std::make_unique<HttpConnection>(grpc_port()));
      HttpConnection& connection = *connections_open.back();
      connection.Send(kPreface + no_window);
      connection.Send(BeginCall(1, kSubmitTasksPath) + NextMessage(1, message));
      for (int sent = 0; sent < 20; ++sent) connection.Send(NextMessage(1, rejected));
      for (uint32_t stream = 3; stream < 43; stream += 2) {
        connection.Send(BeginCall(stream, kWatchPath) + OnlyMessage(stream, ""));
      }
    }
    attack_ended = true;
  });
  const absl::Duration median = SubmitDuring(attack_ended);
  attacker.join();
  connections_open.clear();
  ExpectNoEffect("streams that are never read", median);
  EXPECT_LE(Memory("VmHWM"), 384 * kMegabyte);
  // The memory is returned to the system; the timeout of the test limits the wait.
  while (full && Memory("VmRSS") > resident_before_ + 64 * kMegabyte) std::this_thread::yield();
}

TEST_F(AttackTest, AgentsWithDeadAddressesAreBounded) {
  const int agents = full ? 5'000 : 1'200;
  const auto stub = v1::FleetService::NewStub(
      grpc::CreateChannel(director_.address(), grpc::InsecureChannelCredentials()));
  const auto announce = [&stub](const std::string& name, const std::string& address) {
    v1::AnnounceAgentRequest request;
    request.set_name(name);
    request.set_instance_id("life");
    request.set_address(address);
    grpc::ClientContext context;
    v1::AnnounceAgentResponse response;
    return stub->AnnounceAgent(&context, request, &response).error_code();
  };
  const auto announce_dead = [&announce](int i) {
    return announce(absl::StrCat("dead-", i), absl::StrCat("127.0.0.1:", 1 + i % 1000));
  };
  const auto idle = [this] {
    EXPECT_FALSE(director_.process().WaitForExit(absl::Seconds(5)).has_value());
  };
  const double share_before = full ? ProcessorShare(idle) : 0;
  std::atomic<bool> attack_ended = false;
  int rejected = 0;
  SilentPort silent;
  int dialled = 0;
  absl::Duration lasted;
  std::thread attacker([&] {
    for (int round = 0; round < (full ? 6 : 1); ++round) {
      for (int i = 0; i < agents; ++i) {
        if (announce_dead(i) == grpc::StatusCode::RESOURCE_EXHAUSTED) ++rejected;
      }
    }
    // One agent with a new address each time.
    const absl::Duration begun = clock_.MonotonicNow();
    for (int i = 0; i < agents; ++i) {
      announce("dead-0", absl::StrCat("127.", 1 + i / 250, ".", i % 250, ".1:", silent.port()));
      dialled += silent.Take();
    }
    lasted = clock_.MonotonicNow() - begun;
    attack_ended = true;
  });
  const absl::Duration median = SubmitDuring(attack_ended);
  attacker.join();
  EXPECT_GT(rejected, 0);
  // One second's worth immediately, then the same rate; twice that, because some wait a moment.
  EXPECT_LE(dialled, 2 * (100 + 100 * absl::ToDoubleSeconds(lasted)));
  ExpectNoEffect("dead agents", median);
  if (!full) return;
  // The rate of all agents that register every five seconds, for 20 s.
  const double share = ProcessorShare([&] {
    CallEvery(absl::Seconds(5) / agents, 4 * agents, [&](int i) { announce_dead(i % agents); });
  });
  std::cout << "dead agents: the director uses " << 100 * share << " % of a processor, "
            << 100 * share_before << " % before\n";
  EXPECT_LE(share, kDeadAgentsShareMax);
}

}  // namespace
}  // namespace callboard::faults

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  callboard::faults::full = argc > 1 && std::string(argv[1]) == "--full";
  return RUN_ALL_TESTS();
}
