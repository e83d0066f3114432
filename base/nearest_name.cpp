#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace pipescope {
namespace {
char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// Levenshtein's distance, row by row.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}
}  // namespace

std::optional<std::string> nearest_name(std::string_view mistyped, std::span<const std::string> known) {
    const std::string* nearest = nullptr;
    std::size_t least = mistyped.size() / 3 + 1;
    for (const std::string& name : known) {
        if (const std::size_t here = distance(mistyped, name); here < least) {
            nearest = &name;
            least = here;
        }
    }
    return nearest == nullptr ? std::nullopt : std::optional(*nearest);
}
}  // namespace pipescope
