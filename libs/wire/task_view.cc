#include "libs/wire/task_view.h"

#include <cstddef>
#include <string>

namespace callboard::wire {
namespace {

constexpr size_t kListedPromptBytes = 1024;

// Where a UTF-8 text may be cut so that it has at most `bytes`.
size_t CutOf(const std::string& text, size_t bytes) {
  const auto continues = [&text](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (bytes > 0 && continues(bytes)) --bytes;
  return bytes;
}

}  // namespace

void MakeBasic(v1::Task& task) {
  task.clear_payload();
  task.clear_result();
  for (auto& [name, value] : *task.mutable_env()) value.clear();
}

void MakeListed(v1::Task& task) {
  MakeBasic(task);
  if (task.prompt().size() <= kListedPromptBytes) return;
  task.mutable_prompt()->resize(CutOf(task.prompt(), kListedPromptBytes));
  task.set_prompt_truncated(true);
}

}  // namespace callboard::wire
