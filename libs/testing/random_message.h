#ifndef CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_
#define CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_

#include <google/protobuf/message.h>

namespace callboard::test {

// Fills a message of callboard.v1 or callboard.storage.v1 with random values. Half of the messages
// contain only values that a correct sender would write; the others sometimes contain an invalid or
// extreme value.
//
// REQUIRES: called inside a RapidCheck property.
void FillRandomly(google::protobuf::Message& message);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_
