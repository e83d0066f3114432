#include "simulator/clock/gpipe_recurrence.h"

#include <algorithm>

namespace pipescope {
namespace {
/// A lane and the link behind it as they process micro-batches in order.
struct Flow {
    std::int64_t lane = 0;
    std::int64_t link = 0;

    /// Runs `ahead` once the lane is free and `work` once the micro-batch has arrived too, then copies it.
    std::int64_t pass(std::int64_t arrival, std::int64_t ahead, std::int64_t work, std::int64_t copy) {
        lane = std::max(lane + ahead, arrival) + work;
        link = std::max(link, lane) + copy;
        return link;
    }
};
}  // namespace

std::int64_t GPipeRecurrence::step(const GPipeTimes& large, const GPipeTimes& small, int m, int num_large,
                                   Checkpoint checkpoint, std::int64_t loss) {
    const std::size_t n = large.forward.size();
    arrival_.assign(static_cast<std::size_t>(m), 0);
    std::int64_t* const arrival = arrival_.data();
    std::int64_t end = 0;
    const bool keeps_last = checkpoint == Checkpoint::except_last && !small.kept_forward.empty();
    for (std::size_t j = 0; j < n; ++j) {
        Flow flow;
        const auto run = [&](const GPipeTimes& times, int from, int to) {
            const std::int64_t work = times.forward[j];
            const std::int64_t copy = j + 1 < n ? times.copy_forward[j] : 0;
            for (int i = from; i < to; ++i) {
                const bool is_kept = i > 0 && i == m - 1 && keeps_last;
                arrival[i] = flow.pass(arrival[i], 0, is_kept ? times.kept_forward[j] : work, copy);
            }
        };
        run(large, 0, num_large);
        run(small, num_large, m);
        end = flow.lane;
    }
    // The loss is a barrier: no task of the backward phase starts before it, not even a recompute.
    std::ranges::fill(arrival_, end + loss);
    const std::int64_t barrier = end + loss;
    const int last_kept = checkpoint == Checkpoint::always ? m : checkpoint == Checkpoint::except_last ? m - 1 : 0;
    for (std::size_t j = n; j-- > 0;) {
        Flow flow{barrier, 0};
        const auto run = [&](const GPipeTimes& times, int from, int to, bool recomputes) {  // from > to
            const std::int64_t ahead = recomputes ? times.recompute[j] : 0;
            const std::int64_t work = times.backward[j];
            const std::int64_t copy = j > 0 ? times.copy_backward[j - 1] : 0;
            for (int i = from; i-- > to;) {
                arrival[i] = flow.pass(arrival[i], ahead, work, copy);
            }
        };
        run(small, m, std::max(num_large, last_kept), false);
        run(small, last_kept, num_large, true);
        run(large, std::min(num_large, m), std::min(last_kept, num_large), false);
        run(large, std::min(last_kept, num_large), 0, true);
        end = flow.lane;
    }
    return end;
}
}  // namespace pipescope
