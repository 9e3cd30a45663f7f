#include "libs/wire/page.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/core/hash.h"
#include "libs/core/limits.h"

namespace callboard::wire {
namespace {

constexpr int kPageSize = 50;
constexpr size_t kPageBytesMax = 3 << 20;
// Overhead of an item in a page: its tag and length.
constexpr size_t kItemBytes = 5;
// Not valid Base64.
constexpr char kInvalidToken[] = "?";

}  // namespace

size_t ReadPageSize(int32_t page_size, FieldChecks& checks) {
  if (page_size < 0 || page_size > core::kPageSizeMax) {
    checks.AddViolation("page_size",
                        absl::StrCat("is ", page_size, ", not between 0 and ", core::kPageSizeMax));
    return kPageSize;
  }
  return page_size == 0 ? kPageSize : page_size;
}

std::string EncodePageToken(absl::string_view position) {
  return absl::WebSafeBase64Escape(position);
}

std::optional<std::string> DecodePageToken(const std::string& page_token) {
  std::string position;
  if (page_token.empty() || !absl::WebSafeBase64Unescape(page_token, &position)) {
    return std::nullopt;
  }
  return position;
}

void AddPageTokenViolation(FieldChecks& checks) {
  checks.AddViolation("page_token", "is not a token that this list returned");
}

std::string ReadPageToken(const std::string& page_token, FieldChecks& checks) {
  std::optional<std::string> position = DecodePageToken(page_token);
  if (!position.has_value() && !page_token.empty()) AddPageTokenViolation(checks);
  return std::move(position).value_or("");
}

PageScope::PageScope(const google::protobuf::Message& request) {
  const std::unique_ptr<google::protobuf::Message> filters(request.New());
  filters->CopyFrom(request);
  for (const char* field : {"page_token", "page_size"}) {
    filters->GetReflection()->ClearField(filters.get(),
                                         filters->GetDescriptor()->FindFieldByName(field));
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    // Equal maps must have equal bytes.
    out.SetSerializationDeterministic(true);
    filters->SerializeToCodedStream(&out);
  }
  const uint64_t hash =
      core::StableHash().Add(request.GetDescriptor()->full_name()).Add(bytes).value();
  seal_ = absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(&hash), sizeof(hash)));
}

std::string PageScope::UnsealToken(const std::string& sealed) const {
  if (sealed.empty()) return "";
  absl::string_view token = sealed;
  return absl::ConsumePrefix(&token, seal_) && !token.empty() ? std::string(token) : kInvalidToken;
}

bool PageBytes::Add(const google::protobuf::MessageLite& item) {
  const bool is_first = bytes_ == 0;
  bytes_ += item.ByteSizeLong() + kItemBytes;
  return is_first || bytes_ <= kPageBytesMax;
}

}  // namespace callboard::wire
