#ifndef CALLBOARD_LIBS_SERVER_EXIT_CODE_H_
#define CALLBOARD_LIBS_SERVER_EXIT_CODE_H_

namespace callboard::server {

// How a server ends. Scripts and supervisors rely on these numbers.
enum class ExitCode : int {
  kDone = 0,
  // Something failed that another try may mend; or a second signal cut the drain short.
  kFailed = 1,
  // The settings are wrong: another try ends the same way.
  kBadSettings = 2,
  // The store refused to open.
  kStoreRefused = 65,
  // Another process has the store.
  kStoreLocked = 75,
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_EXIT_CODE_H_
