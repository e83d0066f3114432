#include "cluster/layout_numbers.h"

#include <algorithm>

namespace pipescope {
std::vector<int> divisors(std::int64_t number, std::int64_t most) {
    std::vector<int> all;
    for (std::int64_t k = 1; k <= std::min(number, most); ++k) {
        if (number % k == 0) {
            all.push_back(static_cast<int>(k));
        }
    }
    return all;
}

std::set<int> device_numbers(int least, int most, bool with_sevenths) {
    std::set<int> numbers{least, most};
    for (std::int64_t power = 1; power <= most; power *= 2) {
        for (const std::int64_t quarters : {4, 5, 6, 7}) {
            const std::int64_t number = power * quarters / 4;
            if (number >= least && number <= most && (quarters < 7 || with_sevenths)) {
                numbers.insert(static_cast<int>(number));
            }
        }
    }
    return numbers;
}

std::vector<int> contexts_of(const LanguageModel& model, int most) {
    constexpr std::int64_t kFewestTokens = 2048;
    std::vector<int> contexts{1};
    if (model.attention == Attention::flash && model.state == 0) {
        for (const int context :
             divisors(model.sequence, std::min<std::int64_t>(most, model.sequence / kFewestTokens))) {
            if (context > 1 && most % context == 0 && model.sequence % (2LL * context) == 0) {
                contexts.push_back(context);
            }
        }
    }
    return contexts;
}
}  // namespace pipescope
