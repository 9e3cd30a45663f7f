// Pagination of lists: page sizes, page tokens and the size limit of a page.
#ifndef CALLBOARD_LIBS_WIRE_PAGE_H_
#define CALLBOARD_LIBS_WIRE_PAGE_H_

#include <google/protobuf/message.h>
#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/wire/fields.h"

namespace callboard::wire {

// Reads and checks the field `page_size` of a request. Returns the default for 0.
size_t ReadPageSize(int32_t page_size, FieldChecks& checks);

// Encodes a position in a list as an opaque page token.
std::string EncodePageToken(absl::string_view position);
// Decodes a page token. Returns null if it is empty or invalid.
std::optional<std::string> DecodePageToken(const std::string& page_token);
// Adds a violation for an invalid `page_token`.
void AddPageTokenViolation(FieldChecks& checks);
// Reads the field `page_token` of a list whose positions are names. Returns an empty text for the
// first page.
std::string ReadPageToken(const std::string& page_token, FieldChecks& checks);

// Binds page tokens to one list, which is a method with its filters. A token of another list is
// invalid.
class PageScope {
 public:
  // The scope is `request` without its fields `page_token` and `page_size`.
  explicit PageScope(const google::protobuf::Message& request);

  // Returns `request` with the token that Seal() received. A token of another list becomes an
  // invalid token.
  template <class Request>
  Request Unseal(Request request) const {
    request.set_page_token(UnsealToken(request.page_token()));
    return request;
  }
  // Returns `response` with a token that only this scope can unseal.
  template <class Response>
  Response Seal(Response response) const {
    if (!response.next_page_token().empty()) {
      response.set_next_page_token(seal_ + response.next_page_token());
    }
    return response;
  }

 private:
  // Returns an invalid token if `sealed` has another seal.
  std::string UnsealToken(const std::string& sealed) const;

  std::string seal_;
};

// Counts the size of a page, so that a page that would not fit into a message ends early.
class PageBytes {
 public:
  // Adds `item`. Returns true if it fits; the first item always fits.
  bool Add(const google::protobuf::MessageLite& item);

 private:
  size_t bytes_ = 0;
};

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_PAGE_H_
