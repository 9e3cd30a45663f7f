#include "libs/base/spawn.h"

#include <signal.h>

#include "libs/base/check.h"
#include "libs/base/descriptor.h"

namespace callboard::base {

int Spawn(const SpawnOptions& options, pid_t& pid) {
  posix_spawnattr_t attributes;
  CHECK_EQ(posix_spawnattr_init(&attributes), 0);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, static_cast<short>(options.flags | POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF));
  const int error =
      posix_spawnp(&pid, options.program.c_str(), options.actions, &attributes,
                   Pointers(options.argv).data(), Pointers(options.environment).data());
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace callboard::base
