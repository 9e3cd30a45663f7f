// How `callboard watch` writes what it knows.
#ifndef CALLBOARD_SERVICES_CLI_BOARD_TEXT_H_
#define CALLBOARD_SERVICES_CLI_BOARD_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "services/cli/task_board.h"

namespace callboard::cli {

// One line, without its end: when, which task, its state after the change, agent, dispatch, why.
std::string ChangeLine(const v1::WatchTasksResponse::Change& change);

// What a view is drawn on.
struct Frame {
  size_t columns = 80;
  size_t rows = 24;
  bool has_colour = false;
  absl::Time now = {};
};

// A view of the board that fits the frame: the queue, its live tasks and the last ended ones. Lines
// are without their ends. `note` is of the connection, if there is something to say of it.
std::vector<std::string> BoardLines(const TaskBoard& board, const v1::QueueStatus& status,
                                    const std::string& note, const Frame& frame);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_BOARD_TEXT_H_
