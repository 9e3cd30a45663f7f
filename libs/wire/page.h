// What all lists have in common: how long a page is, how large it may become, and how the next one
// is found.
#ifndef CALLBOARD_LIBS_WIRE_PAGE_H_
#define CALLBOARD_LIBS_WIRE_PAGE_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/wire/field_checks.h"

namespace callboard::wire {

// The field `page_size` of a request.
size_t ReadPageSize(int32_t page_size, FieldChecks& checks);

// A place in a list, in a form that invites nobody to build one.
std::string PageToken(absl::string_view place);
// The place in the field `page_token`; nothing when that is empty or not one of ours.
std::optional<std::string> PlaceIn(const std::string& page_token);
// Notes that `page_token` is not one of ours.
void RefusePageToken(FieldChecks& checks);
// The place in the field `page_token` of a list whose places are names; empty at the beginning.
std::string ReadPageToken(const std::string& page_token, FieldChecks& checks);

// How large a page has become. One that would be too large for a message ends early.
class PageBytes {
 public:
  // Whether `item` fits, and counts it; the first always does.
  bool Add(const google::protobuf::MessageLite& item);

 private:
  size_t bytes_ = 0;
};

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_PAGE_H_
