#ifndef CALLBOARD_LIBS_SERVER_DESCRIPTOR_SHARES_H_
#define CALLBOARD_LIBS_SERVER_DESCRIPTOR_SHARES_H_

namespace callboard::server {

// How far connections may use up the descriptors of a process: a new one gets the smallest number
// that is free, and one that is not smaller than its share is closed at once.
//
// Those of HTTP get further than those of gRPC, so that probes are answered when gRPC has all it
// may have; the rest is for the store, and for what the server itself dials.
struct DescriptorShares {
  int grpc = 0;
  int http = 0;
};

// Of as many as the system allows, which are asked for.
DescriptorShares ShareDescriptors();

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_DESCRIPTOR_SHARES_H_
