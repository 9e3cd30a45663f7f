#include "libs/wire/page.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/core/limits.h"
#include "libs/core/stable_hash.h"

namespace callboard::wire {
namespace {

constexpr int kPageSize = 50;
constexpr size_t kPageBytesMax = 3 << 20;
// What an item in a page takes beside itself: a tag and its length.
constexpr size_t kItemBytes = 5;
// No text of Base64.
constexpr char kNoToken[] = "?";

}  // namespace

size_t ReadPageSize(int32_t page_size, FieldChecks& checks) {
  if (page_size < 0 || page_size > core::kPageSizeMax) {
    checks.Refuse("page_size",
                  absl::StrCat("is ", page_size, ", not between 0 and ", core::kPageSizeMax));
    return kPageSize;
  }
  return page_size == 0 ? kPageSize : page_size;
}

std::string PageToken(absl::string_view place) { return absl::WebSafeBase64Escape(place); }

std::optional<std::string> PlaceIn(const std::string& page_token) {
  std::string place;
  if (page_token.empty() || !absl::WebSafeBase64Unescape(page_token, &place)) return std::nullopt;
  return place;
}

void RefusePageToken(FieldChecks& checks) {
  checks.Refuse("page_token", "is not one that a page ended with");
}

std::string ReadPageToken(const std::string& page_token, FieldChecks& checks) {
  std::optional<std::string> place = PlaceIn(page_token);
  if (!place.has_value() && !page_token.empty()) RefusePageToken(checks);
  return std::move(place).value_or("");
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
    // Equal maps are equal bytes.
    out.SetSerializationDeterministic(true);
    filters->SerializeToCodedStream(&out);
  }
  const uint64_t hash =
      core::StableHash().Add(request.GetDescriptor()->full_name()).Add(bytes).value();
  seal_ = absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(&hash), sizeof(hash)));
}

std::string PageScope::OpenedToken(const std::string& sealed) const {
  if (sealed.empty()) return "";
  absl::string_view token = sealed;
  return absl::ConsumePrefix(&token, seal_) && !token.empty() ? std::string(token) : kNoToken;
}

bool PageBytes::Add(const google::protobuf::MessageLite& item) {
  const bool is_first = bytes_ == 0;
  bytes_ += item.ByteSizeLong() + kItemBytes;
  return is_first || bytes_ <= kPageBytesMax;
}

}  // namespace callboard::wire
