// Described and traced models price the same operator alike.

#include "cluster/layout.h"
#include "hardware/operator_times.h"
#include "tests/cluster/clusters.h"

#include <gtest/gtest.h>

#include <memory>

namespace pipescope {
namespace {
constexpr double kPricedTokens = 2048;
constexpr const char* kPricedModel =
    "gpt:layers=2,hidden=4096,heads=32,kv_heads=8,sequence=2048,vocabulary=32000,mlp=14336,gated=true,dropout=false";

/// An H100 that moves bytes in no time, so that products and attention are all that counts.
Cluster cluster_for_shapes() {
    Cluster cluster = load_cluster("dgx-h100", device_catalogue());
    cluster.groups.front().device.memory_bytes_per_second = 1e30;
    cluster.groups.front().device.launch_ns = 0;
    return cluster;
}

/// The products of the model's block, as a trace of a program that joins equal inputs has them.
Operators block_operators(bool is_backward) {
    const auto product = [](double m, double n, double k) {
        return DeviceWork{2 * m * n * k, 1, 1, ProductShape{1, m, n, k}};
    };
    Operators operators;
    for (const auto& [n, k] :
         {std::pair{4096.0 + 2 * 1024, 4096.0}, {4096.0, 4096.0}, {2 * 14336.0, 4096.0}, {4096.0, 14336.0}}) {
        if (is_backward) {
            operators.push_back(product(kPricedTokens, k, n));
            operators.push_back(product(k, n, kPricedTokens));
        } else {
            operators.push_back(product(kPricedTokens, n, k));
        }
    }
    operators.push_back({1, 1, 1, AttentionShape{32, kPricedTokens, kPricedTokens, 128, 128, 0.5, is_backward}});
    return operators;
}

TEST(OperatorPrices, AreThoseOfADescribedBlock) {
    const Cluster cluster = cluster_for_shapes();
    const NodeGroup& group = cluster.groups.front();
    for (const char* name : {"", "torchtitan", "nemo"}) {
        Layout layout;
        if (*name != '\0') {
            layout.program = load_program(name);
        }
        const LayerProfile block =
            language_model_profile(parse_language_model(kPricedModel), cluster, group, layout).layers[1];
        const OperatorTimes times(group.device, "bfloat16", layout.how());
        EXPECT_NEAR(times.all(block_operators(false), {}, 0), block.forward_ns.front(), 1e-6 * block.forward_ns.front())
            << name;
        EXPECT_NEAR(times.all(block_operators(true), {}, 0), block.backward_ns.front(),
                    1e-6 * block.backward_ns.front())
            << name;
    }
}

TEST(OperatorPrices, ARetimedProfileKeepsItsProgram) {
    const Cluster cluster = cluster_for_shapes();
    Profile profile;
    profile.samples = {1};
    profile.dtype = "bfloat16";
    LayerProfile layer;
    layer.name = "block";
    layer.forward_ns = layer.backward_ns = {1};
    layer.output_bytes = {1};
    layer.flops = {1};
    layer.forward_operators = {block_operators(false)};
    layer.backward_operators = {block_operators(true)};
    layer.forward_chains = layer.backward_chains = {{{0, 1, 1}}};
    profile.layers = {layer};
    const DeviceType& device = cluster.groups.front().device;
    const double eager = retimed(profile, device).layers[0].forward_ns[0];
    profile.program = *load_program("torchtitan");
    const Profile estimated = retimed(profile, device);
    EXPECT_GT(estimated.layers[0].forward_ns[0], 1.1 * eager) << "its products reach 0.8 of the usual rate";
    EXPECT_EQ(estimated.program, profile.program);
}
}  // namespace
}  // namespace pipescope
