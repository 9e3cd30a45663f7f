#include "libs/wire/task_view.h"

#include <cstddef>

#include "libs/base/text.h"

namespace callboard::wire {
namespace {

constexpr size_t kListedPromptBytes = 1024;

}  // namespace

void MakeBasic(v1::Task& task) {
  task.clear_payload();
  task.clear_result();
  for (auto& [name, value] : *task.mutable_env()) value.clear();
}

void MakeListed(v1::Task& task) {
  MakeBasic(task);
  if (task.prompt().size() <= kListedPromptBytes) return;
  task.mutable_prompt()->resize(base::Utf8Cut(task.prompt(), kListedPromptBytes).size());
  task.set_prompt_truncated(true);
}

}  // namespace callboard::wire
