// What all lists have in common: how long a page is, how large it may become, and how the next one
// is found.
#ifndef CALLBOARD_LIBS_WIRE_PAGE_H_
#define CALLBOARD_LIBS_WIRE_PAGE_H_

#include <google/protobuf/message.h>
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

// Makes page tokens belong to one list: to its method and its filters. A token that another call
// made is none.
class PageScope {
 public:
  // A request with the fields `page_token` and `page_size`, which are not part of the scope.
  explicit PageScope(const google::protobuf::Message& request);

  // `request` with the token as this list made it, before Sealed().
  template <class Request>
  Request Opened(Request request) const {
    request.set_page_token(OpenedToken(request.page_token()));
    return request;
  }
  // `response` with a token that only this list opens.
  template <class Response>
  Response Sealed(Response response) const {
    if (!response.next_page_token().empty()) {
      response.set_next_page_token(seal_ + response.next_page_token());
    }
    return response;
  }

 private:
  // One that no page ended with, in place of one that has not our seal.
  std::string OpenedToken(const std::string& sealed) const;

  std::string seal_;
};

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
