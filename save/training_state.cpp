#include "save/training_state.h"

#include "save/save_error.h"
#include "save/save_json.h"

#include <cmath>
#include <limits>
#include <optional>

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
        throw SaveError("step is " + std::to_string(step) + "; a training has at most 2^31 - 1 steps");
    }
}

void check_learning_rate(double rate, const json& as_written) {
    if (!(rate >= 0 && rate <= TrainingState::kLargestLearningRate)) {
        throw SaveError("learning_rate is " + shown(as_written) + "; it must be a number from 0 to " +
                        shown(TrainingState::kLargestLearningRate));
    }
}

std::string indented(const nlohmann::ordered_json& object) {
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

std::uint64_t checksum_in(const SaveValue& value) {
    constexpr std::string_view kWanted = "16 hexadecimal digits";
    const std::optional<std::uint64_t> checksum = parse_checksum(value.text(kWanted));
    if (!checksum) {
        value.refuse(kWanted);
    }
    return *checksum;
}

SaveChecksums checksums_in(const SaveValue& value) {
    SaveChecksums checksums;
    value.object().for_each([&](const std::string& name, const SaveValue& file) {
        FileChecksums& of_file = checksums[name];
        SaveObject object = file.object();
        of_file.header = checksum_in(object.at("header"));
        object.at("tensors").object().for_each([&](const std::string& tensor, const SaveValue& checksum) {
            of_file.tensors.emplace(tensor, checksum_in(checksum));
        });
    });
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
        return indented(object);
    }
    object[kChecksums] = object_of(*record.checksums);
    object[kChecksum] = checksum_text(own_checksum(json::parse(indented(object))));
    return indented(object);
}

TrainingRecord parse_training_record(std::string_view text) {
    const json document = parse_json<json>(text, kSaveJson);
    SaveObject object = SaveValue(document, "", kSaveJson).object();
    if (const SaveValue format = object.at("format"); format.text("a text") != kFormat) {
        format.refuse(std::string("\"") + kFormat + "\"");
    }
    if (const std::uint64_t version = object.at("version").natural(); version != kVersion) {
        throw SaveError("version is " + std::to_string(version) + "; this PipeScope reads " + std::to_string(kVersion) +
                        "; use the PipeScope that saved it");
    }
    const std::optional<SaveValue> checksums = object.find(kChecksums);
    if (checksums || object.contains(kChecksum)) {
        const std::uint64_t found = own_checksum(document);
        const SaveValue saved = object.at(kChecksum);
        if (found != checksum_in(saved)) {
            throw SaveError("its checksum is " + shown(saved.json()) + ", and that of its values is \"" +
                            checksum_text(found) + "\"; a value was changed since it was saved");
        }
    }
    TrainingRecord record;
    const std::uint64_t step = object.at("step").natural();
    check_step(step);
    const SaveValue rate = object.at("learning_rate");
    check_learning_rate(rate.json().is_number() ? rate.number() : -1, rate.json());
    record.state = {static_cast<std::int64_t>(step), object.at("model").text("a text"),
                    object.at("optimizer").text("a text"), rate.number(), object.at("seed").natural()};
    if (checksums) {
        record.checksums = checksums_in(*checksums);
    }
    return record;
}

std::string to_json(const SaveChecksums& checksums) {
    return indented(object_of(checksums));
}

SaveChecksums parse_save_checksums(std::string_view text) {
    const json document = parse_json<json>(text, kSaveJson);
    return checksums_in(SaveValue(document, "", kSaveJson));
}
}  // namespace pipescope
