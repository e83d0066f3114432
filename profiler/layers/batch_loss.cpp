#include "profiler/layers/batch_loss.h"

#include "base/sample_statistics.h"
#include "profiler/layers/layer_bytes.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/layers/profile_assembly.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kLikelyMicroBatches[] = {8, 32};
constexpr double kMostBytes = double{1 << 28};
constexpr int kRepeats = 5;

std::int64_t dimension_of(const ModelEnd& end, std::size_t output) {
    return output < end.output_dimensions.size() ? end.output_dimensions[output] : 0;
}

/// Repeats the micro-batch's outputs up to the size of the batch; the last copy may be partial.
Tensors repeated(const ModelEnd& end, std::int64_t batch) {
    Tensors joined;
    for (std::size_t k = 0; k < end.output.size(); ++k) {
        const at::Tensor& tensor = end.output[k];
        const std::int64_t dimension = dimension_of(end, k);
        const std::int64_t samples = tensor.size(dimension);
        std::vector<at::Tensor> parts(static_cast<std::size_t>(batch / samples), tensor.detach());
        if (batch % samples > 0) {
            parts.push_back(tensor.detach().narrow(dimension, 0, batch % samples));
        }
        joined.push_back(at::cat(parts, dimension).set_requires_grad(tensor.requires_grad()));
    }
    return joined;
}

std::vector<std::int64_t> likely_sizes(const ModelEnd& end) {
    const std::int64_t samples = end.output.at(0).size(dimension_of(end, 0));
    const double bytes = std::max(input_bytes(end.input), input_bytes(end.output));
    std::vector<std::int64_t> sizes;
    for (const std::int64_t count : kLikelyMicroBatches) {
        if (bytes * static_cast<double>(count) <= kMostBytes) {
            sizes.push_back(count * samples);
        }
    }
    return sizes;
}
}  // namespace

BatchLoss time_batch_loss(const ModelEnd& end, std::vector<std::int64_t> sizes, std::uint64_t seed) {
    if (sizes.empty()) {
        sizes = likely_sizes(end);
    }
    BatchLoss loss;
    for (const std::int64_t size : sizes) {
        const Tensors output = repeated(end, size);
        Tensors target = end.model.make_batch(size, seed).target;
        for (at::Tensor& tensor : target) {
            tensor = tensor.to(end.chain.device());
        }
        loss.transient_bytes.push_back(static_cast<double>(loss_transient_of(end.chain, output, target)));
        if (const Activation outputs{output, {}}; lacks_a_gradient(outputs)) {
            loss.all_gradients_transient_bytes.push_back(
                static_cast<double>(loss_transient_of(end.chain, requiring_gradients(outputs).tensors, target)));
        }
        end.chain.time_loss(output, target);  // warm-up
        std::vector<double> times;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
            times.push_back(end.chain.time_loss(output, target));
        }
        loss.samples.push_back(size);
        loss.ns.push_back(median(std::move(times)));
    }
    return loss;
}
}  // namespace pipescope
