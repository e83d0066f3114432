#pragma once

#include "schedule/balance.h"

#include <functional>
#include <vector>

namespace pipescope {
/// Calls `visit` for every way to cut `layers` layers into n partitions, as a brute-force reference.
inline void for_every_balance(std::size_t layers, int n, const std::function<void(const Balance&)>& visit) {
    std::vector<std::int64_t> parts;
    const std::function<void(std::int64_t, int)> cut = [&](std::int64_t left, int parts_left) {
        if (parts_left == 1) {
            parts.push_back(left);
            visit(Balance(parts));
            parts.pop_back();
            return;
        }
        for (std::int64_t here = 1; here <= left - (parts_left - 1); ++here) {
            parts.push_back(here);
            cut(left - here, parts_left - 1);
            parts.pop_back();
        }
    };
    cut(static_cast<std::int64_t>(layers), n);
}
}  // namespace pipescope
