#include "tests/crash/disk_image.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/core/hash.h"
#include "libs/testing/files.h"

namespace callboard::crash {
namespace {

struct Node;
using NodePtr = std::shared_ptr<Node>;

// A change of a file (bytes written or a new size) or of a folder (entries set, or removed if
// null).
struct Change {
  uint64_t tick = 0;
  std::string data = {};
  uint64_t offset = 0;
  bool is_truncation = false;
  std::vector<std::pair<std::string, NodePtr>> entries = {};
};

struct Node {
  uint64_t number = 0;
  bool is_folder = false;
  std::vector<Change> changes = {};
  // Changes before this tick were durable at the time of the cut.
  uint64_t synced_before = 1;
  // The entries of a folder as processes see them.
  std::map<std::string, NodePtr> entries = {};
};

void Apply(const Change& change, std::string& content) {
  if (change.is_truncation) {
    content.resize(change.offset, '\0');
    return;
  }
  content.resize(std::max<uint64_t>(content.size(), change.offset + change.data.size()), '\0');
  content.replace(change.offset, change.data.size(), change.data);
}

class Tree {
 public:
  Tree() : root_(NewNode(true)) {}

  // Adds the content of `folder` as synced.
  void AddAll(const std::filesystem::path& folder) {
    for (const auto& [path, content] : ContentsOf(folder)) {
      if (path.ends_with('/')) {
        Enter(0, path.substr(0, path.size() - 1), NewNode(true));
      } else {
        const NodePtr file = NewNode(false);
        file->changes.push_back({.data = content});
        Enter(0, path, file);
      }
    }
  }

  void Replay(const DiskCall& call) {
    const NodePtr node = Find(call.path);
    switch (call.action) {
      case DiskAction::kCreate:
        return Enter(call.tick, call.path, NewNode(false));
      case DiskAction::kMakeFolder:
        return Enter(call.tick, call.path, NewNode(true));
      case DiskAction::kWrite:
      case DiskAction::kTruncate:
        // A file may be removed while it is open.
        if (node == nullptr) return;
        node->changes.push_back({.tick = call.tick,
                                 .data = call.data,
                                 .offset = call.offset,
                                 .is_truncation = call.action == DiskAction::kTruncate});
        return;
      case DiskAction::kSync:
        if (node != nullptr) node->synced_before = std::max(node->synced_before, call.begun);
        return;
      case DiskAction::kRename:
        return Rename(call);
      case DiskAction::kLink:
        return Enter(call.tick, call.other, node);
      case DiskAction::kRemove:
        return Enter(call.tick, call.path, nullptr);
      case DiskAction::kSend:
        return;
    }
  }

  void Write(const PowerCut& cut, const std::filesystem::path& target) const {
    WriteFolder(*root_, cut, target);
  }

 private:
  NodePtr NewNode(bool is_folder) {
    return std::make_shared<Node>(Node{.number = ++nodes_, .is_folder = is_folder});
  }

  NodePtr Find(const std::filesystem::path& path) const {
    NodePtr node = root_;
    for (const std::filesystem::path& name : path) {
      const auto entry = node->entries.find(name);
      if (entry == node->entries.end()) return nullptr;
      node = entry->second;
    }
    return node;
  }

  Node& Parent(const std::filesystem::path& path) const {
    const NodePtr parent = Find(path.parent_path());
    CHECK(parent != nullptr) << path;
    return *parent;
  }

  static void ChangeEntries(Node& folder, uint64_t tick,
                            std::vector<std::pair<std::string, NodePtr>> entries) {
    for (const auto& [name, node] : entries) {
      if (node == nullptr) {
        folder.entries.erase(name);
      } else {
        folder.entries[name] = node;
      }
    }
    folder.changes.push_back({.tick = tick, .entries = std::move(entries)});
  }

  void Enter(uint64_t tick, const std::filesystem::path& path, const NodePtr& node) {
    ChangeEntries(Parent(path), tick, {{path.filename(), node}});
  }

  void Rename(const DiskCall& call) {
    const std::filesystem::path from = call.path;
    const std::filesystem::path to = call.other;
    CHECK_EQ(from.parent_path(), to.parent_path()) << "a rename into another folder";
    ChangeEntries(Parent(from), call.tick,
                  {{from.filename(), nullptr}, {to.filename(), Find(from)}});
  }

  // Returns a number below `bound` that depends on cut, node and question only.
  static uint64_t Draw(const PowerCut& cut, const Node& node, uint64_t question, uint64_t bound) {
    return core::StableHash().Add(cut.seed).Add(cut.tick).Add(node.number).Add(question).value() %
           bound;
  }

  // Returns the changes of a file or folder that survive.
  static std::vector<Change> Remaining(const Node& node, const PowerCut& cut) {
    const auto unsynced =
        std::find_if(node.changes.begin(), node.changes.end(),
                     [&](const Change& change) { return change.tick >= node.synced_before; });
    std::vector<Change> left(node.changes.begin(), unsynced);
    const auto count = static_cast<uint64_t>(node.changes.end() - unsynced);
    if (cut.unsynced == Unsynced::kLost || count == 0) return left;
    if (cut.unsynced == Unsynced::kKept) return node.changes;
    const bool has_holes = cut.unsynced == Unsynced::kHoles && !node.is_folder;
    const uint64_t kept = has_holes ? count : Draw(cut, node, 0, count + 1);
    for (uint64_t i = 0; i < kept; ++i) {
      Change change = unsynced[static_cast<int64_t>(i)];
      if (has_holes && Draw(cut, node, 2 * i + 1, 2) == 0) continue;
      const bool is_torn = has_holes || i + 1 == kept;
      if (is_torn && !change.data.empty()) {
        change.data.resize(1 + Draw(cut, node, 2 * i + 2, change.data.size()));
      }
      left.push_back(std::move(change));
    }
    return left;
  }

  void WriteFolder(const Node& folder, const PowerCut& cut,
                   const std::filesystem::path& target) const {
    std::filesystem::create_directories(target);
    std::map<std::string, NodePtr> entries;
    for (const Change& change : Remaining(folder, cut)) {
      for (const auto& [name, node] : change.entries) entries[name] = node;
    }
    for (const auto& [name, node] : entries) {
      if (node == nullptr) continue;
      if (node->is_folder) {
        WriteFolder(*node, cut, target / name);
        continue;
      }
      std::string content;
      for (const Change& change : Remaining(*node, cut)) Apply(change, content);
      std::ofstream(target / name, std::ios::binary) << content;
    }
  }

  uint64_t nodes_ = 0;
  const NodePtr root_;
};

}  // namespace

void WriteImage(const std::filesystem::path& base, const std::vector<DiskCall>& calls,
                const PowerCut& cut, const std::filesystem::path& target) {
  Tree tree;
  if (std::filesystem::exists(base)) tree.AddAll(base);
  for (const DiskCall& call : calls) {
    if (call.tick <= cut.tick) tree.Replay(call);
  }
  tree.Write(cut, target);
}

std::map<std::string, std::string> ContentsOf(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_relative(folder);
    if (entry.is_directory()) {
      contents[path + "/"];
    } else {
      contents[path] = test::FileText(entry.path());
    }
  }
  return contents;
}

}  // namespace callboard::crash
