#include "libs/wire/page.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace callboard::wire {
namespace {

constexpr int kPageSize = 50;
constexpr int kPageSizeMax = 1000;
constexpr size_t kPageBytesMax = 3 << 20;
// What an item in a page takes beside itself: a tag and its length.
constexpr size_t kItemBytes = 5;

}  // namespace

size_t ReadPageSize(int32_t page_size, FieldChecks& checks) {
  if (page_size < 0 || page_size > kPageSizeMax) {
    checks.Refuse("page_size",
                  absl::StrCat("is ", page_size, ", not between 0 and ", kPageSizeMax));
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

bool PageBytes::Add(const google::protobuf::MessageLite& item) {
  const bool is_first = bytes_ == 0;
  bytes_ += item.ByteSizeLong() + kItemBytes;
  return is_first || bytes_ <= kPageBytesMax;
}

}  // namespace callboard::wire
