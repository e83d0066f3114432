#include "cluster/asked_cuts.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"

#include <algorithm>
#include <numeric>

namespace pipescope {
namespace {
constexpr std::size_t kMostCuts = 4096;
constexpr std::size_t kMostItems = 200'000;  // letters of a layout that is written out

[[noreturn]] void refuse_cuts(std::string_view text, const std::string& rule, const std::string& remedy) {
    constexpr std::size_t kMostShown = 80;
    const std::string shown = printable(std::string(text.substr(0, kMostShown)));
    throw UsageError(option_name("cuts") + " is '" + shown + (text.size() > kMostShown ? ".." : "") + "'; " + rule +
                     "; " + remedy);
}

/// A layout of Megatron-LM written out: "E t t | t" for "Et*2|t".
class WrittenLayout {
public:
    explicit WrittenLayout(std::string_view text) : text_(text) {}

    std::string items() {
        std::string all = sequence(0);
        if (at_ < text_.size()) {
            refuse_cuts(text_, "it has a ')' without '('", "correct it");
        }
        return all;
    }

private:
    std::string sequence(int depth) {
        constexpr int kMostDepth = 16;
        if (depth > kMostDepth) {
            refuse_cuts(text_, "its brackets are too deep", "write it out");
        }
        std::string all;
        while (at_ < text_.size() && text_[at_] != ')') {
            const char next = text_[at_++];
            if (next == ',' || next == ' ') {  // only for the eye
                continue;
            }
            std::string item(1, next);
            if (next == '(') {
                item = sequence(depth + 1);
                if (at_ == text_.size()) {
                    refuse_cuts(text_, "a '(' has no ')'", "close it");
                }
                ++at_;
            } else if (std::string_view("EtmL|").find(next) == std::string_view::npos) {
                refuse_cuts(text_, "its '" + printable(item) + "' is no part of a layout",
                            "use E, t, m, L and |, and *4 to repeat");
            }
            const std::size_t times = repeats();
            if (times * item.size() + all.size() > kMostItems) {
                refuse_cuts(text_, "it has more than " + std::to_string(kMostItems) + " parts", "correct its repeats");
            }
            for (std::size_t k = 0; k < times; ++k) {
                all += item;
            }
        }
        return all;
    }
    std::size_t repeats() {
        if (at_ == text_.size() || text_[at_] != '*') {
            return 1;
        }
        const std::size_t begin = ++at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            ++at_;
        }
        const auto times = number_in<std::int64_t>(std::string(text_.substr(begin, at_ - begin)));
        if (!times || *times < 0 || *times > static_cast<std::int64_t>(kMostItems)) {
            refuse_cuts(text_, "a '*' is followed by no usable number", "write repeats as t*4 or (t|)*4");
        }
        return static_cast<std::size_t>(*times);
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

/// The cuts of a layout that is written out. `text`: as it was given.
Cuts cuts_of_items(std::string_view text, const std::string& items) {
    std::vector<std::int64_t> blocks{0};
    std::int64_t modules = 0;
    char before = 0;
    for (std::size_t k = 0; k < items.size(); ++k) {
        const char item = items[k];
        if ((item == 'E') != (k == 0)) {
            refuse_cuts(text, "the embedding is the first part, and there is one", "begin it with E");
        }
        if (before == 'L') {
            refuse_cuts(text, "the output layer is the last part, and there is one", "end it with L");
        }
        if (item == '|') {
            if (modules > 0) {
                refuse_cuts(text, "modules that predict further tokens share the output layer's partition",
                            "write mL without a | between them");
            }
            blocks.push_back(0);
        } else if (item == 't') {
            if (modules > 0) {
                refuse_cuts(text, "modules that predict further tokens follow all blocks", "write m after t");
            }
            ++blocks.back();
        } else if (item == 'm') {
            ++modules;
        }
        before = item;
    }
    if (before != 'L') {
        refuse_cuts(text, "the output layer is the last part, and there is one", "end it with L");
    }
    return Cuts(std::move(blocks), modules);
}

bool is_list(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789,- ") == std::string_view::npos;
}
bool is_written_layout(std::string_view text) {
    return text.find_first_of("|(*") != std::string_view::npos || text.starts_with('E');
}
}  // namespace

std::string to_string(const Cuts& cuts) {
    switch (cuts.name()) {
        case Cuts::even: return "even";
        case Cuts::quickest: return "quickest";
        case Cuts::own: break;
    }
    std::string text;
    for (const std::int64_t each : cuts.blocks()) {
        text += (text.empty() ? "" : ",") + std::to_string(each);
    }
    return text;
}

Cuts parse_cuts(std::string_view text) {
    for (const Cuts::Name name : {Cuts::even, Cuts::quickest}) {
        if (to_string(Cuts(name)) == text) {
            return name;
        }
    }
    Cuts cuts;
    if (is_list(text)) {
        cuts = Cuts(parse_whole_numbers(std::string(text), option_name("cuts"), 0));
    } else if (is_written_layout(text)) {
        cuts = cuts_of_items(text, WrittenLayout(text).items());
    } else {
        refuse_cuts(text, "it must be even, quickest, numbers of blocks, or a layout of Megatron-LM",
                    "write it as 9,8,8,7 or Et*9|t*8|t*8|t*7L, or leave it out for even");
    }
    if (cuts.blocks().size() > kMostCuts) {
        refuse_cuts(text, "it has " + std::to_string(cuts.blocks().size()) + " partitions; a pipeline has at most 4096",
                    "use fewer");
    }
    return cuts;
}

void check_cuts(const Cuts& cuts, std::int64_t partitions, std::int64_t blocks, std::int64_t modules) {
    if (cuts != Cuts::own) {
        return;
    }
    const auto refuse = [&](const std::string& rule, const std::string& remedy) {
        refuse_cuts(to_string(cuts), rule, remedy);
    };
    const auto own = static_cast<std::int64_t>(cuts.blocks().size());
    if (own != partitions) {
        refuse("it has " + counted(own, "partition", "partitions") + ", the layout has " + std::to_string(partitions) +
                   ", lanes times partitions per lane",
               "change " + option_name("partitions") + " or " + option_name("interleave") + ", or the list");
    }
    std::int64_t sum = 0;
    for (const std::int64_t each : cuts.blocks()) {
        sum += std::min(each, blocks + 1);  // no sum is too large for 64 bits
    }
    if (sum != blocks) {
        refuse("its numbers sum to " + (sum > blocks ? "more than " + std::to_string(blocks) : std::to_string(sum)) +
                   ", the model has " + counted(blocks, "block", "blocks"),
               "let the numbers sum to it");
    }
    for (std::size_t j = 1; j + 1 < cuts.blocks().size(); ++j) {
        if (cuts.blocks()[j] == 0) {
            refuse("partition " + std::to_string(j) +
                       " has no block; only the first one, with the embedding, and the last one, with the output "
                       "layer, may have none",
                   "give it a block, or leave it out");
        }
    }
    if (cuts.modules() && *cuts.modules() != modules) {
        refuse("it has " + counted(*cuts.modules(), "module", "modules") +
                   " that predict further tokens (m), the model has " + std::to_string(modules),
               "write as many m before L, or change the model's mtp");
    }
}
}  // namespace pipescope
