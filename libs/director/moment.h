#ifndef CALLBOARD_LIBS_DIRECTOR_MOMENT_H_
#define CALLBOARD_LIBS_DIRECTOR_MOMENT_H_

#include "libs/core/moment.h"

namespace callboard::director {

using core::Moment;

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_MOMENT_H_
