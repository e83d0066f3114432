#include "save/training_state.h"

#include "save/save_error.h"
#include "save/strict_json.h"

#include <cmath>
#include <limits>

namespace pipescope {
namespace {
using nlohmann::json;

constexpr const char* kFormat = "pipescope.training";
constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
constexpr const char* kChecksum = "checksum";
constexpr const char* kChecksums = "checksums";

void check_step(std::uint64_t step) {
    if (step > static_cast<std::uint64_t>(kMostSteps)) {
        throw SaveError("\"step\" is " + std::to_string(step) + "; a training has at most 2^31 - 1 steps");
    }
}

void check_learning_rate(double rate, const json& as_written) {
    if (!(rate >= 0 && rate <= TrainingState::kLargestLearningRate)) {
        throw SaveError("\"learning_rate\" is " + shown(as_written) + "; it must be a number from 0 to " +
                        shown(TrainingState::kLargestLearningRate));
    }
}

std::string dumped(const nlohmann::ordered_json& object) {
    return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json object_of(const SaveChecksums& checksums) {
    nlohmann::ordered_json::object_t files;
    for (const auto& [name, file] : checksums) {
        nlohmann::ordered_json::object_t tensors;
        for (const auto& [tensor, checksum] : file.tensors) {
            tensors.emplace_back(tensor, checksum_text(checksum));  // no look-up: the names differ
        }
        files.emplace_back(
            name, nlohmann::ordered_json{{"header", checksum_text(file.header)}, {"tensors", std::move(tensors)}});
    }
    return files;
}

std::uint64_t checksum_in(const json& value, const std::string& what) {
    const auto checksum = value.is_string() ? parse_checksum(value.get_ref<const std::string&>()) : std::nullopt;
    if (!checksum) {
        throw SaveError("the checksum of " + what + " is " + shown(value) + "; it must have 16 hexadecimal digits");
    }
    return *checksum;
}

const json& object_in(const json& value, const std::string& what) {
    if (!value.is_object()) {
        throw SaveError(what + " is " + shown(value) + "; it must be an object");
    }
    return value;
}

SaveChecksums checksums_in(const json& object) {
    SaveChecksums checksums;
    for (const auto& [name, file] : object_in(object, shown(kChecksums)).items()) {
        FileChecksums& of_file = checksums[name];
        of_file.header = checksum_in(member(file, "header"), "the header of " + shown(name));
        for (const auto& [tensor, checksum] : object_in(member(file, "tensors"), shown("tensors")).items()) {
            of_file.tensors.emplace(tensor, checksum_in(checksum, "the tensor " + shown(tensor)));
        }
    }
    return checksums;
}

/// The checksum of training.json, computed without this member. Takes compact ASCII with sorted keys, so that only
/// changed values matter.
std::uint64_t own_checksum(json object) {
    object.erase(kChecksum);
    return checksum_of(object.dump(-1, ' ', /*ensure_ascii=*/true));
}
}  // namespace

std::string to_json(const TrainingRecord& record) {
    const TrainingState& state = record.state;
    check_step(static_cast<std::uint64_t>(state.step));
    check_learning_rate(state.learning_rate, state.learning_rate);
    nlohmann::ordered_json object = {
        {"format", kFormat},    {"version", kVersion},          {"step", state.step},
        {"model", state.model}, {"optimizer", state.optimizer}, {"learning_rate", state.learning_rate},
        {"seed", state.seed},
    };
    if (!record.checksums) {
        return dumped(object);
    }
    object[kChecksums] = object_of(*record.checksums);
    object[kChecksum] = checksum_text(own_checksum(json::parse(dumped(object))));
    return dumped(object);
}

TrainingRecord parse_training_record(std::string_view text) {
    const json object = parse_strict_json(text);
    if (const std::string format = text_member(object, "format"); format != kFormat) {
        throw SaveError("\"format\" is " + shown(format) + "; it must be \"" + kFormat + "\"");
    }
    if (const std::uint64_t version = unsigned_member(object, "version"); version != kVersion) {
        throw SaveError("\"version\" is " + std::to_string(version) + "; this PipeScope reads " +
                        std::to_string(kVersion) + "; use the PipeScope that saved it");
    }
    const bool has_checksums = object.contains(kChecksums);
    if (has_checksums || object.contains(kChecksum)) {
        const std::uint64_t found = own_checksum(object);
        if (found != checksum_in(member(object, kChecksum), "the file")) {
            throw SaveError("its checksum is " + shown(member(object, kChecksum)) + ", and that of its values is \"" +
                            checksum_text(found) + "\"; a value was changed since it was saved");
        }
    }
    TrainingRecord record;
    const std::uint64_t step = unsigned_member(object, "step");
    check_step(step);
    const json& rate = member(object, "learning_rate");
    check_learning_rate(rate.is_number() ? rate.get<double>() : -1, rate);
    record.state = {static_cast<std::int64_t>(step), text_member(object, "model"), text_member(object, "optimizer"),
                    rate.get<double>(), unsigned_member(object, "seed")};
    if (has_checksums) {
        record.checksums = checksums_in(object.at(kChecksums));
    }
    return record;
}

std::string to_json(const SaveChecksums& checksums) {
    return dumped(object_of(checksums));
}

SaveChecksums parse_save_checksums(std::string_view text) {
    return checksums_in(parse_strict_json(text));
}
}  // namespace pipescope
