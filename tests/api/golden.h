// The JSON of every message of the API, kept as files so that a change of it shows in a review.
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
  // Its type; `callboard.v1.SubmitTasksResponse.Item (refused)` where there is one for each member
  // of a oneof.
  std::string name;
  std::unique_ptr<google::protobuf::Message> message;
};

// Examples of every message type of callboard.v1, by the name of the golden file they belong in:
// `queue.json` for those of queue.proto. The same at every call.
std::map<std::string, std::vector<Example>> ApiExamples();

// What a golden file with these examples says: a line for each member of each message. What is in
// turn in a member stays on its line, because its type has its own lines elsewhere.
std::string GoldenText(const std::vector<Example>& examples);

}  // namespace callboard

#endif  // CALLBOARD_TESTS_API_GOLDEN_H_
