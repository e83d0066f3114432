// The first byte chooses training.json or an index. An accepted state must be equal after writing and reading it; an
// accepted index names files beside it only.

#include "save/save_error.h"
#include "save/saved_step.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        if (data[0] % 2 == 0) {
            const TrainingRecord record = parse_training_record(text);
            if (parse_training_record(to_json(record)) != record) {
                std::abort();
            }
        } else {
            for (const auto& [name, file] : parse_tensor_index(text).files) {
                if (std::filesystem::path(file).filename() != file || file == "." || file == "..") {
                    std::abort();
                }
            }
        }
    } catch (const SaveError&) {
        return 0;
    }
    return 0;
}
