#include "trace/store/work_facts.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// Lower case letters alone: "allgatherbase" of "_allgather_base".
std::string letters_of(std::string_view name) {
    std::string letters;
    for (const char c : name) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if (lower >= 'a' && lower <= 'z') {
            letters += lower;
        }
    }
    return letters;
}
}  // namespace

std::string_view collective_type(std::string_view name) {
    using Type = std::pair<std::string_view, std::string_view>;
    // A longer word comes before a word that it contains.
    static constexpr std::array<Type, 8> kTypes = {{{"reducescatter", "reduce_scatter"},
                                                    {"allreduce", "all_reduce"},
                                                    {"allgather", "all_gather"},
                                                    {"alltoall", "all_to_all"},
                                                    {"broadcast", "broadcast"},
                                                    {"reduce", "reduce"},
                                                    {"send", "send"},
                                                    {"recv", "receive"}}};
    const std::string letters = letters_of(name);
    if (letters.find("sendrecv") != std::string::npos) {
        return {};  // either of them, or an all-to-all
    }
    for (const auto& [word, type] : kTypes) {
        if (letters.find(word) != std::string::npos) {
            return type;
        }
    }
    return {};
}

double bus_factor(std::string_view type, std::int64_t group_size) {
    if (group_size < 2) {
        return 0;
    }
    const auto ranks = static_cast<double>(group_size);
    if (type == "all_reduce") {
        return 2 * (ranks - 1) / ranks;
    }
    if (type == "all_gather" || type == "reduce_scatter" || type == "all_to_all") {
        return (ranks - 1) / ranks;
    }
    return type.empty() ? 0 : 1;
}

Bytes element_bytes(std::string_view element_type) {
    if (element_type.starts_with("c10::")) {
        element_type.remove_prefix(5);
    }
    static const std::map<std::string_view, Bytes> sizes = {{"float", 4},
                                                            {"double", 8},
                                                            {"half", 2},
                                                            {"bfloat16", 2},
                                                            {"longint", 8},
                                                            {"long", 8},
                                                            {"int", 4},
                                                            {"shortint", 2},
                                                            {"short", 2},
                                                            {"signedchar", 1},
                                                            {"char", 1},
                                                            {"unsignedchar", 1},
                                                            {"byte", 1},
                                                            {"bool", 1},
                                                            {"float8_e4m3fn", 1},
                                                            {"float8_e5m2", 1},
                                                            {"float8_e4m3fnuz", 1},
                                                            {"float8_e5m2fnuz", 1},
                                                            {"complexfloat", 8},
                                                            {"complexdouble", 16}};
    std::string plain;
    for (const char c : element_type) {
        if (c != ' ') {
            plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        }
    }
    const auto found = sizes.find(plain);
    return found == sizes.end() ? 0 : found->second;
}

std::uint32_t FactTable::number_of(const WorkFacts& facts) {
    if (!numbers_.empty() && last_->first == facts) {
        return last_->second;
    }
    last_ = numbers_.try_emplace(facts, static_cast<std::uint32_t>(numbers_.size())).first;
    return last_->second;
}

std::vector<WorkFacts> FactTable::take() {
    std::vector<WorkFacts> facts(numbers_.size());
    for (const auto& [each, number] : numbers_) {
        facts[number] = each;
    }
    numbers_.clear();
    return facts;
}
}  // namespace pipescope
