#ifndef CALLBOARD_LIBS_CORE_SUPPORTED_H_
#define CALLBOARD_LIBS_CORE_SUPPORTED_H_

#include "absl/status/status.h"
#include "libs/core/task.h"

namespace callboard::core {

// What a submit may ask for only once it is built: UNIMPLEMENTED/FIELD_NOT_SUPPORTED, which names
// the field. A value that asks for nothing special is taken. The director asks it of every submit,
// the scheduler of every job when it reads its file.
absl::Status CheckSupported(const TaskSpec& spec);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_SUPPORTED_H_
