#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Lets batch norm track the mini-batch instead of each micro-batch.
///
/// Problem: cut into m micro-batches, batch norm would update its running statistics m times, each time with a noisier
/// estimate. Idea: during a forward, its calls of batch_norm write the micro-batch's own mean and unbiased variance
/// (momentum 1) into scratch tensors. After the last micro-batch these are combined, exactly, into those of the
/// mini-batch, and the running statistics move once. A norm that a forward calls several times moves once per call, in
/// call order, as in the plain model. Normalisation itself stays per micro-batch, as in GPipe.
/// The calls are intercepted in the dispatcher (see layer_dispatch_key.h), so this works for any layer whose buffers
/// have the names of torch's batch norm, without replacing modules.
/// Threading: one thread at a time, that of the partition's lane. Source: torchgpipe's DeferredBatchNorm, but without
/// its biased variance and its loss of short batches.
class DeferredBatchNorm {
public:
    /// `buffers` of the partition's layers.
    explicit DeferredBatchNorm(const NamedTensors& buffers);

    /// Discards an unfinished mini-batch with its micro-batches.
    void begin_mini_batch();
    /// Moves the running statistics, once. Until then they are those before the mini-batch, counters included.
    void end_mini_batch();

    /// While it lives, during a micro-batch's forward, batch norms on this thread write here. Without finish(), as
    /// after an exception, counters become those before the micro-batch, if they can.
    class Collecting {
    public:
        explicit Collecting(DeferredBatchNorm& to);
        ~Collecting();
        /// Call after the forward. Throws what torch throws.
        void finish();
        Collecting(const Collecting&) = delete;
        Collecting& operator=(const Collecting&) = delete;
    };

    /// Moments of one micro-batch in one batch norm.
    struct Moments {
        std::int64_t count;  ///< values per channel
        at::Tensor mean;
        at::Tensor variance;  ///< unbiased
    };
    /// True if the tensor is a running mean of this partition. For the dispatcher's kernel, as is add().
    bool tracks(const at::Tensor& running_mean) const;
    void add(const at::Tensor& running_mean, const at::Tensor& running_variance, double momentum, Moments moments);

private:
    struct Call {
        double momentum;
        std::vector<Moments> micro_batches;
    };
    struct Norm {
        at::Tensor running_mean;
        at::Tensor running_variance;
        std::vector<Call> calls;    ///< of one forward
        std::size_t next_call = 0;  ///< in the running micro-batch
    };
    /// A norm's num_batches_tracked, which counts every micro-batch by itself.
    struct Counter {
        at::Tensor tensor;
        at::Tensor before;  ///< at the micro-batch's start
        at::Tensor moved;   ///< by all micro-batches
    };
    void begin_micro_batch();
    void end_micro_batch();

    std::vector<at::Tensor> running_means_;
    std::vector<Counter> counters_;
    std::int64_t micro_batches_ = 0;  // in the mini-batch, so far
    std::vector<Norm> norms_;         // in the mini-batch
};
}  // namespace pipescope
