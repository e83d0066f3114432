#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
/// Where a model is cut: in a way that has a name, or after numbers of blocks that somebody chose.
class Cuts {
public:
    enum Name {
        even,      ///< all partitions have equally many blocks if these divide evenly, as in Megatron-LM
        quickest,  ///< always as for unequal devices
        own,       ///< blocks()
    };
    Cuts(Name name = even) : name_(name) {}  // NOLINT(google-explicit-constructor): a name is a way to cut
    /// Numbers of blocks by partition, in the model's order. The first partition also has the embedding, the last one
    /// the output layer, so both may have no block. `modules`: that predict further tokens, in the last partition;
    /// empty: as many as the model has.
    explicit Cuts(std::vector<std::int64_t> blocks, std::optional<std::int64_t> modules = {})
        : name_(own), blocks_(std::move(blocks)), modules_(modules) {}

    Name name() const { return name_; }
    const std::vector<std::int64_t>& blocks() const { return blocks_; }
    const std::optional<std::int64_t>& modules() const { return modules_; }
    friend bool operator==(const Cuts&, const Cuts&) = default;
    friend bool operator==(const Cuts& cuts, Name name) { return cuts.name_ == name; }

private:
    Name name_ = even;
    std::vector<std::int64_t> blocks_;
    std::optional<std::int64_t> modules_;
};
/// "even", "quickest" or "9,8,8,7".
std::string to_string(const Cuts& cuts);
/// Parses such a text, or a layout as Megatron-LM's --pipeline-model-parallel-layout has it, "Et*3|(t|)*4,mL": E is the
/// embedding, t a block, m a module that predicts a further token, L the output layer with the loss; | ends a
/// partition, (..)*4 and t*4 repeat. Throws UsageError.
Cuts parse_cuts(std::string_view text);
/// Throws UsageError unless the cuts are not own ones, or own ones for that many partitions and a model of that many
/// blocks and modules.
void check_cuts(const Cuts& cuts, std::int64_t partitions, std::int64_t blocks, std::int64_t modules);
}  // namespace pipescope
