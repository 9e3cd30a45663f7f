// HTTP/2 frames as bytes, for clients that behave as no library does.
#ifndef CALLBOARD_TESTS_FAULTS_HTTP2_BYTES_H_
#define CALLBOARD_TESTS_FAULTS_HTTP2_BYTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace callboard::faults {

inline constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr char kSubmitPath[] = "/callboard.v1.QueueService/SubmitTask";
inline constexpr char kSubmitTasksPath[] = "/callboard.v1.QueueService/SubmitTasks";
inline constexpr char kWatchPath[] = "/callboard.v1.QueueService/WatchTasks";

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kEndHeaders = 4;

// Returns `value` as big-endian bytes.
inline std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

inline std::string Frame(FrameType type, uint8_t flags, uint32_t stream,
                         const std::string& payload) {
  return absl::StrCat(BigEndian(payload.size(), 3), BigEndian(static_cast<uint8_t>(type), 1),
                      BigEndian(flags, 1), BigEndian(stream, 4), payload);
}

// The first bytes of every client.
inline std::string Hello() { return absl::StrCat(kPreface, Frame(FrameType::kSettings, 0, 0, "")); }

using Headers = std::vector<std::pair<std::string, std::string>>;

// Encodes each header as a literal without indexing. REQUIRES: names and values of less than 127
// bytes.
inline std::string HeaderBlock(const Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&block, BigEndian(0, 1), BigEndian(name.size(), 1), name,
                    BigEndian(value.size(), 1), value);
  }
  return block;
}

inline Headers HeadersOf(const std::string& path) {
  return {{":method", "POST"},         {":scheme", "http"}, {":path", path},
          {":authority", "127.0.0.1"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
}

// Begins a call without its message.
inline std::string BeginCall(uint32_t stream, const std::string& path = kSubmitPath) {
  return Frame(FrameType::kHeaders, kEndHeaders, stream, HeaderBlock(HeadersOf(path)));
}

// A message of a call that continues. REQUIRES: it fits into a frame.
inline std::string NextMessage(uint32_t stream, const std::string& message, uint8_t flags = 0) {
  return Frame(FrameType::kData, flags, stream,
               absl::StrCat(BigEndian(0, 1), BigEndian(message.size(), 4), message));
}

// The only message of a call.
inline std::string OnlyMessage(uint32_t stream, const std::string& message) {
  return NextMessage(stream, message, kEndStream);
}

inline std::string Reset(uint32_t stream) {
  constexpr uint64_t kCancel = 8;
  return Frame(FrameType::kReset, 0, stream, BigEndian(kCancel, 4));
}

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_HTTP2_BYTES_H_
