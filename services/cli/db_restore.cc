#include "services/cli/db_restore.h"

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/wire/json.h"
#include "services/cli/exit_code.h"
#include "services/cli/peer_call.h"

namespace callboard::cli {
namespace {

constexpr absl::string_view kStopIt = "stop it first";

// What the arguments are to blame for.
absl::Status AsUsage(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? UsageError(status.message()) : status;
}

// Of a folder that no director uses.
absl::StatusOr<v1::CreateCheckpointResponse> CheckpointOf(const config::v1::CliConfig& config,
                                                          std::string name) {
  // Where there is no store, none is made.
  RETURN_IF_ERROR(WithoutDirector(adapters::StoreFolder::Open(config.data_dir()).status(),
                                  "leave --data_dir out to ask it"));
  ASSIGN_OR_RETURN(const std::unique_ptr<adapters::RocksDbStores> stores,
                   adapters::RocksDbStores::Lock({.data_dir = config.data_dir()}));
  ASSIGN_OR_RETURN(const std::unique_ptr<ports::EventStore> store,
                   stores->Open(ports::StoreAccess::kReadWrite));
  if (name.empty()) {
    name = absl::FormatTime("%Y%m%dT%H%M%E3SZ", adapters::SystemClock().WallNow(),
                            absl::UTCTimeZone());
  }
  ASSIGN_OR_RETURN(const ports::Checkpoint made, store->CreateCheckpoint(name));
  v1::CreateCheckpointResponse response;
  response.set_path(made.path);
  response.set_sequence(made.sequence);
  response.set_size_bytes(made.size_bytes);
  return response;
}

absl::StatusOr<v1::CreateCheckpointResponse> AskForCheckpoint(const config::v1::CliConfig& config,
                                                              const std::string& name) {
  v1::CreateCheckpointRequest request;
  request.set_name(name);
  return CallDirector(config, &v1::QueueService::Stub::CreateCheckpoint, request);
}

std::string AsideText(const std::filesystem::path& aside) {
  return aside.empty() ? "" : absl::StrCat("aside      ", aside.string(), "\n");
}

std::string AsideJson(const std::filesystem::path& aside) {
  return aside.empty() ? "null" : base::JsonQuoted(aside.string());
}

// The writes that are gone, in words.
std::string LostText(const adapters::AcceptedLoss& loss) {
  if (!loss.high_water.has_value()) {
    return absl::StrCat("what was committed after sequence ", loss.sequence,
                        ", if anything: the high water is lost as well");
  }
  if (*loss.high_water <= loss.sequence) return "what cannot be read, see above";
  return absl::StrCat("sequences ", loss.sequence + 1, " to ", *loss.high_water, ": ",
                      *loss.high_water - loss.sequence, " committed writes");
}

}  // namespace

std::string CheckpointText(const v1::CreateCheckpointResponse& checkpoint) {
  return absl::StrCat("checkpoint ", checkpoint.path(), "\n",      //
                      "sequence   ", checkpoint.sequence(), "\n",  //
                      "bytes      ", checkpoint.size_bytes(), "\n");
}

std::string RestoredText(const std::string& folder, const adapters::Restored& restored) {
  return absl::StrCat("restored   ", folder, "\n",          //
                      "tasks      ", restored.tasks, "\n",  //
                      "sequence   ", restored.sequence, "\n", AsideText(restored.aside));
}

std::string RestoredJson(const std::string& folder, const adapters::Restored& restored) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(folder), ",\"tasks\":", restored.tasks,
                      ",\"sequence\":", restored.sequence, ",\"aside\":", AsideJson(restored.aside),
                      "}\n");
}

std::string LossText(const std::string& folder, const adapters::AcceptedLoss& loss) {
  if (loss.findings.empty()) return absl::StrCat(folder, " is whole: nothing is lost\n");
  std::string text;
  for (const std::string& finding : loss.findings) {
    absl::StrAppend(&text, "damaged: ", finding, "\n");
  }
  absl::StrAppend(&text, "lost       ", LostText(loss), "\n",  //
                  "kept       ", loss.tasks, " tasks in ", folder, "\n", AsideText(loss.aside));
  return text;
}

std::string LossJson(const std::string& folder, const adapters::AcceptedLoss& loss) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(folder),
                      ",\"findings\":", ListJson(loss.findings), ",\"sequence\":", loss.sequence,
                      ",\"high_water\":", HighWaterJson(loss.high_water), ",\"tasks\":", loss.tasks,
                      ",\"aside\":", AsideJson(loss.aside), "}\n");
}

absl::Status CreateCheckpoint(const config::v1::CliConfig& config, const DbArguments& arguments,
                              std::FILE* out) {
  const absl::StatusOr<v1::CreateCheckpointResponse> checkpoint =
      arguments.has_data_dir ? CheckpointOf(config, arguments.name)
                             : AskForCheckpoint(config, arguments.name);
  if (!checkpoint.ok()) return AsUsage(checkpoint.status());
  const std::string text = WantsJson(config) ? absl::StrCat(wire::ToJson(*checkpoint), "\n")
                                             : CheckpointText(*checkpoint);
  std::fputs(text.c_str(), out);
  return absl::OkStatus();
}

absl::Status RestoreStore(const config::v1::CliConfig& config, const DbArguments& arguments,
                          std::FILE* out) {
  if (arguments.from.empty() != arguments.accept_loss) {
    return UsageError(
        "give either --from=<checkpoint>, to put it in place of the store, or --accept_loss, to go "
        "on with what is left of it");
  }
  const std::string& folder = config.data_dir();
  std::optional<ProgressLine> line("records read:");
  const adapters::RestoreOptions options = {
      .data_dir = folder,
      .now = adapters::SystemClock().WallNow(),
      .progress = [&line](uint64_t records) { line->Show(records); }};
  if (arguments.accept_loss) {
    const absl::StatusOr<adapters::AcceptedLoss> loss = adapters::AcceptLoss(options);
    line.reset();
    if (!loss.ok()) return WithoutDirector(loss.status(), kStopIt);
    std::fputs((WantsJson(config) ? LossJson(folder, *loss) : LossText(folder, *loss)).c_str(),
               out);
    return absl::OkStatus();
  }
  const absl::StatusOr<adapters::Restored> restored =
      adapters::RestoreCheckpoint(options, arguments.from);
  line.reset();
  if (!restored.ok()) return AsUsage(WithoutDirector(restored.status(), kStopIt));
  std::fputs((WantsJson(config) ? RestoredJson(folder, *restored) : RestoredText(folder, *restored))
                 .c_str(),
             out);
  return absl::OkStatus();
}

}  // namespace callboard::cli
