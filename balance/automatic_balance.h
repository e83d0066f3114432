#pragma once

#include "profiler/profile/profile.h"
#include "schedule/balance.h"

#include <cstdint>

namespace pipescope {
// torchgpipe's automatic balancing (torchgpipe.balance), with a profile instead of a measurement. It feeds the same
// costs into the same method, block_partition(). If the method leaves a partition empty, that partition gets a layer,
// because GPipe would refuse it. For the fastest balance, use find_balance() (simulator/search/balance_search.h).

/// Balances forward plus backward time per layer at micro-batches of `samples` samples. Ignores recompute, copies and
/// memory. Throws BalanceError unless 1 <= partitions <= layers, UsageError unless samples is positive.
Balance balance_by_time(int partitions, const CheckedProfile& profile, std::int64_t samples);

/// Balances bytes per layer. A layer counts what forward leaves allocated for one micro-batch of batch / chunks samples
/// (output and saved tensors), plus `param_scale` times its parameters for weights, gradients and optimizer state: SGD
/// 2, or 3 with momentum; Adam 4, or 5 with amsgrad; Adadelta 4; Adagrad 3; RMSprop 3 to 5.
///
/// Throws BalanceError unless 1 <= partitions <= layers, and UsageError unless batch and chunks are positive and
/// param_scale is finite and not negative.
Balance balance_by_size(int partitions, const CheckedProfile& profile, std::int64_t batch, std::int64_t chunks = 1,
                        double param_scale = 2.0);
}  // namespace pipescope
