#pragma once

#include "balance/profile.h"
#include "schedule/balance.h"

#include <cstdint>

namespace pipescope {
// torchgpipe's automatic balancing (torchgpipe.balance) on a profile instead of a module: what it measures itself, the
// profile holds already. The same costs go into the same method, block_partition(); a part that it leaves empty gets a
// layer, as GPipe would refuse it. To look for the quickest balance, use find_balance() (simulator/balance_search.h).

/// Balances the time of forward and backward per layer at micro-batches of `samples` samples. Recompute, copies and
/// memory do not count. Throws BalanceError unless 1 <= partitions <= layers, UsageError unless samples is positive.
Balance balance_by_time(int partitions, const Profile& profile, std::int64_t samples);

/// Balances bytes per layer: what forward leaves allocated for one micro-batch of batch / chunks samples (its output
/// and saved tensors), and `param_scale` copies of the parameters: weights, gradients and the optimizer's state (SGD 2
/// or 3 with momentum, Adam 4 or 5 with amsgrad, Adadelta 4, Adagrad 3, RMSprop 3 to 5).
/// Throws as the above, and UsageError unless batch and chunks are positive and param_scale finite and not negative.
Balance balance_by_size(int partitions, const Profile& profile, std::int64_t batch, std::int64_t chunks = 1,
                        double param_scale = 2.0);
}  // namespace pipescope
