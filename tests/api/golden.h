// The JSON of every message of the API, stored in files so that a review shows every change.
#ifndef CALLBOARD_TESTS_API_GOLDEN_H_
#define CALLBOARD_TESTS_API_GOLDEN_H_

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace callboard {

// A message with every field set.
struct Example {
  // Its type; `callboard.v1.SubmitTasksResponse.Item (refused)` if there is one example for each
  // member of a oneof.
  std::string name;
  std::unique_ptr<google::protobuf::Message> message;
};

// Returns examples of every message type of callboard.v1, by the name of their golden file:
// `queue.json` for those of queue.proto. Every call returns the same.
std::map<std::string, std::vector<Example>> ApiExamples();

// Returns the content of a golden file: a line for each member of each message. A nested message
// stays on the line of its member, because its type has its own lines.
std::string GoldenText(const std::vector<Example>& examples);

}  // namespace callboard

#endif  // CALLBOARD_TESTS_API_GOLDEN_H_
