#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Values of a language model's keys, as in "gpt:key=value".
using LanguageModelKeys = std::map<std::string, std::string>;

/// A Hugging Face configuration (config.json) in the keys of "gpt:".
struct HuggingFaceConfig {
    LanguageModelKeys keys;
    std::vector<std::string> warnings = {};  ///< a sentence that names keys which are unknown here; empty without any
};

/// Reads the configuration of a model of a known family (`model_type`). Missing keys have the family's defaults in
/// transformers 5.24. The sequence is the longest that the model takes, but at most 4096 tokens, because a
/// configuration does not say how long samples are in training. Attention is flash; multi-token prediction counts if
/// the file has it.
///
/// Throws UsageError for another family, for a value that would change parameters or costs in an unknown way, and for
/// text that is no configuration.
HuggingFaceConfig parse_hugging_face_config(std::string_view json);
/// The configuration in that file, or in config.json of that folder.
HuggingFaceConfig load_hugging_face_config(const std::filesystem::path& path);
}  // namespace pipescope
