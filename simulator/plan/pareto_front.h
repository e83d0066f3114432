#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace pipescope {
/// True if `one` is nowhere larger than `other`, and somewhere smaller.
template <std::size_t Criteria>
bool dominates(const std::array<double, Criteria>& one, const std::array<double, Criteria>& other) {
    for (std::size_t k = 0; k < Criteria; ++k) {
        if (!(one[k] <= other[k])) {
            return false;
        }
    }
    return one != other;
}

/// Whether each is on the Pareto front: no other dominates it. Smaller is better in every criterion.
template <std::size_t Criteria>
std::vector<bool> pareto_front(const std::vector<std::array<double, Criteria>>& all) {
    std::vector<bool> front;
    for (const auto& each : all) {
        front.push_back(std::ranges::none_of(all, [&](const auto& other) { return dominates(other, each); }));
    }
    return front;
}
}  // namespace pipescope
