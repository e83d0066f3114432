#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// Which cells a random schedule has besides forwards.
struct RandomCells {
    bool splits = false;      ///< I and W instead of B
    bool recomputes = false;  ///< R
    bool losses = false;      ///< L
};

/// A schedule's CSV in a random valid order: some lane runs some task that is ready, until none is left. Partitions are
/// on random lanes, and each lane has at least one. Preconditions: partitions >= lanes >= 1.
inline std::string random_csv(std::mt19937& random, int partitions, int lanes, int micro_batches, RandomCells cells) {
    std::vector<std::size_t> lane_of;
    for (int j = 0; j < partitions; ++j) {
        lane_of.push_back(j < lanes ? static_cast<std::size_t>(j) : random() % static_cast<unsigned>(lanes));
    }
    std::shuffle(lane_of.begin(), lane_of.end(), random);
    const auto letters_of = [&](int j) {
        return std::string("F") + (cells.losses && j + 1 == partitions ? "L" : "") + (cells.recomputes ? "R" : "") +
               (cells.splits ? "IW" : "B");
    };
    const auto index = [&](int i, int j) { return static_cast<std::size_t>(i * partitions + j); };
    std::vector<std::size_t> ran(index(micro_batches, 0), 0);  // letters of (i, j)
    const auto is_ready = [&](int i, int j) {
        const std::string letters = letters_of(j);
        const std::size_t next = ran[index(i, j)];
        if (next == letters.size()) {
            return false;
        }
        if (letters[next] == 'F') {
            return j == 0 || ran[index(i, j - 1)] > 0;
        }
        const bool needs_gradient = letters[next] == 'B' || letters[next] == 'I';
        return !needs_gradient || j + 1 == partitions ||
               ran[index(i, j + 1)] > letters_of(j + 1).find(cells.splits ? 'I' : 'B');
    };
    std::vector<std::string> rows(static_cast<std::size_t>(lanes));
    while (true) {
        std::vector<std::pair<int, int>> ready;
        for (int i = 0; i < micro_batches; ++i) {
            for (int j = 0; j < partitions; ++j) {
                if (is_ready(i, j)) {
                    ready.emplace_back(i, j);
                }
            }
        }
        if (ready.empty()) {
            break;
        }
        const auto [i, j] = ready[random() % ready.size()];
        std::string& row = rows[lane_of[static_cast<std::size_t>(j)]];
        row += (row.empty()         ? ""
                : random() % 4 == 0 ? ",,"
                                    : ",") +
               std::to_string(j) + letters_of(j)[ran[index(i, j)]++] + std::to_string(i);
    }
    std::string csv;
    for (const std::string& row : rows) {
        csv += row + "\n";
    }
    return csv;
}
}  // namespace pipescope
