#ifndef CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_
#define CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_

#include <google/protobuf/message.h>

namespace callboard::test {

// Fills a message of callboard.v1 or callboard.storage.v1 with what RapidCheck draws: in half of
// them values that their senders would write, in the other half now and then one that no sender
// should.
//
// REQUIRES: called inside a RapidCheck property.
void FillRandomly(google::protobuf::Message& message);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RANDOM_MESSAGE_H_
