#pragma once

#include <variant>
#include <vector>

namespace pipescope {
/// `batch` products of an m x k with a k x n matrix.
struct ProductShape {
    double batch = 1;
    double m = 1;
    double n = 1;
    double k = 1;

    friend bool operator==(const ProductShape&, const ProductShape&) = default;
};
/// Attention between its projections, as one kernel. `heads` counts those of all samples; each has so many queries and
/// keys. A backward computes the scores again.
struct AttentionShape {
    double heads = 1;
    double queries = 1;
    double keys = 1;
    double width = 1;        ///< of a query and a key
    double value_width = 1;  ///< of a value
    double pairs = 1;        ///< share of the pairs of queries and keys that count: half if attention is causal
    bool is_backward = false;

    friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};
/// One pass over the logits of a cross entropy, forward or backward.
struct CrossEntropyShape {
    double logits = 1;

    friend bool operator==(const CrossEntropyShape&, const CrossEntropyShape&) = default;
};

/// Demand of a piece of work on a device.
struct DeviceWork {
    double flops = 0;
    double bytes_moved = 0;  ///< read from and written to the device's memory
    double kernels = 1;      ///< number of launches; flops and bytes are their totals
    /// Of each kernel. Unknown for other operators, and in older profiles.
    std::variant<std::monostate, ProductShape, AttentionShape, CrossEntropyShape> shape = {};

    friend bool operator==(const DeviceWork&, const DeviceWork&) = default;
};
/// Demand of operators that run one after the other. Equal operators are one entry with as many kernels.
using Operators = std::vector<DeviceWork>;
}  // namespace pipescope
