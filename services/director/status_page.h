#ifndef CALLBOARD_SERVICES_DIRECTOR_STATUS_PAGE_H_
#define CALLBOARD_SERVICES_DIRECTOR_STATUS_PAGE_H_

#include <string>

#include "libs/core/queue.h"

namespace callboard {

// The body of the director's /status.
std::string StatusPage(const core::QueueStatus& queue);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_STATUS_PAGE_H_
